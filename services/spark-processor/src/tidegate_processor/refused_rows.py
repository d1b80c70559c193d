"""Rows of shapes that a lane refuses: out of the frame, into dead letters. The others keep their places and their ids.

In plain Python, some 10 µs a row, and only for frames that describe a refused shape. A TRUNCATE has no row and goes on.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from tidegate.config.sinks import SinkConfig
from tidegate.contracts.frame import BODY_ENTRY, Frame, FrameKind, SchemaRole, body_messages
from tidegate.errors import RecordError
from tidegate.events import Operation
from tidegate.pgoutput.changes import OPERATIONS, PlacedChange, placed_changes
from tidegate.pgoutput.decode import decode_message
from tidegate.pgoutput.encode import encode_message
from tidegate.pgoutput.messages import Delete, Insert, Relation, Truncate, Type, Update
from tidegate.pgoutput.rewrite import Writer
from tidegate.position import Position
from tidegate.quoting import qualified
from tidegate_processor.schema_changes import ShapePolicy
from tidegate_processor.transforms.registry import ColumnPlan, column_verbs

if TYPE_CHECKING:  # kernels are loaded where frames are decoded, in a worker, and nowhere else
    from tidegate.columns.plans import Shape
    from tidegate.columns.refusals import RejectedChange

_CHANGES = (b"I", b"U", b"D", b"T", b"M")
_PLACE = encode_message(Truncate((), 0))
"""A truncate of no table: it takes the ordinal, as where transforms leave a change out."""


class RefusedRows:
    def __init__(self, lane: SinkConfig, shapes: ShapePolicy) -> None:
        self._takes, self._shapes = lane.takes, shapes
        self._plan = ColumnPlan(column_verbs(lane.transforms), lane.takes)

    def taken_out(self, frame: Frame, after: Position) -> "tuple[Frame, tuple[RejectedChange, ...]]":
        """Of a whole `wal` frame, or of a snapshot frame as sinks take it; a mark has no rows."""
        shapes = self._refused(frame) if self._shapes.refuses_any and frame.header.kind is not FrameKind.MARK else None
        if not shapes:
            return frame, ()
        letters, body = [], []
        changes = placed_changes(frame)
        for lsn, raw in body_messages(frame):
            change = next(changes) if raw[:1] in _CHANGES else None
            letter = self._letter(frame, change, shapes, after) if change is not None else None
            written = raw if letter is None else _PLACE
            letters += [] if letter is None else [letter]
            body.append(BODY_ENTRY.pack(len(written), lsn) + written)
        return replace(frame, body=b"".join(body)) if letters else frame, tuple(letters)

    def _refused(self, frame: Frame) -> "dict[int, Shape]":
        entries = [entry.message for entry in frame.schema if entry.role is SchemaRole.CURRENT]
        refused = [message for message in entries if message[:1] == b"R" and self._shapes.refuses(message)]
        if not refused:
            return {}
        from tidegate.columns.plans import Shape

        described = [decode_message(message) for message in entries]
        types = {each.type_oid: each for each in described if isinstance(each, Type)}
        sources = tuple(encode_message(each) for each in types.values())
        relations = [decode_message(message) for message in refused]
        return {
            each.relation_id: Shape(each, types, (message, *sources))
            for each, message in zip(relations, refused, strict=True)
            if isinstance(each, Relation)
        }

    def _letter(
        self, frame: Frame, change: PlacedChange, shapes: "Mapping[int, Shape]", after: Position
    ) -> "RejectedChange | None":
        message, transaction = change.message, change.transaction
        if not isinstance(message, Insert | Update | Delete) or message.relation_id not in shapes:
            return None
        shape, operation = shapes[message.relation_id], OPERATIONS[type(message)]
        if frame.header.kind is FrameKind.SNAPSHOT:
            operation = Operation.SNAPSHOT
        relation = shape.relation
        is_new = Position(transaction.commit_lsn, change.ordinal) > after
        if not is_new or not self._takes(relation.schema, relation.name, operation):
            return None
        from tidegate.columns.refusals import RejectedChange

        raw = change.raw
        if self._withholds(shape):
            shape, raw = replace(shape, source=()), b""
        return RejectedChange(_refusal(relation), shape, operation, transaction, change.ordinal, change.lsn, raw)

    def _withholds(self, shape: "Shape") -> bool:
        """Whoever may read dead letters must not thereby read what the sink must not."""
        written = self._plan(shape.relation, shape.types, False)
        return any(each.writer is not Writer.COPY for each in written)


def _refusal(table: Relation) -> RecordError:
    name = qualified(table.schema, table.name)
    return RecordError(
        f"{name} has changed its shape, and this sink does not take rows of the new one",
        code="SCHEMA_CHANGE_REFUSED",
        remedy="Prepare the target, set schema_changes of this sink to evolve or ignore for that kind of change, "
        "restart the processor, then replay the dead letters, oldest first.",
    )
