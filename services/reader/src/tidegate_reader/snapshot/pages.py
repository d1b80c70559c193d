"""Which pages of a table have been read, and which come next. Pure.

Invariant: a page is done only when the frames of its rows are durable in the raw topic; what is under way and not done
is read again after a crash, as another reading.
"""

from dataclasses import dataclass, field

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
    """What has moved is being read."""

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

    def put_back(self, pages: Pages) -> None:
        """Whoever read these reads them no more."""
        start, end = pages
        parts = [(first, min(last, start)) for first, last in self.taken if first < start]
        parts += [(max(first, end), last) for first, last in self.taken if last > end]
        self.taken, self.is_moving = merged([*parts, *self.done]), False

    def begin_anew(self, filenode: int, pages: int) -> None:
        self.filenode, self.pages = filenode, pages
        self.done, self.taken = [], []

    def _taken(self, pages: Pages) -> Pages:
        self.taken = merged([*self.taken, pages])
        return pages


def merged(pages: list[Pages]) -> list[Pages]:
    result: list[Pages] = []
    for start, end in sorted(pages):
        if result and start <= result[-1][1]:
            result[-1] = (result[-1][0], max(result[-1][1], end))
        else:
            result.append((start, end))
    return result
