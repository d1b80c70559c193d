"""Rows of shapes that a lane refuses: out of the frame, into dead letters. The others keep their places and their ids.

In plain Python, some 10 µs a row, and only for frames that describe a refused shape; so a row is not decoded but looked
at from outside: whose it is, and where it stands. A TRUNCATE has no row and goes on, of a table without columns: so no
transform and no target looks for those of the shape that is refused.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from tidegate.config.sinks import SinkConfig
from tidegate.contracts.frame import BODY_ENTRY, Frame, FrameKind, SchemaEntry, SchemaRole, body_messages
from tidegate.contracts.refused_shape import RefusedShape
from tidegate.errors import DecodeError
from tidegate.events import Operation
from tidegate.lsn import Lsn
from tidegate.pgoutput.decode import decode_message
from tidegate.pgoutput.encode import encode_message
from tidegate.pgoutput.messages import Begin, Truncate
from tidegate.position import Position
from tidegate_processor.refused_tables import RefusedTable, RefusedTables
from tidegate_processor.schema_changes import ShapePolicy

if TYPE_CHECKING:  # kernels are loaded where frames are decoded, in a worker, and nowhere else
    from tidegate.columns.refusals import RejectedChange

_ROWS = {b"I": Operation.INSERT, b"U": Operation.UPDATE, b"D": Operation.DELETE}
_OTHER_CHANGES = (b"T", b"M")
_PLACE = encode_message(Truncate((), 0))
"""A truncate of no table: it takes the ordinal, as where transforms leave a change out."""


class _Placed(NamedTuple):
    lsn: Lsn
    raw: bytes
    of_row: tuple[Begin, int] | None
    """Its transaction and its ordinal."""


@dataclass(slots=True)
class _Met:
    """A table whose shape is refused somewhere in a frame."""

    table: RefusedTable
    where: Sequence[RefusedShape]
    has_rows: bool = False
    """That are not refused."""

    def refuses(self, position: Position) -> bool:
        is_refused = any(each.holds(position) for each in self.where)
        self.has_rows |= not is_refused
        return is_refused


class RefusedRows:
    def __init__(self, lane: SinkConfig, shapes: ShapePolicy) -> None:
        self._takes, self._shapes = lane.takes, shapes
        self._tables = RefusedTables(lane)

    def taken_out(self, frame: Frame, after: Position) -> "tuple[Frame, tuple[RejectedChange, ...]]":
        """Of a whole `wal` frame, or of a snapshot frame as sinks take it; a mark has no rows."""
        met = self._met(frame) if self._shapes.refuses_any and frame.header.kind is not FrameKind.MARK else None
        if not met:
            return frame, ()
        letters: list[RejectedChange] = []
        for each in met.values():
            frame, undecided = each.table.judged(frame, after)
            letters += undecided
        by_id = {each.table.relation.relation_id: each for each in met.values()}
        body: list[bytes] = []
        for placed in _placed(frame):
            table = by_id.get(int.from_bytes(placed.raw[1:5])) if placed.of_row is not None else None
            is_refused = table is not None and table.refuses(_stands(frame, placed))
            letters += self._letters(frame, placed, table.table, after) if table is not None and is_refused else ()
            written = _PLACE if is_refused else placed.raw
            body.append(BODY_ENTRY.pack(len(written), placed.lsn) + written)
        return replace(frame, schema=_without_columns(frame, met), body=b"".join(body)), tuple(letters)

    def _met(self, frame: Frame) -> dict[bytes, _Met]:
        """By the messages of its schema section."""
        entries = [entry.message for entry in frame.schema if entry.role is SchemaRole.CURRENT]
        types = tuple(message for message in entries if message[:1] == b"Y")
        first, last = frame.header.first, frame.header.last
        met = {}
        for message in entries:
            refusals = self._shapes.refusals(message) if message[:1] == b"R" else []
            if where := [each for each in refusals if each.since <= last and (not each.until or first < each.until)]:
                met[message] = _Met(self._tables.of(message, types), where)
        return met

    def _letters(
        self, frame: Frame, placed: _Placed, table: RefusedTable, after: Position
    ) -> "Iterator[RejectedChange]":
        """One, if the sink would have been given the row."""
        assert placed.of_row is not None
        transaction, ordinal = placed.of_row
        relation = table.relation
        operation = Operation.SNAPSHOT if frame.header.kind is FrameKind.SNAPSHOT else _ROWS[placed.raw[:1]]
        if Position(transaction.commit_lsn, ordinal) > after and self._takes(relation.schema, relation.name, operation):
            from tidegate.columns.refusals import RejectedChange

            rejected = RejectedChange(table.error, table.shape, operation, transaction, ordinal, placed.lsn, placed.raw)
            yield table.letter(rejected)


def _stands(frame: Frame, placed: _Placed) -> Position:
    """In the stream: a row of a snapshot stands where its frame does."""
    if frame.header.kind is FrameKind.SNAPSHOT or placed.of_row is None:
        return frame.header.first
    transaction, ordinal = placed.of_row
    return Position(transaction.commit_lsn, ordinal)


def _without_columns(frame: Frame, met: Mapping[bytes, _Met]) -> tuple[SchemaEntry, ...]:
    """The shapes that no row is left of."""
    bare = {message: each.table.bare for message, each in met.items() if not each.has_rows}
    return tuple(
        replace(entry, message=bare[entry.message]) if entry.message in bare else entry for entry in frame.schema
    )


def _placed(frame: Frame) -> Iterator[_Placed]:
    """Every message of a frame."""
    opened = frame.header.open_transaction
    transaction = Begin(opened.commit_lsn, opened.commit_time, opened.xid) if opened else None
    ordinal = opened.next_ordinal if opened else 0
    for lsn, raw in body_messages(frame):
        tag = raw[:1]
        if tag == b"B":
            begin = decode_message(raw)
            assert isinstance(begin, Begin)
            transaction, ordinal = begin, 0
        if tag not in _ROWS and tag not in _OTHER_CHANGES:
            yield _Placed(lsn, raw, None)
            continue
        if transaction is None:
            raise DecodeError("a change outside a transaction", code="DECODE_ORDER")
        yield _Placed(lsn, raw, (transaction, ordinal) if tag in _ROWS else None)
        ordinal += 1
