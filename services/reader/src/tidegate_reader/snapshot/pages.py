"""Which pages of a table have been read, and which come next; and which once more, for rows that moved. Pure.

Invariant: a page is done only when the frames of its rows are durable in the raw topic; what is under way and not done
is read again after a crash, as another reading. Every version of a row whose transaction is older than `since` has been
read, wherever it lies; `since` goes on only when all pages have been passed over, to the oldest of those readings.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

Pages = tuple[int, int]
"""First page, and the one behind the last."""


@dataclass(slots=True)
class Heap:
    """One physical table: a table that is not partitioned, or a leaf of one that is."""

    oid: int
    schema: str
    name: str
    filenode: int
    """Another one means that the table was rewritten: its rows are elsewhere."""
    pages: int
    has_toast: bool = False
    done: list[Pages] = field(default_factory=list)
    """In order, with gaps between them."""
    taken: list[Pages] = field(default_factory=list)
    """Under way, or done."""
    is_moving: bool = False
    """What has moved is being read, in one transaction."""
    since: str = ""
    """What has moved is looked for since that transaction; empty: since the table's horizon."""
    passing: Heap | None = None
    """What has moved is being read in pieces, before one transaction is tried again: these are done. What moves
    meanwhile is left to the next time, and is less."""
    long_tries: int = 0
    """In one transaction, which was too short."""

    @property
    def done_pages(self) -> int:
        return sum(end - start for start, end in self.done)

    @property
    def is_done(self) -> bool:
        return self.done_pages >= self.pages

    def take(self, size: int) -> Pages | None:
        """The next pages that nobody reads; the last reading reaches to the end of the table, wherever that is."""
        start = 0
        for first, end in self.taken:
            if start < first:
                return self._taken((start, min(first, start + size)))
            start = max(start, end)
        return self._taken((start, min(self.pages, start + size))) if start < self.pages else None

    def finish(self, pages: Pages) -> None:
        self.done = merged([*self.done, pages])

    def give_back(self) -> None:
        """Nobody reads any more."""
        self.taken, self.is_moving = list(self.done), False
        if self.passing is not None:
            self.passing.give_back()

    def put_back(self, pages: Pages) -> None:
        """Whoever read these reads them no more."""
        start, end = pages
        parts = [(first, min(last, start)) for first, last in self.taken if first < start]
        parts += [(max(first, end), last) for first, last in self.taken if last > end]
        self.taken, self.is_moving = merged([*parts, *self.done]), False

    def begin_anew(self, filenode: int, pages: int) -> None:
        self.filenode, self.pages = filenode, pages
        self.done, self.taken = [], []
        self.since, self.passing = "", None

    def note_reading(self, xmin: int) -> None:
        if not self.since or is_older(xmin, int(self.since)):
            self.since = str(xmin)

    def pass_over(self) -> None:
        """In pieces what one transaction was too short for."""
        self.passing = replace(self, done=[], taken=[], since="", is_moving=False)

    def passed_over(self, pages: Pages) -> None:
        assert self.passing is not None
        self.passing.finish(pages)
        if self.passing.is_done:
            self.since, self.passing = self.passing.since, None

    def _taken(self, pages: Pages) -> Pages:
        self.taken = merged([*self.taken, pages])
        return pages


def is_older(one: int, other: int) -> bool:
    """Of two transactions, by the lower halves of their numbers: as `age` has it."""
    return (one - other) % 2**32 >= 2**31


def merged(pages: list[Pages]) -> list[Pages]:
    result: list[Pages] = []
    for start, end in sorted(pages):
        if result and start <= result[-1][1]:
            result[-1] = (result[-1][0], max(result[-1][1], end))
        else:
            result.append((start, end))
    return result
