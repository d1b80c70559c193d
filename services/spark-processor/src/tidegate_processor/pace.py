"""By which trigger a lane runs whose sink says `auto`: at once, and in micro-batches while it is far behind.

| runs by  | changes to | when, for 10 s without a break                                             |
| -------- | ---------- | -------------------------------------------------------------------------- |
| realtime | batch      | half of what it delivers was committed more than 30 s ago                   |
| batch    | realtime   | half of what it delivers was committed less than 5 s ago, or nothing comes  |

A change drains the lane and starts its next incarnation, a seam of two to five seconds: there is one a minute at most.
A lane that delivers nothing because its sink takes nothing stays as it is.
"""

import math
import time
from collections.abc import Callable

from tidegate.config.sinks import Trigger
from tidegate.contracts.status import LaneStatus

_BEHIND_SECONDS = 30.0
_CAUGHT_UP_SECONDS = 5.0
_SUSTAINED_SECONDS = 10.0
_BETWEEN_CHANGES_SECONDS = 60.0


class Pace:
    def __init__(self, trigger: Trigger, clock: Callable[[], float] = time.monotonic) -> None:
        self.wanted = Trigger.BATCH if trigger is Trigger.BATCH else Trigger.REALTIME
        """By which the next incarnation runs; never `auto`."""
        self.trigger = self.wanted
        """By which this one does, until it has ended."""
        self._is_fixed = trigger is not Trigger.AUTO
        self._clock = clock
        self._changed = -math.inf
        self._wrong_since: float | None = None
        """Since when the other trigger has been the better one."""
        self._heard: LaneStatus | None = None

    def begin(self) -> Trigger:
        """An incarnation starts."""
        self.trigger = self.wanted
        return self.trigger

    def changes(self, status: LaneStatus | None, *, is_idle: bool) -> bool:
        """Whether the lane is to stop now, for its next incarnation runs by the other trigger. `is_idle`: it runs in
        micro-batches and is between two, so all that has come is delivered."""
        if self._is_fixed or status is None or status == self._heard:
            return False
        is_better = self._other_is_better(status, is_idle)
        self._heard = status
        now = self._clock()
        if not is_better:
            self._wrong_since = None
            return False
        self._wrong_since = now if self._wrong_since is None else self._wrong_since
        if now - self._wrong_since < _SUSTAINED_SECONDS or now - self._changed < _BETWEEN_CHANGES_SECONDS:
            return False
        self.wanted = Trigger.BATCH if self.trigger is Trigger.REALTIME else Trigger.REALTIME
        self._changed, self._wrong_since = now, None
        return True

    def _other_is_better(self, status: LaneStatus, is_idle: bool) -> bool:
        before = self._heard
        delivers = status.events > (before.events if before and before.incarnation == status.incarnation else 0)
        if self.trigger is Trigger.REALTIME:
            return delivers and status.latency_p50_seconds > _BEHIND_SECONDS
        return status.latency_p50_seconds < _CAUGHT_UP_SECONDS if delivers else is_idle
