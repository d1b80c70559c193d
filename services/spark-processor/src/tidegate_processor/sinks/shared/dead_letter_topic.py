"""Dead letters on their way to the pipeline's topic: made once, kept for ever, one partition.

Invariant: a letter is durable before the place behind it is committed: with it in one Kafka transaction, or flushed
before. The same rejected change has the same id, so a letter that comes twice is known.
"""

from collections.abc import Sequence
from dataclasses import replace

from confluent_kafka import Producer

from tidegate.config.pipeline import PipelineConfig
from tidegate.contracts import names
from tidegate.contracts.dead_letter import DeadLetter
from tidegate_processor.kafka_clients import librdkafka_settings
from tidegate_processor.sinks.shared.lane_producer import BATCH_BYTES, LaneProducer
from tidegate_processor.sinks.shared.plain import PlainProducer
from tidegate_processor.target_topics import TargetTopics

# Their key is the lane, so compaction would leave the last one only.
_SETTINGS = {"retention.ms": "-1", "cleanup.policy": "delete"}
_FIRST_PARTITION = 0


class DeadLetterTopic:
    def __init__(self, pipeline: str, topics: TargetTopics) -> None:
        self._topic, self._topics = names.dead_letter_topic(pipeline), topics

    def send(self, letters: Sequence[DeadLetter], producer: LaneProducer) -> None:
        """All in one batch: a frame may have thousands."""
        if not letters:
            return
        largest = self._largest_bytes(producer.client)
        batch = [{"value": _value(letter, largest), "key": letter.lane.encode()} for letter in letters]
        producer.send(self._topic, _FIRST_PARTITION, batch)

    def make(self, producer: LaneProducer) -> None:
        """Where it is missing; or say why there can be none."""
        self._largest_bytes(producer.client)

    def _largest_bytes(self, producer: Producer) -> int:
        return self._topics.needed(self._topic, _SETTINGS, producer).largest_bytes


def _value(letter: DeadLetter, largest_bytes: int) -> bytes:
    value = letter.encode()
    if len(value) + len(letter.lane) > largest_bytes:
        # The frame's address is enough to find it in the raw topic.
        value = replace(letter, payload=b"", schema=()).encode()
    return value


class DeadLetterBox:
    """For sinks whose cursor lives elsewhere: what was sent is durable when `flush` has returned. Most lanes never
    need it, so it reaches for Kafka with the first letter only."""

    def __init__(self, config: PipelineConfig, sink: str) -> None:
        topics = TargetTopics(librdkafka_settings(config.kafka), partitions=1, batch_bytes=BATCH_BYTES)
        self._topic = DeadLetterTopic(config.pipeline, topics)
        self._producer = PlainProducer(config, sink)
        self._is_open = False

    def send(self, letters: Sequence[DeadLetter]) -> None:
        if not self._is_open and letters:
            self._producer.open()
            self._is_open = True
        self._topic.send(letters, self._producer)

    def flush(self) -> None:
        if self._is_open:
            self._producer.flush()

    def close(self) -> None:
        self._is_open = False
        self._producer.close()
