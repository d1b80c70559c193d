"""How long ago something last came through a lane, end to end, as its ack tells; pure.

The reader writes a heartbeat into the source whenever nothing else was written: it goes all the way and moves every
ack. So an ack that stands still, while the source has more, says that nothing comes through, whatever runs.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

LEAST_SECONDS = 30.0
"""A lane may take so long to start again, and nobody need be called."""
BEATS = 3


@dataclass(frozen=True, slots=True)
class Flow:
    """Of one lane."""

    still_seconds: float = 0.0
    """Since its ack last moved; 0: the sink has all that the source has."""
    behind_seconds: float = 0.0
    limit_seconds: float = LEAST_SECONDS


class Passages:
    def __init__(self) -> None:
        self._moved: dict[str, tuple[int, float]] = {}
        """Of each lane, its ack, and when that was first seen."""

    def flows(
        self, acked: Mapping[str, int], behind: Mapping[str, float], server: int, now: float, beat: timedelta
    ) -> dict[str, Flow]:
        """`acked`: of each lane that has ever acked. One that went back is another generation's, and begins anew.
        `behind`: how old what it delivers is, in seconds, where that is known."""
        limit = max(LEAST_SECONDS, BEATS * beat.total_seconds())
        for sink, level in acked.items():
            if sink not in self._moved or self._moved[sink][0] != level:
                self._moved[sink] = level, now
        return {
            sink: Flow(max(0.0, now - self._moved[sink][1]) if server > level else 0.0, behind.get(sink, 0.0), limit)
            for sink, level in acked.items()
        }
