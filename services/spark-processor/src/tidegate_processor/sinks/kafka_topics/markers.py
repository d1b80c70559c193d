"""BEGIN and COMMIT events to a topic of their own, in the Kafka transaction of what they are about.

Invariant: a consumer of committed records who sees a COMMIT can see all changes up to it, in every topic.
"""

from collections.abc import Mapping
from typing import Final

from tidegate.contracts.frame import Frame, FrameKind
from tidegate.contracts.generation import Generation
from tidegate.position import Position
from tidegate_processor.encodings.envelope import EventContext
from tidegate_processor.encodings.transactions import TransactionEvents
from tidegate_processor.sinks.shared.lane_producer import LaneProducer
from tidegate_processor.target_topics import TargetTopics

_SETTINGS: Final[Mapping[str, str]] = {"cleanup.policy": "delete"}
_PARTITION = 0


class TransactionMarkers:
    def __init__(self, pipeline: str, topic: str, topics: TargetTopics) -> None:
        self._pipeline, self._topic, self._topics = pipeline, topic, topics
        self._generation: Generation | None = None
        self._events: TransactionEvents | None = None

    def send(self, frame: Frame, after: Position, producer: LaneProducer) -> tuple[int, int]:
        """How many, and their bytes."""
        if frame.header.kind is not FrameKind.WAL or not frame.header.messages:
            return 0, 0
        made = list(self._of(frame.header.generation).of(frame, after))
        if not made:
            return 0, 0
        self._topics.needed(self._topic, _SETTINGS, producer.client)
        producer.send(self._topic, _PARTITION, [{"value": value, "key": key} for key, value in made])
        return len(made), sum(len(value) for _, value in made)

    def _of(self, generation: Generation) -> TransactionEvents:
        if self._events is None or generation != self._generation:
            context = EventContext(self._pipeline, generation.database, generation.system_identifier)
            self._events, self._generation = TransactionEvents(context), generation
        return self._events
