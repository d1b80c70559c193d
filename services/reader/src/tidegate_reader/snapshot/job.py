"""One snapshot under way: which piece is read next, and what is done.

| a table | is read |
| --- | --- |
| before the stream, from the exported snapshot | in pieces of `range`, by every connection |
| beside it, with a key | in pieces that take about `transaction` each, each a window of its own |
| beside it, without a key | whole, as one window: what was inserted meanwhile can't be told apart |
| in several snapshots, with values out of line | once more, for rows that moved to pages that had been read: whole |
| in several snapshots, without published updates | the same |
| where that is too long for one transaction | in pieces, and then whole again: for what moved since those |

A change tells a row's new place and its values, but not those out of line that it leaves unchanged; and a publication
may leave updates out.

Invariant: a piece is given to one reader at a time, and is done only when its rows are durable. A table is complete
when one transaction has seen each row that any other may have passed over.
"""

from dataclasses import dataclass, field, replace

from tidegate.contracts.snapshot_request import RowFilter, split_table
from tidegate.contracts.snapshot_status import SnapshotKind, SnapshotState
from tidegate_reader.snapshot.catalogue import Published, TableShape
from tidegate_reader.snapshot.pages import Heap, Pages
from tidegate_reader.snapshot.queries import OLDEST_TID_RANGE, condition_of
from tidegate_reader.snapshot.records import SnapshotRecord, TableRecord


@dataclass(frozen=True, slots=True)
class Piece:
    table: TableRecord
    published: Published
    heap: Heap
    filenode: int
    """When it was given out."""
    pages: Pages
    is_last: bool
    since: str = ""
    """Of these pages, what has moved since that transaction; empty: all."""
    is_whole: bool = False
    """No smaller ones can be made of it."""

    @property
    def is_moved(self) -> bool:
        return bool(self.since)

    @property
    def owner(self) -> Heap:
        """The table whose pages these are, if they are passed over."""
        return self.table.heap(self.heap.oid)

    def note_reading(self, xmin: int, *, is_exported: bool) -> None:
        if not self.is_moved:
            self.table.note_reading(xmin, is_exported=is_exported)
        elif not self.is_whole:
            self.heap.note_reading(xmin)


@dataclass(slots=True)
class Job:
    record: SnapshotRecord
    tables: dict[int, TableRecord] = field(default_factory=dict)
    published: dict[int, Published] = field(default_factory=dict)
    shapes: dict[int, TableShape] = field(default_factory=dict)
    later: set[int] = field(default_factory=set)
    """Tables that the exported snapshot can't give any more."""
    waits_for: str = ""

    @property
    def id(self) -> bytes:
        return bytes.fromhex(self.record.id)

    @property
    def is_runnable(self) -> bool:
        return self.record.state in (SnapshotState.WAITING, SnapshotState.RUNNING)

    @property
    def named(self) -> dict[str, str]:
        """In its marks."""
        reason = {"reason": self.record.reason} if self.record.reason else {}
        return {"snapshot": self.record.id, **reason}

    @property
    def is_because_of_a_gap(self) -> bool:
        return self.record.kind is SnapshotKind.RESNAPSHOT

    @property
    def is_owed(self) -> bool:
        """What a gap has taken is not in the raw topic yet. One that a person has cancelled nobody waits for."""
        return self.is_because_of_a_gap and self.record.state not in (SnapshotState.DONE, SnapshotState.CANCELLED)

    @property
    def rows(self) -> int:
        return sum(table.rows for table in self.tables.values())

    @property
    def size(self) -> int:
        return sum(table.size for table in self.tables.values())

    @property
    def fraction(self) -> float:
        pages = sum(heap.pages for table in self.tables.values() for heap in table.heaps)
        done = sum(heap.done_pages for table in self.tables.values() for heap in table.heaps)
        return done / pages if pages else 1.0 if self.is_read else 0.0

    @property
    def is_read(self) -> bool:
        return self.record.has_plan and all(table.state.is_over for table in self.tables.values())

    def summed_up(self, record: SnapshotRecord, end_offset: int) -> SnapshotRecord:
        """What is known when its tables are forgotten."""
        return replace(
            record,
            rows=self.rows,
            size=self.size,
            tables_done=sum(table.state is SnapshotState.DONE for table in self.tables.values()),
            tables_planned=len(self.tables),
            end_offset=end_offset,
        )

    def set(self, state: SnapshotState) -> None:
        self.record = replace(self.record, state=state)

    def next_piece(self, pages: int, server_version: int, *, is_exported: bool) -> Piece | None:
        for table in self.tables.values():
            if table.state.is_over or (is_exported and table.relation_id in self.later):
                continue
            published = self.published.get(table.relation_id)
            if published is None:
                continue
            in_ranges = server_version >= OLDEST_TID_RANGE and (is_exported or table.has_key)
            piece = _next(table, published, pages if in_ranges else 2**32)
            if piece is not None:
                return replace(piece, is_whole=piece.is_whole or not in_ranges)
        return None

    def finished(self, piece: Piece, rows: int, size: int) -> None:
        if piece.filenode != piece.owner.filenode:
            return  # the table was rewritten while it was read
        if piece.is_moved and piece.is_whole:
            piece.table.moved.append(piece.heap.oid)
        elif piece.is_moved:
            piece.owner.passed_over(piece.pages)
        else:
            piece.heap.finish(piece.pages)
        piece.table.rows += rows
        piece.table.size += size

    def given_back(self) -> None:
        """No reader is left: what was not finished is nobody's."""
        for table in self.tables.values():
            for heap in table.heaps:
                heap.give_back()

    def filters_of(self, table: TableRecord) -> str | None:
        return condition_of([each for each in self.record.filters if _names(each, table)])


def is_complete(table: TableRecord) -> bool:
    return all(heap.is_done for heap in table.heaps) and not _moved(table)


def _next(table: TableRecord, published: Published, pages: int) -> Piece | None:
    for heap in table.heaps:
        taken = heap.take(pages)
        if taken is not None:
            return Piece(table, published, heap, heap.filenode, taken, is_last=taken[1] >= heap.pages)
    if all(heap.is_done for heap in table.heaps):
        for heap in _moved(table):
            since = heap.since or table.horizon
            if heap.passing is not None:
                if (taken := heap.passing.take(pages)) is not None:
                    is_last = taken[1] >= heap.passing.pages
                    return Piece(table, published, heap.passing, heap.filenode, taken, is_last=is_last, since=since)
            elif not heap.is_moving:
                heap.is_moving = True
                return Piece(table, published, heap, heap.filenode, (0, 0), is_last=True, since=since, is_whole=True)
    return None


def _moved(table: TableRecord) -> list[Heap]:
    if table.is_one_reading:
        return []
    moves = [heap for heap in table.heaps if not table.tells_updates or (table.has_key and heap.has_toast)]
    return [heap for heap in moves if heap.pages and heap.oid not in table.moved]


def _names(given: RowFilter, table: TableRecord) -> bool:
    return split_table(given.table) == (table.schema, table.table)
