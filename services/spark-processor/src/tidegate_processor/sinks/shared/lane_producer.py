"""A lane's records, dead letters and cursor on their way to Kafka; how they become durable differs.

| | commit | whoever held the lane before |
| --- | --- | --- |
| `transactional.py` | records and cursor are one Kafka transaction | is fenced by the brokers when the next one opens |
| `plain.py` | records are acknowledged, then the cursor is committed | may still send; its cursor is refused |

Invariant: records go in order, and `commit` returns only when all of them are durable, and the cursor with them.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, TypeAlias

from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.error import KafkaError

from tidegate.columns.json_encode import TopicEvents
from tidegate.config.base import size
from tidegate.config.kafka import Compression
from tidegate.config.pipeline import PipelineConfig
from tidegate.contracts import names
from tidegate.contracts.cursor import Cursor
from tidegate.errors import TransientError
from tidegate_processor.kafka_clients import client, librdkafka_settings, read_cursor
from tidegate_processor.kafka_refusals import mapped, refused
from tidegate_processor.sinks.shared.record_columns import RecordColumns
from tidegate_processor.target_topics import LARGEST_RECORD_BYTES, RECORD_OVERHEAD_BYTES

Message: TypeAlias = dict[str, Any]
"""As `Producer.produce_batch` takes it: `value` and `key`. The client leaves an `_error` in those that it did not take.
With `headers` it is produced by itself: the client has no form for them in a batch."""

Records: TypeAlias = TopicEvents | list[Message]

Header: TypeAlias = tuple[str, bytes]

BATCH_BYTES = size("512KiB")
CALL_SECONDS = 30.0
# The brokers finish a transaction behind the answer to its commit, and ask whoever begins the next one meanwhile to
# come again. After 100 ms, the default, a busy lane's transactions took 119 ms at p90; after 2 ms, 16.
RETRY_BACKOFF_MS = 2
# Whoever sends commits or flushes, which waits for nothing. Until then full batches go and a rest waits: the client has
# one batch of a partition on its way at a time, and its thread spins while more has lingered behind it. Longer than
# whatever a transaction waits for.
LINGER_MS = 4000
# For the client's queue to have room again: it holds a Kafka transaction, so it is full with very large frames only.
_QUEUE_SECONDS = 0.1


class LaneProducer(ABC):
    _writer = 0
    """Of the lane's, where it has several."""

    def __init__(
        self,
        config: PipelineConfig,
        sink: str,
        *,
        compression: Compression = Compression.LZ4,
        batch_bytes: int = BATCH_BYTES,
    ) -> None:
        self._client_settings = librdkafka_settings(config.kafka)
        self._raw_topic = config.raw_topic.name
        self._pipeline, self._sink = config.pipeline, sink
        self._compression, self._batch_bytes = compression, batch_bytes
        self._producer: Producer | None = None
        self._consumer: Consumer | None = None
        self._columns: RecordColumns | None = None
        self._waiting: list[tuple[str, int, Records]] = []

    def open(self) -> Cursor | None:
        self._producer = self._new_producer()
        self._columns = RecordColumns(self._producer)
        self._fence(self._producer)
        self._consumer = self._new_consumer()
        return read_cursor(self._consumer, self._raw_topic)

    @abstractmethod
    def send(self, topic: str, partition: int, batch: Records, partitions: int = 1) -> None:
        """`partitions` that it may spread over."""

    @abstractmethod
    def commit(self, cursor: Cursor) -> None: ...

    def close(self) -> None:
        producer, consumer, columns = self._producer, self._consumer, self._columns
        self._producer = self._consumer = self._columns = None
        self._waiting.clear()
        if columns is not None:
            columns.close()
        if consumer is not None:
            consumer.close()
        if producer is not None:
            with suppress(KafkaException):
                self._drop(producer)

    @property
    def client(self) -> Producer:
        return self._opened()[0]

    @abstractmethod
    def _fence(self, producer: Producer) -> None:
        """Before the cursor is read."""

    @abstractmethod
    def _drop(self, producer: Producer) -> None:
        """What was sent and not committed."""

    @abstractmethod
    def _own_settings(self) -> dict[str, Any]: ...

    def _send_waiting(self, producer: Producer, **options: Any) -> None:
        with mapped("produce"):
            for topic, partition, batch in self._waiting:
                if isinstance(batch, TopicEvents):
                    self._produce_columns(producer, topic, partition, batch)
                elif "headers" in batch[0]:
                    _produce_singly(producer, topic, partition, batch, options)
                else:
                    _produce_batch(producer, topic, partition, batch, options)
        self._waiting.clear()

    def _produce_columns(self, producer: Producer, topic: str, partition: int, events: TopicEvents) -> None:
        assert self._columns is not None
        taken = self._columns.produce(topic, partition, events)
        while taken < len(events):
            producer.poll(_QUEUE_SECONDS)
            taken += self._columns.produce(topic, partition, events, taken)

    def _forget_columns(self) -> None:
        if self._columns is not None:
            self._columns.forget()

    def _opened(self) -> tuple[Producer, Consumer]:
        if self._producer is None or self._consumer is None:
            raise TransientError("the sink is closed", code="SINK_CLOSED")
        return self._producer, self._consumer

    def _new_producer(self, **others: Any) -> Producer:
        """`others` than its own settings."""
        settings = {
            # As Kafka's own clients partition, so that a key meets the same partition whoever wrote it.
            "partitioner": "murmur2_random",
            "compression.type": "none" if self._compression is Compression.NONE else str(self._compression),
            "message.max.bytes": LARGEST_RECORD_BYTES,
            "batch.size": self._batch_bytes - RECORD_OVERHEAD_BYTES,
            "queue.buffering.max.messages": 400_000,
            "linger.ms": LINGER_MS,
            "retry.backoff.ms": RETRY_BACKOFF_MS,
            "delivery.report.only.error": True,  # nobody asks about those that arrived
        }
        return client(Producer, self._client_settings | settings | self._own_settings() | others)

    def _new_consumer(self, writer: int | None = None) -> Consumer:
        """Of the group of this writer, or of another one."""
        settings = {
            "group.id": names.lane_group(self._pipeline, self._sink, self._writer if writer is None else writer),
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
        }
        return client(Consumer, self._client_settings | settings)


def messages(events: TopicEvents) -> list[Message]:
    return [{"value": value} if key is None else {"value": value, "key": key} for key, value in events]


def _produce_batch(
    producer: Producer, topic: str, partition: int, batch: list[Message], options: Mapping[str, Any]
) -> None:
    """In order: of a batch that the client's queue does not hold, it takes the first ones."""
    while True:
        taken = int(producer.produce_batch(topic, batch, partition=partition, **options))
        if taken == len(batch):
            return
        batch = [message for message in batch if "_error" in message]
        for message in batch:
            error: Any = message.pop("_error")
            if error.code() != KafkaError._QUEUE_FULL:
                raise refused(error, "produce")
        producer.poll(_QUEUE_SECONDS)


def _produce_singly(
    producer: Producer, topic: str, partition: int, batch: list[Message], options: Mapping[str, Any]
) -> None:
    for message in batch:
        while not _is_taken(producer, topic, partition, message, options):
            producer.poll(_QUEUE_SECONDS)


def _is_taken(producer: Producer, topic: str, partition: int, message: Message, options: Mapping[str, Any]) -> bool:
    try:
        producer.produce(topic, partition=partition, **message, **options)
    except BufferError:
        return False
    return True


def until_it_is_done(call: Callable[[], object]) -> None:
    """The client comes again twice and then asks us to: the brokers may take longer over the transaction before."""
    deadline = time.monotonic() + CALL_SECONDS
    while True:
        try:
            call()
            return
        except KafkaException as error:
            if not error.args[0].retriable() or time.monotonic() > deadline:
                raise
            time.sleep(RETRY_BACKOFF_MS / 1000)
