"""What a lane has written and not committed, and where the sink's transaction may end.

| what was taken ends      | and                                                      | it ends here              |
| ------------------------ | -------------------------------------------------------- | ------------------------- |
| where no transaction is  | a limit is reached, or nothing more waits                | yes                       |
| inside one of the source | what came of that one reaches a limit                    | yes, and that one is cut  |
| inside one of the source | its rest has not come for `_LONGEST_SECONDS`             | yes, likewise             |
| inside one of the source | else                                                     | no: its end is waited for |

Invariant: what a transaction of the source brought is cut only if it is larger than a limit, if its end does not come,
or if the lane has to end: at a stop, or with Spark's batch, for the next one may be another worker's.
"""

import time
from operator import ge, sub

_EVENTS = 10_000
_BYTES = 16 * 2**20
# Each takes the brokers 2 ms (decision 60), and a transaction is aborted after 10 s: brokers may be 25 times as slow.
_PARTITIONS = 200
_LIMITS = (_EVENTS, _BYTES, _PARTITIONS)
_NOTHING = (0, 0, 0)
_LONGEST_SECONDS = 3.0
"""A third of that time: brokers may be slow as well."""


class Portion:
    def __init__(self) -> None:
        self.commit_times: list[int] = []
        """Of the newest transactions, one a frame."""
        self._sizes = self._whole = _NOTHING
        self._begun = 0.0
        self._is_whole = True

    @property
    def has_events(self) -> bool:
        return self._sizes[0] > 0

    def add(self, events: int, size: int, partitions: int) -> None:
        """`partitions` of all of it."""
        if not self.has_events:
            self._begun = time.monotonic()
        self._sizes = self._sizes[0] + events, self._sizes[1] + size, partitions

    def ends(self, *, is_whole: bool) -> None:
        """At the end of each frame: whether no transaction of the source is open there."""
        self._is_whole = is_whole
        if is_whole:
            self._whole = self._sizes

    @property
    def is_full(self) -> bool:
        return self.may_end and any(map(ge, self._sizes, _LIMITS))

    @property
    def may_end(self) -> bool:
        if self._is_whole or not self.has_events:
            return True
        is_larger = any(map(ge, map(sub, self._sizes, self._whole), _LIMITS))
        return is_larger or time.monotonic() - self._begun >= _LONGEST_SECONDS

    def clear(self) -> None:
        self._sizes = self._whole = _NOTHING
        self.commit_times.clear()
