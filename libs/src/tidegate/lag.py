"""How far behind, in bytes and in seconds; pure.

    server ──read──▶ raw topic ──deliver (each lane)──▶ sink, acked ──confirm──▶ slot

Invariant: a stage that has caught up has lag 0 in both units, however long nothing has happened.
"""

from bisect import bisect_right
from collections import deque
from dataclasses import dataclass

HISTORY = 3_600
"""Samples of one a second: an hour, beyond which the newest delivered commit says how late a lane is."""
RATE_SECONDS = 600.0
"""Long enough that a burst does not look like the end, short enough that a flood does."""


@dataclass(frozen=True, slots=True)
class Lag:
    bytes: int
    seconds: float


IDLE = Lag(0, 0.0)


class LsnHistory:
    """When a level was first seen to pass an LSN: what turns a distance in bytes into an age."""

    def __init__(self, samples: int = HISTORY) -> None:
        self._times: deque[float] = deque(maxlen=samples)
        self._levels: deque[int] = deque(maxlen=samples)

    def record(self, time: float, level: int) -> None:
        if self._levels and level < self._levels[-1]:
            self._times.clear()  # another generation, or a server restored from a backup: the past does not compare
            self._levels.clear()
        if level and (not self._levels or level > self._levels[-1]):
            self._times.append(time)
            self._levels.append(level)

    def age(self, reached: int, now: float) -> float | None:
        """Since when the level has been above `reached`: 0 if it is not, none if that was before the first sample."""
        if not self._levels or reached >= self._levels[-1]:
            return 0.0
        index = bisect_right(self._levels, reached)
        return None if index == 0 else max(0.0, now - self._times[index])

    def rate(self, now: float, seconds: float = RATE_SECONDS) -> float | None:
        """Bytes a second of late; none before there are two samples to compare."""
        index = bisect_right(self._times, now - seconds)
        if not self._times or index >= len(self._times) or now <= self._times[index]:
            return None
        return (self._levels[-1] - self._levels[index]) / (now - self._times[index])

    def span(self, now: float) -> float:
        """How far back it goes: what has been ahead for longer than it tells has been so for as long at least."""
        return max(0.0, now - self._times[0]) if self._times else 0.0


def lag(ahead: int, behind: int, history: LsnHistory, now: float, newest_commit: float | None = None) -> Lag:
    """`newest_commit`: seconds since the newest change that arrived was committed, for what no sample tells."""
    if behind >= ahead:
        return IDLE
    age = history.age(behind, now)
    return Lag(ahead - behind, max(history.span(now), newest_commit or 0.0) if age is None else age)
