"""The only file of this sink that talks to Kafka.

Events, dead letters and the cursor of the raw topic are committed in one Kafka transaction. Opening fences whoever held
the transactional id before; only then is the committed cursor read.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic
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
from tidegate.errors import RecordError, StreamError, TidegateError, TransientError
from tidegate.position import Position
from tidegate_processor.kafka_clients import librdkafka_settings, read_cursor
from tidegate_processor.sinks.base import Capabilities, Receipt
from tidegate_processor.sinks.kafka_topics.config import KafkaTopicsOptions
from tidegate_processor.sinks.kafka_topics.encode import Encoder, Message, messages

# A left-over transaction holds back consumers that read committed records for at most this long.
_TRANSACTION_TIMEOUT_MS = 10_000
_CALL_SECONDS = 30.0
_PING_SECONDS = 5.0
# Of a topic that this sink creates, and of a request; an existing topic's own limit is asked for.
_MAX_RECORD_BYTES = 16 * 2**20
# A batch of one record: its header (61 bytes), the record's own fields, room to spare.
_RECORD_OVERHEAD_BYTES = 256
_DEAD_LETTER_RETENTION_MS = "-1"
# The brokers finish a transaction behind the answer to its commit, and ask whoever begins the next one at once to come
# again. With the default of 100 ms that is a tenth of all transactions of a busy lane; with 2 ms p90 was 16 ms, not 119.
_RETRY_BACKOFF_MS = 2
_FIRST_PARTITION = 0
# For the client's queue to have room again. It holds a Kafka transaction, so that happens with very large frames only.
_QUEUE_SECONDS = 0.1
# What the brokers say for good; everything else may heal by itself.
_TERMINAL = frozenset(
    (
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError.UNSUPPORTED_SASL_MECHANISM,
        KafkaError.UNSUPPORTED_VERSION,
        KafkaError.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        KafkaError.INVALID_CONFIG,
        KafkaError.INVALID_REQUIRED_ACKS,
        KafkaError.INVALID_TRANSACTION_TIMEOUT,
        KafkaError.POLICY_VIOLATION,
    )
)
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
        self._largest: dict[str, int] = {}
        """Bytes that a record of a topic may have, by topic: those that are known to be there."""
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
        return read_cursor(self._consumer, self._raw_topic)

    def write(self, frame: Frame, after: Position) -> Receipt:
        encoded = self._encoder.encode(frame, after)
        rejected = list(encoded.rejected)
        events = written = 0
        for of_topic in encoded.topics:
            taken = self._write_events(of_topic, rejected)
            events += len(taken)
            written += taken.value_bytes
        return Receipt(events, written, tuple(rejected), encoded.newest_commit_time)

    def _write_events(self, events: TopicEvents, rejected: list[RejectedChange]) -> TopicEvents:
        """Those that the topic takes."""
        try:
            limit = self._ensure_topic(events.topic, self._options.topic_config)
        except RecordError as error:
            rejected += events.refused(error)
            return events.none
        fits = events.sizes <= limit
        if not fits.all():
            rejected += events.where(~fits).refused(_too_large(events.topic, limit))
            events = events.where(fits)
        for partition, run in events.runs():
            self._produce(events.topic, partition, messages(run))
        return events

    def write_dead_letters(self, letters: Sequence[DeadLetter]) -> None:
        limit = self._ensure_topic(self._dead_letters, {"retention.ms": _DEAD_LETTER_RETENTION_MS})
        for letter in letters:
            value = letter.encode()
            if len(value) + len(letter.lane) > limit:  # the frame's address is enough to find it in the raw topic
                value = replace(letter, payload=b"", schema=()).encode()
            self._produce(self._dead_letters, _FIRST_PARTITION, [{"value": value, "key": letter.lane.encode()}])

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

    def _produce(self, topic: str, partition: int, batch: list[Message]) -> None:
        """In order: of a batch that the client's queue does not hold, it takes the first ones."""
        producer, _ = self._opened()
        with _mapped("begin a transaction"):
            self._begin(producer)
        while producer.produce_batch(topic, batch, partition=partition) < len(batch):
            batch = [message for message in batch if "_error" in message]
            for message in batch:
                error: Any = message.pop("_error")
                if error.code() != KafkaError._QUEUE_FULL:
                    raise _refused(error, "produce")
            producer.poll(_QUEUE_SECONDS)

    def _begin(self, producer: Producer) -> None:
        if not self._in_transaction:
            producer.begin_transaction()
            self._in_transaction = True

    def _opened(self) -> tuple[Producer, Consumer]:
        if self._producer is None or self._consumer is None:
            raise TransientError("the sink is closed", code="SINK_CLOSED")
        return self._producer, self._consumer

    def _ensure_topic(self, topic: str, settings: Mapping[str, str]) -> int:
        """The largest record it takes."""
        if topic not in self._largest:
            admin = self._admin()  # kept until the answers are there: a client that goes takes its requests with it
            self._create(admin, topic, {"max.message.bytes": str(_MAX_RECORD_BYTES), **settings})
            self._largest[topic] = self._limit_of(admin, topic)
        return self._largest[topic]

    def _create(self, admin: AdminClient, topic: str, settings: Mapping[str, str]) -> None:
        new = NewTopic(topic, self._options.partitions, self._options.replication_factor, config=dict(settings))
        try:
            admin.create_topics([new])[topic].result(_CALL_SECONDS)
        except KafkaException as error:
            code = error.args[0].code()
            if code == KafkaError.TOPIC_EXCEPTION:
                raise RecordError(
                    f"Kafka does not take a topic named {topic}: another one differs only in dots and underscores",
                    code="TOPIC_REFUSED",
                    remedy="Give the sink a template without dots between the names, then replay the dead letters.",
                ) from error
            if code != KafkaError.TOPIC_ALREADY_EXISTS:
                raise _refused(error.args[0], "create a topic") from error

    def _limit_of(self, admin: AdminClient, topic: str) -> int:
        with _mapped("read a topic's settings"):
            asked = ConfigResource(ConfigResource.Type.TOPIC, topic)
            found = admin.describe_configs([asked], request_timeout=_CALL_SECONDS)[asked].result()
        limit = int(found["max.message.bytes"].value)
        if limit < self._options.batch_bytes:
            raise StreamError(
                f"topic {topic} takes {limit} bytes at once, this sink sends {self._options.batch_bytes}",
                code="TOPIC_LIMIT_TOO_LOW",
                remedy="Raise the topic's max.message.bytes, or lower the sink's option batch_bytes.",
            )
        return min(limit, _MAX_RECORD_BYTES) - _RECORD_OVERHEAD_BYTES

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
            "batch.size": self._options.batch_bytes - _RECORD_OVERHEAD_BYTES,
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


@contextmanager
def _mapped(doing: str) -> Iterator[None]:
    """Whatever fails here, the lane starts again from its committed cursor: nothing is lost by giving up."""
    try:
        yield
    except KafkaException as error:
        raise _refused(error.args[0], doing) from error


def _too_large(topic: str, limit: int) -> RecordError:
    return RecordError(
        f"an event is larger than the {limit} bytes that topic {topic} takes",
        code="SINK_RECORD_TOO_LARGE",
        remedy="Raise the topic's max.message.bytes and replay it, or leave the large column out of the publication.",
    )


def _refused(error: KafkaError, doing: str) -> TidegateError:
    if error.code() in _TERMINAL:
        return StreamError(
            f"Kafka refuses the sink to {doing}: {error.name()}",
            code="SINK_KAFKA_REFUSED",
            remedy="No retry heals this: mend the user's rights, the brokers' policies or the sink's options, and "
            "restart the lane.",
        )
    return TransientError(
        f"Kafka did not let the sink {doing}: {error.name()}",
        code="SINK_KAFKA_UNAVAILABLE",
        remedy="Check the brokers, their topics' settings and the user's rights; the lane restarts at its cursor.",
    )
