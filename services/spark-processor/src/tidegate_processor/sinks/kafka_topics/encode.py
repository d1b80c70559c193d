"""Changes to Kafka records. Pure: imports no client."""

from collections.abc import Iterator
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from tidegate.pgoutput.messages import LogicalMessage
from tidegate_processor.decode import Change, Shape
from tidegate_processor.encodings.envelope import EventContext
from tidegate_processor.encodings.json import JsonPlan
from tidegate_processor.encodings.topics import topic_name

# A change of a table without identity has no key. Spread at random it would lose its order; one partition keeps it.
_KEYLESS_PARTITION = 0
_ANY_PARTITION = -1


@dataclass(frozen=True, slots=True)
class Record:
    topic: str
    partition: int
    key: bytes | None
    value: bytes

    @property
    def size_bytes(self) -> int:
        return len(self.value) + len(self.key or b"")


class Encoder:
    """Plans each shape once; the plan lives as long as the shape does."""

    def __init__(self, template: str, pipeline: str) -> None:
        self._template = template
        self._pipeline = pipeline
        self._plans: WeakKeyDictionary[Shape, tuple[str, JsonPlan]] = WeakKeyDictionary()

    def encode(self, change: Change, context: EventContext) -> Iterator[Record]:
        """One record a row; a truncate is one record for each relation it names."""
        if isinstance(change.message, LogicalMessage):
            return
        for shape in change.shapes:
            topic, plan = self._plan(shape, context)
            event = plan.encode(
                change.message,
                xid=change.transaction.xid,
                commit_lsn=change.transaction.commit_lsn,
                commit_time=change.transaction.commit_time,
                ordinal=change.ordinal,
                lsn=change.lsn,
            )
            partition = _KEYLESS_PARTITION if event.key is None else _ANY_PARTITION
            yield Record(topic, partition, event.key, event.value)

    def _plan(self, shape: Shape, context: EventContext) -> tuple[str, JsonPlan]:
        planned = self._plans.get(shape)
        if planned is None:
            relation = shape.relation
            topic = topic_name(self._template, self._pipeline, relation.schema, relation.name)
            planned = self._plans[shape] = (topic, JsonPlan(relation, shape.types, context))
        return planned
