"""The only file of this sink that talks to Kafka: events to their topics, with the cursor of the raw topic behind them.

Invariant: an event is sent on terms that its topic has, or is refused; what is sent becomes durable with the cursor.
"""

from collections.abc import Sequence
from typing import Any

from tidegate.columns.json_encode import TopicEvents
from tidegate.columns.refusals import RejectedChange
from tidegate.config.load import parse_options
from tidegate.config.pipeline import PipelineConfig
from tidegate.config.sinks import SinkConfig
from tidegate.contracts.cursor import Cursor
from tidegate.contracts.dead_letter import DeadLetter
from tidegate.contracts.frame import Frame
from tidegate.errors import RecordError
from tidegate.observability.trace_context import Sampler
from tidegate.position import Position
from tidegate_processor.kafka_clients import librdkafka_settings
from tidegate_processor.seat import Seat
from tidegate_processor.sinks.base import Capabilities, Receipt
from tidegate_processor.sinks.kafka_topics.config import DeliveryGuarantee, KafkaTopicsOptions
from tidegate_processor.sinks.kafka_topics.encode import RecordEncoder
from tidegate_processor.sinks.kafka_topics.markers import TransactionMarkers
from tidegate_processor.sinks.shared.dead_letter_topic import DeadLetterTopic
from tidegate_processor.sinks.shared.lane_producer import LaneProducer
from tidegate_processor.sinks.shared.plain import PlainProducer
from tidegate_processor.sinks.shared.seated import GatheredProducer, SeatedProducer
from tidegate_processor.sinks.shared.transactional import TransactionalProducer
from tidegate_processor.target_topics import TargetTopics, Terms


class KafkaTopicsSink:
    def __init__(
        self, config: PipelineConfig, sink: SinkConfig, seat: Seat | None = None, *, whole: bool = False
    ) -> None:
        """`seat` of one of several writers; `whole` for the driver, who speaks for all."""
        self._options = options = parse_options(sink, KafkaTopicsOptions)
        once = options.delivery is DeliveryGuarantee.EXACTLY_ONCE
        self.capabilities = Capabilities(
            exactly_once=once, deletes=True, truncates=True, notices=True, fences=once, letters_too=once
        )
        sampler = None if config.tracing is None else Sampler(config.tracing.ratio)
        self._encoder = RecordEncoder(config.pipeline, sink, options, sampler)
        self._topics = TargetTopics(
            librdkafka_settings(config.kafka),
            partitions=options.partitions,
            replication_factor=options.replication_factor,
            batch_bytes=options.batch_bytes,
        )
        self._dead_letters = DeadLetterTopic(config.pipeline, self._topics)
        self._producer = _producer(config, sink, options, seat, whole=whole)
        topic = options.transaction_topic
        self._markers = None if topic is None else TransactionMarkers(config.pipeline, topic, self._topics)
        self._touched: dict[str, int] = {}

    def ping(self) -> None:
        self._topics.ping()

    def open(self) -> Cursor | None:
        return self._producer.open()

    def write(self, frame: Frame, after: Position) -> Receipt:
        encoded = self._encoder.encode(frame, after)
        rejected = list(encoded.rejected)
        topics = [events.topic for events in encoded.topics]
        terms = self._topics.terms(topics, self._options.topic_config, self._producer.client)
        count = written = 0
        for events in encoded.topics:
            taken = self._write_events(frame, events, terms[events.topic], rejected)
            count += len(taken)
            written += taken.value_bytes
        if self._markers is not None:
            markers, size = self._markers.send(frame, after, self._producer)
            count, written = count + markers, written + size
        return Receipt(count, written, tuple(rejected), encoded.newest_commit_time, sum(self._touched.values()))

    def _write_events(
        self, frame: Frame, events: TopicEvents, terms: Terms | RecordError, rejected: list[RejectedChange]
    ) -> TopicEvents:
        """Those that the topic takes."""
        if isinstance(terms, RecordError):
            rejected += events.refused(terms)
            return events.none
        if terms.wants_keys and events.keyless_events:
            rejected += events.where(events.keyless).refused(_without_a_key(events.topic))
            events = events.where(~events.keyless)
        if events.largest_bytes > terms.largest_bytes:
            fits = events.sizes <= terms.largest_bytes
            rejected += events.where(~fits).refused(_too_large(events.topic, terms.largest_bytes))
            events = events.where(fits)
        for partition, run in events.runs():
            self._producer.send(events.topic, partition, self._encoder.records(frame, run), terms.partitions)
        if len(events):
            self._touched[events.topic] = min(self._touched.get(events.topic, 0) + len(events), terms.partitions)
        return events

    def write_dead_letters(self, letters: Sequence[DeadLetter]) -> None:
        self._dead_letters.send(letters, self._producer)

    def commit(self, cursor: Cursor) -> None:
        self._producer.commit(cursor)
        self._touched.clear()

    def close(self) -> None:
        self._touched.clear()
        self._producer.close()


def _producer(
    config: PipelineConfig, sink: SinkConfig, options: KafkaTopicsOptions, seat: Seat | None, *, whole: bool
) -> LaneProducer:
    terms: dict[str, Any] = {"compression": options.compression, "batch_bytes": options.batch_bytes}
    if options.delivery is not DeliveryGuarantee.EXACTLY_ONCE:
        return PlainProducer(config, sink.name, **terms)
    if seat is not None:
        return SeatedProducer(config, sink.name, seat, **terms)
    kind = GatheredProducer if whole else TransactionalProducer
    return kind(config, sink.name, **terms)


def _without_a_key(topic: str) -> RecordError:
    return RecordError(
        f"an event has no key, and topic {topic} is compacted: it takes none without",
        code="SINK_KEY_MISSING",
        remedy="Give the topic cleanup.policy=delete, restart the processor and replay it. Or give the table a replica "
        "identity; a TRUNCATE never has a key: leave it out of the publication or of the sink's routes.",
    )


def _too_large(topic: str, limit: int) -> RecordError:
    return RecordError(
        f"an event is larger than the {limit} bytes that topic {topic} takes",
        code="SINK_RECORD_TOO_LARGE",
        remedy="Raise the topic's max.message.bytes and replay it, or leave the large column out of the publication.",
    )
