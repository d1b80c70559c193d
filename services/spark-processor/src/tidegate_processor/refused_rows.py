"""Rows of shapes that a lane refuses: out of the frame, into dead letters. The others keep their places and their ids.

In plain Python, some 10 µs a row, and only for frames that describe a refused shape; so a row is not decoded but looked
at from outside: whose it is, and where it stands. A TRUNCATE has no row and goes on.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from tidegate.config.sinks import SinkConfig
from tidegate.contracts.frame import BODY_ENTRY, Frame, FrameKind, SchemaRole, body_messages
from tidegate.contracts.refused_shape import RefusedShape
from tidegate.errors import DecodeError, RecordError
from tidegate.events import Operation
from tidegate.lsn import Lsn
from tidegate.pgoutput.decode import decode_message
from tidegate.pgoutput.encode import encode_message
from tidegate.pgoutput.messages import Begin, Relation, Truncate, Type
from tidegate.pgoutput.rewrite import Writer
from tidegate.position import Position
from tidegate.quoting import qualified
from tidegate_processor.schema_changes import ShapePolicy
from tidegate_processor.transforms.registry import ColumnPlan, column_verbs

if TYPE_CHECKING:  # kernels are loaded where frames are decoded, in a worker, and nowhere else
    from tidegate.columns.plans import Shape
    from tidegate.columns.refusals import RejectedChange

_ROWS = {b"I": Operation.INSERT, b"U": Operation.UPDATE, b"D": Operation.DELETE}
_OTHER_CHANGES = (b"T", b"M")
_PLACE = encode_message(Truncate((), 0))
"""A truncate of no table: it takes the ordinal, as where transforms leave a change out."""
# More live only on sources with very many tables; then all are looked at anew.
_KEPT = 4096


@dataclass(frozen=True, slots=True)
class _Refused:
    shape: "Shape"
    error: RecordError
    is_withheld: bool
    """Whoever may read dead letters must not thereby read what the sink must not."""


class _Placed(NamedTuple):
    lsn: Lsn
    raw: bytes
    change: tuple[Begin, int] | None
    """Of a row: its transaction and its ordinal."""


@dataclass(frozen=True, slots=True)
class _Table:
    """Of one frame."""

    refused: _Refused
    where: Sequence[RefusedShape]

    def refuses(self, position: Position) -> bool:
        return any(each.holds(position) for each in self.where)


class RefusedRows:
    def __init__(self, lane: SinkConfig, shapes: ShapePolicy) -> None:
        self._takes, self._shapes = lane.takes, shapes
        self._plan = ColumnPlan(column_verbs(lane.transforms), lane.takes)
        self._known: dict[tuple[bytes, tuple[bytes, ...]], _Refused] = {}

    def taken_out(self, frame: Frame, after: Position) -> "tuple[Frame, tuple[RejectedChange, ...]]":
        """Of a whole `wal` frame, or of a snapshot frame as sinks take it; a mark has no rows."""
        tables = self._refused(frame) if self._shapes.refuses_any and frame.header.kind is not FrameKind.MARK else None
        if not tables:
            return frame, ()
        letters: list[RejectedChange] = []
        body: list[bytes] = []
        for placed in _placed(frame):
            letter = self._letter(frame, placed, tables, after)
            written = placed.raw if letter is None else _PLACE
            letters += [] if letter is None else [letter]
            body.append(BODY_ENTRY.pack(len(written), placed.lsn) + written)
        return replace(frame, body=b"".join(body)) if letters else frame, tuple(letters)

    def _refused(self, frame: Frame) -> dict[int, _Table]:
        entries = [entry.message for entry in frame.schema if entry.role is SchemaRole.CURRENT]
        types = tuple(message for message in entries if message[:1] == b"Y")
        refusals = {message: self._shapes.refusals(message) for message in entries if message[:1] == b"R"}
        tables = [_Table(self._seen(message, types), where) for message, where in refusals.items() if where]
        return {each.refused.shape.relation.relation_id: each for each in tables}

    def _seen(self, source: bytes, types: tuple[bytes, ...]) -> _Refused:
        found = self._known.get((source, types))
        if found is None:
            if len(self._known) >= _KEPT:
                self._known.clear()
            found = self._known[source, types] = self._looked_at(source, types)
        return found

    def _looked_at(self, source: bytes, types: tuple[bytes, ...]) -> _Refused:
        from tidegate.columns.plans import Shape

        relation, described = decode_message(source), map(decode_message, types)
        assert isinstance(relation, Relation)
        by_oid = {each.type_oid: each for each in described if isinstance(each, Type)}
        written = self._plan(relation, by_oid, False)
        is_withheld = any(each.writer is not Writer.COPY for each in written)
        return _Refused(
            Shape(relation, by_oid, () if is_withheld else (source, *types)), _refusal(relation), is_withheld
        )

    def _letter(
        self, frame: Frame, placed: _Placed, tables: Mapping[int, _Table], after: Position
    ) -> "RejectedChange | None":
        table = tables.get(int.from_bytes(placed.raw[1:5])) if placed.change is not None else None
        if table is None or placed.change is None:
            return None
        transaction, ordinal = placed.change
        position = Position(transaction.commit_lsn, ordinal)
        is_of_snapshot = frame.header.kind is FrameKind.SNAPSHOT  # then it stands where its frame does
        operation = Operation.SNAPSHOT if is_of_snapshot else _ROWS[placed.raw[:1]]
        refused, relation = table.refused, table.refused.shape.relation
        if not table.refuses(frame.header.first if is_of_snapshot else position):
            return None
        if position <= after or not self._takes(relation.schema, relation.name, operation):
            return None
        from tidegate.columns.refusals import RejectedChange

        raw = b"" if refused.is_withheld else placed.raw
        return RejectedChange(refused.error, refused.shape, operation, transaction, ordinal, placed.lsn, raw)


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


def _refusal(table: Relation) -> RecordError:
    name = qualified(table.schema, table.name)
    return RecordError(
        f"{name} has changed its shape, and this sink does not take rows of the new one",
        code="SCHEMA_CHANGE_REFUSED",
        remedy="Prepare the target, set schema_changes of this sink to evolve or ignore for that kind of change, "
        "restart the processor, then replay the dead letters, oldest first.",
    )
