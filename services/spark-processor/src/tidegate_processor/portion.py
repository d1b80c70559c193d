"""What a lane has written and not committed, and where the sink's transaction may end.

| what was taken ends      | and                                                      | it ends here              |
| ------------------------ | -------------------------------------------------------- | ------------------------- |
| where no transaction is  | it is large, or old, or nothing more waits               | yes                       |
| where no transaction is  | its partitions are few, or have enough each              | when the stage looks up   |
| inside one of the source | what came of that one is large                           | yes, and that one is cut  |
| inside one of the source | its rest has not come for `_LONGEST_SECONDS`             | yes, likewise             |
| inside one of the source | else                                                     | no: its end is waited for |

Large is what has many events, or bytes, for each of its partitions too; or very many of either; or more partitions, or
bytes, than brokers have shown to commit in `_COMMIT_SECONDS`.

Invariant: what a transaction of the source brought is cut only if it is large, if its end does not come, or if the lane
has to end: at a stop, or with Spark's batch, for the next one may be another worker's.
"""

import time
from typing import NamedTuple

_EVENTS = (40_000, 200_000)
_BYTES = (16 * 2**20, 64 * 2**20)
"""For few partitions or without knowing the brokers, and at most. A commit takes a backlog's lane 10 ms and more, in
which it does nothing else: every 10,000 events, it was a fifth of a snapshot's way."""
_NEVER_THIN = 10_000
"""Whose partitions want no more than this is not held back for more."""
_EVENTS_A_PARTITION = 200
_BYTES_A_PARTITION = 2**16
"""A partition costs client and brokers the same, however few events it gets (decision 60)."""
_PARTITIONS = (200, 5_000)
"""Without knowing the brokers, and at most. What takes longer than a transaction may, brokers abort; it is tried again
by a lane that does not know them."""
_COMMIT_SECONDS = 2.0
"""A fifth of what a transaction may take: brokers may be three times as slow as they were last time."""
_LONGEST_SECONDS = 3.0
"""A third of that time: brokers may be slow as well."""


class Sizes(NamedTuple):
    events: int = 0
    bytes: int = 0
    partitions: int = 0


class Portion:
    def __init__(self) -> None:
        self.commit_times: list[int] = []
        """Of the newest transactions, one a frame."""
        self._sizes = self._whole = Sizes()
        self._begun = 0.0
        self._is_whole = True
        self._most_partitions, self._most_bytes = _PARTITIONS[0], _BYTES[0]

    @property
    def has_events(self) -> bool:
        return self._sizes.events > 0

    def add(self, events: int, size: int, partitions: int) -> None:
        """`partitions` of all of it."""
        if not self.has_events:
            self._begun = time.monotonic()
        self._sizes = Sizes(self._sizes.events + events, self._sizes.bytes + size, partitions)

    def ends(self, *, is_whole: bool) -> None:
        """At the end of each frame: whether no transaction of the source is open there."""
        self._is_whole = is_whole
        if is_whole:
            self._whole = self._sizes

    @property
    def is_full(self) -> bool:
        return self.may_end and self.has_events and (self._is_large(self._sizes) or self._is_old)

    @property
    def may_end(self) -> bool:
        if self._is_whole or not self.has_events:
            return True
        rest = Sizes(*(all_of_it - whole for all_of_it, whole in zip(self._sizes, self._whole, strict=True)))
        return self._is_large(rest) or self._is_old

    def may_end_now(self, *, more_waits: bool) -> bool:
        """While more waits, not with a few events for each of many partitions."""
        wanted = self._sizes.partitions * _EVENTS_A_PARTITION
        is_thin = self._sizes.events < wanted > _NEVER_THIN and not self.is_full
        return self.may_end and not (more_waits and is_thin)

    @property
    def _is_old(self) -> bool:
        return time.monotonic() - self._begun >= _LONGEST_SECONDS

    def _is_large(self, sizes: Sizes) -> bool:
        events = _within(_EVENTS, _EVENTS_A_PARTITION * sizes.partitions)
        size = min(self._most_bytes, _within(_BYTES, _BYTES_A_PARTITION * sizes.partitions))
        return sizes.events >= events or sizes.bytes >= size or sizes.partitions >= self._most_partitions

    def committed(self, seconds: float) -> None:
        """What the brokers needed for it says how many partitions, and bytes, the next one may have."""
        if self._sizes.partitions and seconds > 0:
            self._most_partitions = _within(_PARTITIONS, int(_COMMIT_SECONDS * self._sizes.partitions / seconds))
            self._most_bytes = _within(_BYTES, int(_COMMIT_SECONDS * self._sizes.bytes / seconds))

    def clear(self) -> None:
        self._sizes = self._whole = Sizes()
        self.commit_times.clear()


def _within(limits: tuple[int, int], wanted: int) -> int:
    least, most = limits
    return max(least, min(most, wanted))
