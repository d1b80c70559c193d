"""The only file of this sink that talks to Kafka.

Events, dead letters and the cursor of the raw topic are committed in one Kafka transaction. Opening fences whoever held
the transactional id before; only then is the committed cursor read.
"""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from confluent_kafka.error import KafkaError

from tidegate.config.kafka import Compression
from tidegate.config.pipeline import PipelineConfig
from tidegate.config.sinks import SinkConfig
from tidegate.contracts import names
from tidegate.contracts.cursor import Cursor, decode_cursor
from tidegate.contracts.dead_letter import DeadLetter
from tidegate.errors import RecordError, TransientError
from tidegate_processor.decode import Change
from tidegate_processor.encodings.envelope import EventContext
from tidegate_processor.kafka_clients import librdkafka_settings
from tidegate_processor.sinks.base import Capabilities, Receipt, Rejected
from tidegate_processor.sinks.kafka_topics.config import KafkaTopicsOptions
from tidegate_processor.sinks.kafka_topics.encode import Encoder, Record

# A left-over transaction holds back consumers that read committed records for at most this long.
_TRANSACTION_TIMEOUT_MS = 10_000
_CALL_SECONDS = 30.0
_PING_SECONDS = 5.0
# Kafka's own limit for a request; a topic's lower limit is told by the broker.
_MAX_RECORD_BYTES = 16 * 2**20
_DEAD_LETTER_RETENTION_MS = "-1"
_CLIENT_LOG = logging.getLogger("tidegate.kafka.client")


class KafkaTopicsSink:
    capabilities = Capabilities(exactly_once=True, deletes=True, truncates=True)

    def __init__(self, config: PipelineConfig, sink: SinkConfig) -> None:
        self._options = KafkaTopicsOptions.model_validate(sink.options)
        self._settings = librdkafka_settings(config.kafka)
        self._raw_topic = config.raw_topic.name
        self._pipeline, self._sink = config.pipeline, sink.name
        self._dead_letters = names.dead_letter_topic(config.pipeline)
        self._encoder = Encoder(self._options.topic, config.pipeline)
        self._known_topics: set[str] = set()
        self._producer: Producer | None = None
        self._consumer: Consumer | None = None
        self._in_transaction = False

    def ping(self) -> None:
        with _mapped("reach the brokers"):
            self._admin().list_topics(timeout=_PING_SECONDS)

    def open(self) -> Cursor | None:
        self._producer = Producer(self._settings | self._producer_settings(), logger=_CLIENT_LOG)
        with _mapped("fence the lane's earlier writer"):
            self._producer.init_transactions(_CALL_SECONDS)
        self._consumer = Consumer(self._settings | self._consumer_settings(), logger=_CLIENT_LOG)
        with _mapped("read the lane's cursor"):
            (committed,) = self._consumer.committed([TopicPartition(self._raw_topic, 0)], timeout=_CALL_SECONDS)
        return decode_cursor(committed.metadata) if committed.metadata else None

    def write(self, changes: Sequence[Change], context: EventContext) -> Receipt:
        events = written = 0
        rejected = []
        for change in changes:
            try:
                records = list(self._encoder.encode(change, context))
                for record in records:
                    self._produce(record)
            except RecordError as error:
                rejected.append(Rejected(change, error))
                continue
            events += len(records)
            written += sum(len(record.value) for record in records)
        return Receipt(events, written, tuple(rejected))

    def write_dead_letters(self, letters: Sequence[DeadLetter]) -> None:
        self._ensure_topic(self._dead_letters, {"retention.ms": _DEAD_LETTER_RETENTION_MS})
        for letter in letters:
            self._produce(Record(self._dead_letters, 0, letter.lane.encode(), letter.encode()))

    def commit(self, cursor: Cursor) -> None:
        producer, consumer = self._opened()
        place = TopicPartition(self._raw_topic, 0, cursor.next_offset, cursor.encode())
        with _mapped("commit"):
            self._begin(producer)
            producer.send_offsets_to_transaction([place], consumer.consumer_group_metadata(), _CALL_SECONDS)
            producer.commit_transaction(_CALL_SECONDS)
        self._in_transaction = False

    def close(self) -> None:
        producer, consumer = self._producer, self._consumer
        self._producer = self._consumer = None
        if consumer is not None:
            consumer.close()
        if producer is not None and self._in_transaction:
            self._in_transaction = False
            # Where this fails, a newer writer has fenced us and aborted it, or the broker does when it times out.
            with suppress(KafkaException):
                producer.abort_transaction(_CALL_SECONDS)

    def _produce(self, record: Record) -> None:
        producer, _ = self._opened()
        self._ensure_topic(record.topic, self._options.topic_config)
        with _mapped("begin a transaction"):
            self._begin(producer)
        arguments: dict[str, Any] = {"value": record.value, "key": record.key, "partition": record.partition}
        while True:
            try:
                producer.produce(record.topic, **arguments)
                return
            except BufferError:  # the client's queue is full: let it send
                producer.poll(0.1)
            except KafkaException as error:
                raise _record_or_transient(error) from error

    def _begin(self, producer: Producer) -> None:
        if not self._in_transaction:
            producer.begin_transaction()
            self._in_transaction = True

    def _opened(self) -> tuple[Producer, Consumer]:
        if self._producer is None or self._consumer is None:
            raise TransientError("the sink is closed", code="SINK_CLOSED")
        return self._producer, self._consumer

    def _ensure_topic(self, topic: str, settings: dict[str, str]) -> None:
        if topic in self._known_topics:
            return
        options = self._options
        new = NewTopic(topic, options.partitions, options.replication_factor, config=settings)
        admin = self._admin()  # kept until the answer is there: a client that goes takes its requests with it
        with _mapped("create a topic"):
            try:
                admin.create_topics([new])[topic].result(_CALL_SECONDS)
            except KafkaException as error:
                if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise
        self._known_topics.add(topic)

    def _admin(self) -> AdminClient:
        return AdminClient(self._settings)

    def _producer_settings(self) -> dict[str, Any]:
        return {
            "transactional.id": names.lane_transactional_id(self._pipeline, self._sink),
            "transaction.timeout.ms": _TRANSACTION_TIMEOUT_MS,
            # As Kafka's own clients partition, so that a key meets the same partition whoever wrote it.
            "partitioner": "murmur2_random",
            "compression.type": "none" if self._options.compression is Compression.NONE else self._options.compression,
            "message.max.bytes": _MAX_RECORD_BYTES,
            "queue.buffering.max.messages": 200_000,
            "linger.ms": 1,
        }

    def _consumer_settings(self) -> dict[str, Any]:
        return {
            "group.id": names.lane_group(self._pipeline, self._sink),
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
        }


@contextmanager
def _mapped(doing: str) -> Iterator[None]:
    """Whatever Kafka refuses here, the lane starts again from its committed cursor: nothing is lost by giving up."""
    try:
        yield
    except KafkaException as error:
        raise _transient(error, doing) from error


def _record_or_transient(error: KafkaException) -> RecordError | TransientError:
    if error.args[0].code() == KafkaError.MSG_SIZE_TOO_LARGE:
        return RecordError(
            f"the event is larger than the {_MAX_RECORD_BYTES} bytes a request may have",
            code="SINK_RECORD_TOO_LARGE",
            remedy="Leave the large column out of the publication, or fetch the row from the source by its key.",
        )
    return _transient(error, "produce")


def _transient(error: KafkaException, doing: str) -> TransientError:
    return TransientError(
        f"Kafka did not let the sink {doing}: {error.args[0].name()}",
        code="SINK_KAFKA_UNAVAILABLE",
        remedy="Check the brokers, their topics' settings and the user's rights; the lane restarts at its cursor.",
    )
