"""Frames to events by the plain, readable reference: what kernels are compared with, and what sinks without one use."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from tidegate.columns.refusals import RejectedChange
from tidegate.contracts.frame import Frame
from tidegate.errors import RecordError
from tidegate.events import Operation
from tidegate.pgoutput.messages import LogicalMessage
from tidegate.position import BEGINNING, Position
from tidegate_processor.decode import Change, Shape, decode_changes
from tidegate_processor.encodings.envelope import EncodedEvent, EventContext
from tidegate_processor.encodings.json import JsonPlan

Route = Callable[[str, str, Operation], str | None]


@dataclass(frozen=True, slots=True)
class ReferenceEvent:
    topic: str
    change: Change
    event: EncodedEvent


@dataclass(slots=True)
class ReferenceEvents:
    events: list[ReferenceEvent] = field(default_factory=list)
    """In commit order."""
    rejected: list[RejectedChange] = field(default_factory=list)

    def of_topic(self, topic: str) -> list[tuple[bytes | None, bytes]]:
        return [(each.event.key, each.event.value) for each in self.events if each.topic == topic]


def encode(frame: Frame, route: Route, pipeline: str, after: Position = BEGINNING) -> ReferenceEvents:
    generation = frame.header.generation
    context = EventContext(pipeline, generation.database, generation.system_identifier)
    made = ReferenceEvents()
    for change, shape in row_changes(frame, after):
        relation = shape.relation
        try:
            topic = route(relation.schema, relation.name, change.operation)
            if topic is not None:
                event = _event(change, shape, context)
                made.events.append(ReferenceEvent(topic, change, event))
        except RecordError as error:
            made.rejected.append(rejected(change, shape, error))
    return made


def row_changes(frame: Frame, after: Position) -> Sequence[tuple[Change, Shape]]:
    """A truncate once for each relation that it names; messages not at all. All of the frame, or a DecodeError."""
    return [
        (change, shape)
        for change in decode_changes(frame, after)
        for shape in change.shapes
        if not isinstance(change.message, LogicalMessage)
    ]


def rejected(change: Change, shape: Shape, error: RecordError) -> RejectedChange:
    return RejectedChange(
        error,
        shape,
        change.operation,
        change.transaction,
        change.ordinal,
        change.lsn,
        change.raw,  # type: ignore[arg-type]
    )


def taken(
    frame: Frame, after: Position, takes: Callable[[str, str, Operation], bool]
) -> Iterator[tuple[Change, Shape]]:
    """As a sink with these routes is given them."""
    for change, shape in row_changes(frame, after):
        if takes(shape.relation.schema, shape.relation.name, change.operation):
            yield change, shape


def _event(change: Change, shape: Shape, context: EventContext) -> EncodedEvent:
    transaction = change.transaction
    return _plan(shape, context).encode(
        change.message,  # type: ignore[arg-type]
        xid=transaction.xid,
        commit_lsn=transaction.commit_lsn,
        commit_time=transaction.commit_time,
        ordinal=change.ordinal,
        lsn=change.lsn,
        of_snapshot=change.of_snapshot,
    )


@lru_cache(maxsize=4096)
def _plan(shape: Shape, context: EventContext) -> JsonPlan:
    return JsonPlan(shape.relation, shape.types, context)
