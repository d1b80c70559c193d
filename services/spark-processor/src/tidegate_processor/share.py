"""A writer's share of what comes: the frames as its sink is given them.

Invariant: beside the others a writer delivers what it owns, alone what nobody has delivered yet; in both cases each
change has the position and the id that it has in a lane of one writer.
"""

from typing import TYPE_CHECKING

from tidegate.config.sinks import SinkConfig
from tidegate.contracts.frame import Frame, FrameKind
from tidegate.contracts.mark import MarkKind, decode_mark
from tidegate.errors import ConfigError
from tidegate.pgoutput.messages import ReplicaIdentity
from tidegate.pgoutput.rewrite import Writer
from tidegate.position import Position
from tidegate_processor.seat import Seat
from tidegate_processor.transforms.registry import ColumnPlan, column_verbs

if TYPE_CHECKING:  # kernels are loaded where frames are decoded, in a worker, and nowhere else
    from tidegate.columns.owners import FrameOwners, Owned
    from tidegate.columns.plans import Shape

_EVENTS = frozenset({MarkKind.SCHEMA_CHANGE, MarkKind.SNAPSHOT_STARTED, MarkKind.SNAPSHOT_COMPLETED})
_MANY_TO_ONE = frozenset({Writer.DROP, Writer.FIXED})
_SHAPES_KEPT = 4096


class Share:
    def __init__(self, seat: Seat, lane: SinkConfig) -> None:
        self._seat = seat
        self._plan = ColumnPlan(column_verbs(lane.transforms), lane.takes)
        self._owners: FrameOwners | None = None
        self._looked_at: tuple[Frame, Position, Owned] | None = None
        self._checked: set[Shape] = set()

    def is_for_all(self, frame: Frame, after: Position) -> bool:
        """Whether something in it has to be in order with the changes of every writer."""
        kind = frame.header.kind
        if kind is FrameKind.MARK:
            return decode_mark(frame.body).kind in _EVENTS
        return kind is FrameKind.WAL and _has_messages(frame) and self._owned(frame, after).is_for_all

    def of(self, frame: Frame, after: Position) -> tuple[Frame, Position]:
        """What is to be delivered of a frame, and behind which position. A row of a snapshot is new by its offset."""
        if frame.header.kind is FrameKind.MARK or not _has_messages(frame):
            return frame, after
        if not self._seat.is_alone:
            owned = self._owned(frame, after)
            return self._frames().only(frame, owned, owned.of(self._seat.writer)), after
        if frame.header.kind is FrameKind.SNAPSHOT or len(set(self._seat.positions)) == 1:
            return frame, after
        lowest = min(self._seat.positions)
        owned = self._owned(frame, lowest)
        return self._frames().only(frame, owned, owned.above(self._seat.positions)), lowest

    def _owned(self, frame: Frame, after: Position) -> "Owned":
        """A frame is asked about twice: whether it is for all, and what of it is ours."""
        known = self._looked_at
        if known is None or known[0] is not frame or known[1] != after:
            owned = self._frames().of(frame, after)
            self._check(self._frames().shapes(owned))
            known = self._looked_at = frame, after, owned
        return known[2]

    def _frames(self) -> "FrameOwners":
        if self._owners is None:
            from tidegate.columns.owners import FrameOwners

            self._owners = FrameOwners(self._seat.writers)
        return self._owners

    def _check(self, shapes: "tuple[Shape, ...]") -> None:
        """Rows with different keys are different writers': with one key left for them, they would lose their order."""
        for shape in set(shapes) - self._checked:
            relation = shape.relation
            written = self._plan(relation, shape.types, False)
            keys = {each.writer for column, each in zip(relation.columns, written, strict=True) if column.is_key}
            if relation.replica_identity is not ReplicaIdentity.FULL and keys & _MANY_TO_ONE:
                raise _key_transformed(f"{relation.schema}.{relation.name}")
        if len(self._checked) > _SHAPES_KEPT:
            self._checked.clear()
        self._checked.update(shapes)


def _has_messages(frame: Frame) -> bool:
    """Ticks have none; a snapshot's rows are counted as changes."""
    return frame.header.messages > 0 or frame.header.changes > 0


def _key_transformed(table: str) -> ConfigError:
    return ConfigError(
        f"a transform takes a key column of {table} away, or gives it one value, and the lane has several writers",
        code="WRITERS_KEY_TRANSFORMED",
        remedy="Set writers: 1 for this sink, leave the table to another sink, or mask the column by hash or token.",
    )
