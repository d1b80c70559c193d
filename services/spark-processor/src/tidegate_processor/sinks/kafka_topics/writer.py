"""The only file of this sink that talks to Kafka.

Events, dead letters and the cursor of the raw topic are committed in one Kafka transaction. Opening fences whoever held
the transactional id before; only then is the committed cursor read.
"""

import logging
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.error import KafkaError

from tidegate.columns.json_encode import TopicEvents
from tidegate.columns.refusals import RejectedChange
from tidegate.config.kafka import Compression
from tidegate.config.pipeline import PipelineConfig
from tidegate.config.sinks import SinkConfig
from tidegate.contracts import names
from tidegate.contracts.cursor import Cursor
from tidegate.contracts.dead_letter import DeadLetter
from tidegate.contracts.frame import Frame
from tidegate.errors import RecordError, TransientError
from tidegate.failpoints import Failpoint, reach
from tidegate.position import Position
from tidegate_processor.kafka_clients import client, librdkafka_settings, read_cursor
from tidegate_processor.kafka_refusals import mapped, refused
from tidegate_processor.sinks.base import Capabilities, Receipt
from tidegate_processor.sinks.kafka_topics.config import KafkaTopicsOptions
from tidegate_processor.sinks.kafka_topics.encode import Encoder, Message, messages
from tidegate_processor.target_topics import LARGEST_RECORD_BYTES, RECORD_OVERHEAD_BYTES, TargetTopics, Terms

# A left-over transaction holds back consumers that read committed records for at most this long.
_TRANSACTION_TIMEOUT_MS = 10_000
# The brokers finish a transaction behind the answer to its commit, and ask whoever begins the next one meanwhile to
# come again. After 100 ms, the default, a busy lane's transactions took 119 ms at p90; after 2 ms, 16.
_RETRY_BACKOFF_MS = 2
_CALL_SECONDS = 30.0
# Their key is the lane, so compaction would leave the last one only.
_DEAD_LETTER_SETTINGS = {"retention.ms": "-1", "cleanup.policy": "delete"}
_FIRST_PARTITION = 0
# For the client's queue to have room again: it holds a Kafka transaction, so it is full with very large frames only.
_QUEUE_SECONDS = 0.1
_WAITING_MESSAGES = 500
_CLIENT_LOG = logging.getLogger("tidegate.kafka.client")


class KafkaTopicsSink:
    capabilities = Capabilities(exactly_once=True, deletes=True, truncates=True)

    def __init__(self, config: PipelineConfig, sink: SinkConfig) -> None:
        self._options = KafkaTopicsOptions.model_validate(sink.options)
        self._settings = librdkafka_settings(config.kafka)
        self._raw_topic = config.raw_topic.name
        self._pipeline, self._sink = config.pipeline, sink.name
        self._dead_letters = names.dead_letter_topic(config.pipeline)
        self._encoder = Encoder(config.pipeline, sink, self._options.topic)
        self._topics = TargetTopics(
            self._settings,
            partitions=self._options.partitions,
            replication_factor=self._options.replication_factor,
            batch_bytes=self._options.batch_bytes,
        )
        self._producer: Producer | None = None
        self._consumer: Consumer | None = None
        self._in_transaction = False
        self._waiting: list[tuple[str, int, list[Message]]] = []
        self._waiting_messages = 0
        self._touched: dict[str, int] = {}

    def ping(self) -> None:
        self._topics.ping()

    def open(self) -> Cursor | None:
        self._producer = client(Producer, self._settings | self._producer_settings(), logger=_CLIENT_LOG)
        with mapped("fence the lane's earlier writer"):
            self._producer.init_transactions(_CALL_SECONDS)
        self._consumer = client(Consumer, self._settings | self._consumer_settings(), logger=_CLIENT_LOG)
        return read_cursor(self._consumer, self._raw_topic)

    def write(self, frame: Frame, after: Position) -> Receipt:
        encoded = self._encoder.encode(frame, after)
        rejected = list(encoded.rejected)
        producer, _ = self._opened()
        topics = [events.topic for events in encoded.topics]
        terms = self._topics.terms(topics, self._options.topic_config, producer)
        count = written = 0
        for events in encoded.topics:
            taken = self._write_events(events, terms[events.topic], rejected)
            count += len(taken)
            written += taken.value_bytes
        return Receipt(count, written, tuple(rejected), encoded.newest_commit_time, sum(self._touched.values()))

    def _write_events(
        self, events: TopicEvents, terms: Terms | RecordError, rejected: list[RejectedChange]
    ) -> TopicEvents:
        """Those that the topic takes."""
        if isinstance(terms, RecordError):
            rejected += events.refused(terms)
            return events.none
        if terms.wants_keys and events.keyless.any():
            rejected += events.where(events.keyless).refused(_without_a_key(events.topic))
            events = events.where(~events.keyless)
        fits = events.sizes <= terms.largest_bytes
        if not fits.all():
            rejected += events.where(~fits).refused(_too_large(events.topic, terms.largest_bytes))
            events = events.where(fits)
        for partition, run in events.runs():
            self._produce(events.topic, partition, messages(run))
        if len(events):
            self._touched[events.topic] = min(self._touched.get(events.topic, 0) + len(events), terms.partitions)
        return events

    def write_dead_letters(self, letters: Sequence[DeadLetter]) -> None:
        topic = self._dead_letters
        producer, _ = self._opened()
        terms = self._topics.terms([topic], _DEAD_LETTER_SETTINGS, producer)[topic]
        if isinstance(terms, RecordError):
            raise terms
        for letter in letters:
            value = letter.encode()
            # The frame's address is enough to find it in the raw topic.
            if len(value) + len(letter.lane) > terms.largest_bytes:
                value = replace(letter, payload=b"", schema=()).encode()
            self._produce(topic, _FIRST_PARTITION, [{"value": value, "key": letter.lane.encode()}])

    def commit(self, cursor: Cursor) -> None:
        producer, consumer = self._opened()
        place = TopicPartition(self._raw_topic, 0, cursor.next_offset, cursor.encode())
        with mapped("commit"):
            self._begin(producer)
            group = consumer.consumer_group_metadata()
            _until_it_is_done(lambda: producer.send_offsets_to_transaction([place], group, _CALL_SECONDS))
        self._send(producer)
        reach(Failpoint.LANE_CURSOR_SENT)
        with mapped("commit"):
            _until_it_is_done(lambda: producer.commit_transaction(_CALL_SECONDS))
        self._in_transaction = False
        self._touched.clear()

    def close(self) -> None:
        producer, consumer = self._producer, self._consumer
        self._producer = self._consumer = None
        self._forget_waiting()
        self._touched.clear()
        if consumer is not None:
            consumer.close()
        if producer is not None and self._in_transaction:
            self._in_transaction = False
            # Where this fails, a newer writer has fenced us and aborted it, or the broker does when it times out.
            with suppress(KafkaException):
                producer.abort_transaction(_CALL_SECONDS)

    def _produce(self, topic: str, partition: int, batch: list[Message]) -> None:
        """Few messages wait for the commit, which sends the cursor first. If the brokers still finish the transaction
        before, they refuse whatever comes first; a cursor comes again after 2 ms, a partition after 20."""
        producer, _ = self._opened()
        self._waiting.append((topic, partition, batch))
        self._waiting_messages += len(batch)
        if self._in_transaction or self._waiting_messages > _WAITING_MESSAGES:
            with mapped("begin a transaction"):
                self._begin(producer)
            self._send(producer)

    def _send(self, producer: Producer) -> None:
        """In order: of a batch that the client's queue does not hold, it takes the first ones."""
        for topic, partition, each in self._waiting:
            batch = each
            while self._take(producer, topic, partition, batch) < len(batch):
                batch = [message for message in batch if "_error" in message]
                for message in batch:
                    error: Any = message.pop("_error")
                    if error.code() != KafkaError._QUEUE_FULL:
                        raise refused(error, "produce")
                producer.poll(_QUEUE_SECONDS)
        self._forget_waiting()

    def _forget_waiting(self) -> None:
        self._waiting.clear()
        self._waiting_messages = 0

    @staticmethod
    def _take(producer: Producer, topic: str, partition: int, batch: list[Message]) -> int:
        with mapped("produce"):
            return int(producer.produce_batch(topic, batch, partition=partition))

    def _begin(self, producer: Producer) -> None:
        if not self._in_transaction:
            producer.begin_transaction()
            self._in_transaction = True

    def _opened(self) -> tuple[Producer, Consumer]:
        if self._producer is None or self._consumer is None:
            raise TransientError("the sink is closed", code="SINK_CLOSED")
        return self._producer, self._consumer

    def _producer_settings(self) -> dict[str, Any]:
        return {
            "transactional.id": names.lane_transactional_id(self._pipeline, self._sink),
            "transaction.timeout.ms": _TRANSACTION_TIMEOUT_MS,
            # As Kafka's own clients partition, so that a key meets the same partition whoever wrote it.
            "partitioner": "murmur2_random",
            "compression.type": "none" if self._options.compression is Compression.NONE else self._options.compression,
            "message.max.bytes": LARGEST_RECORD_BYTES,
            "batch.size": self._options.batch_bytes - RECORD_OVERHEAD_BYTES,
            "queue.buffering.max.messages": 200_000,
            "linger.ms": 1,
            "retry.backoff.ms": _RETRY_BACKOFF_MS,
        }

    def _consumer_settings(self) -> dict[str, Any]:
        return {
            "group.id": names.lane_group(self._pipeline, self._sink),
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
        }


def _until_it_is_done(call: Callable[[], None]) -> None:
    """The client comes again twice and then asks us to: the brokers may take longer over the transaction before."""
    deadline = time.monotonic() + _CALL_SECONDS
    while True:
        try:
            return call()
        except KafkaException as error:
            if not error.args[0].retriable() or time.monotonic() > deadline:
                raise
            time.sleep(_RETRY_BACKOFF_MS / 1000)


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
