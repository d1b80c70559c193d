"""Frames to changes: each row operation with the transaction it belongs to and its place in it.

A frame decodes alone: its schema section describes every relation its changes need, and its header says which
transaction was open when it began. Shapes are shared between frames, so that what is planned once a shape is kept.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from tidegate.contracts.frame import Frame, FrameKind, SchemaRole
from tidegate.errors import DecodeError
from tidegate.events import Operation
from tidegate.lsn import Lsn
from tidegate.pgoutput.changes import OPERATIONS, RowMessage, placed_changes
from tidegate.pgoutput.decode import decode_message
from tidegate.pgoutput.messages import Begin, LogicalMessage, Relation, Truncate, Type
from tidegate.position import MAX_ORDINAL, Position

# More shapes than this are live only on sources with very many tables; then the oldest are decoded anew.
_SHAPES_KEPT = 4096


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Shape:
    """One version of one relation. Compared by identity: equal bytes give the same object."""

    relation: Relation
    types: Mapping[int, Type]
    source: tuple[bytes, ...]
    """The messages it was made from, for a dead letter."""


@dataclass(frozen=True, slots=True)
class Change:
    message: RowMessage
    shapes: tuple[Shape, ...]
    """The one relation of a row; every listed relation of a truncate; none for a logical message."""
    transaction: Begin
    ordinal: int
    lsn: Lsn
    raw: bytes
    of_snapshot: bool = False
    """A row that was there before: an insert that says so, of a transaction that stands for its name."""

    @property
    def position(self) -> Position:
        return Position(self.transaction.commit_lsn, self.ordinal)

    @property
    def operation(self) -> Operation:
        return Operation.SNAPSHOT if self.of_snapshot else OPERATIONS[type(self.message)]


def decode_changes(frame: Frame, after: Position) -> Iterator[Change]:
    """The changes above `after`: what lies at or below it was delivered before."""
    shapes, of_snapshot = _shapes(frame), frame.header.kind is FrameKind.SNAPSHOT
    for message, transaction, ordinal, lsn, raw in placed_changes(frame):
        if (transaction.commit_lsn, ordinal) > after:
            yield Change(message, _shapes_of(message, shapes), transaction, ordinal, lsn, raw, of_snapshot)


def skip_partial_transaction(frame: Frame) -> Position | None:
    """A lane without a past can't deliver half a transaction: it begins with the first one that is complete."""
    opened = frame.header.open_transaction
    return Position(opened.commit_lsn, MAX_ORDINAL) if opened and opened.next_ordinal > 0 else None


def _shapes(frame: Frame) -> dict[int, Shape]:
    messages = tuple(entry.message for entry in frame.schema if entry.role is SchemaRole.CURRENT)
    types = tuple(raw for raw in messages if raw[:1] == b"Y")
    shapes = (_shape(raw, types) for raw in messages if raw[:1] == b"R")
    return {shape.relation.relation_id: shape for shape in shapes}


@lru_cache(maxsize=_SHAPES_KEPT)
def _shape(relation: bytes, types: tuple[bytes, ...]) -> Shape:
    decoded = decode_message(relation)
    described = [decode_message(raw) for raw in types]
    if not isinstance(decoded, Relation):
        raise DecodeError("the schema section holds something else than relations and types", code="FRAME_SCHEMA")
    named = {message.type_oid: message for message in described if isinstance(message, Type)}
    return Shape(decoded, named, (relation, *types))


def _shapes_of(message: RowMessage, shapes: Mapping[int, Shape]) -> tuple[Shape, ...]:
    if isinstance(message, LogicalMessage):
        return ()
    ids = message.relation_ids if isinstance(message, Truncate) else (message.relation_id,)
    try:
        return tuple(shapes[relation_id] for relation_id in ids)
    except KeyError as error:
        raise DecodeError(
            f"a change of relation {error.args[0]}, which the frame does not describe", code="RELATION_UNKNOWN"
        ) from None
