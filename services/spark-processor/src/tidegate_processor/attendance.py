"""Whether a lane's writers can still see each other, as the driver sees it.

A writer whose part of a micro-batch has ended says nothing more, and so can't say again what Redis has lost: the others
would wait for it until they give up, with the whole lane.

| where the writers stand, in Redis | |
| --- | --- |
| not all have said it in this incarnation | they are on their way: a lane that does not start fails by itself |
| all have | well |
| all had, and one is missing for longer than those who still work take to say it again | forgotten |
"""

import time
from collections.abc import Iterable

from tidegate.errors import DecodeError
from tidegate_processor.meeting import decode_arrival

_GRACE_SECONDS = 3.0


class Attendance:
    def __init__(self) -> None:
        self._were_all_there = False
        self._missing_since: float | None = None

    @property
    def is_forgotten(self) -> bool:
        return self._missing_since is not None and time.monotonic() - self._missing_since > _GRACE_SECONDS

    def look(self, arrivals: Iterable[bytes], writers: int, incarnation: int) -> None:
        if sum(_is_of(each, incarnation) for each in arrivals) >= writers:
            self._were_all_there, self._missing_since = True, None
        elif self._were_all_there and self._missing_since is None:
            self._missing_since = time.monotonic()


def _is_of(arrival: bytes, incarnation: int) -> bool:
    try:
        return decode_arrival(arrival).incarnation == incarnation
    except DecodeError:
        return False
