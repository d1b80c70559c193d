"""Records, dead letters and the cursor of the raw topic in one Kafka transaction.

Opening fences whoever held the transactional id before; only then is the committed cursor read.

A cursor goes first into each transaction. The brokers finish the one before behind the answer to its commit, and refuse
whatever comes first meanwhile: a cursor comes again after 2 ms, a partition after 20, for which the client's thread
spins (a bare producer's took 1.3 us an event on brokers just started, 0.3 with the cursor first). A transaction that is
begun before its end is known repeats the last one's cursor, and has its own at the end: brokers keep the last.
"""

from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from tidegate.columns.json_encode import TopicEvents
from tidegate.config.pipeline import PipelineConfig
from tidegate.contracts import names
from tidegate.contracts.cursor import Cursor
from tidegate.errors import TransientError
from tidegate.failpoints import Failpoint, reach
from tidegate_processor.kafka_refusals import mapped
from tidegate_processor.sinks.shared.draining import Draining
from tidegate_processor.sinks.shared.lane_producer import CALL_SECONDS, LaneProducer, Records, until_it_is_done

# A left-over transaction holds back consumers that read committed records for at most this long.
_TRANSACTION_TIMEOUT_MS = 10_000
_WAITING_MESSAGES = 500


class TransactionalProducer(LaneProducer):
    _in_transaction = False
    _waiting_messages = 0
    _writers = 1
    _last: Cursor | None = None
    """In the newest transaction."""

    def __init__(self, config: PipelineConfig, sink: str, **options: Any) -> None:  # as LaneProducer takes them
        super().__init__(config, sink, **options)
        self._draining = Draining(self._batch_bytes)

    def open(self) -> Cursor | None:
        cursor = self._last = super().open()
        if cursor is not None and cursor.writers != self._writers:
            raise writers_changed(cursor.writers)
        return cursor

    def send(self, topic: str, partition: int, batch: Records, partitions: int = 1) -> None:
        """Few messages wait, for more or for the commit."""
        producer, _ = self._opened()
        self._waiting.append((topic, partition, batch))
        self._draining.sent(topic, partitions, len(batch), batch.value_bytes if isinstance(batch, TopicEvents) else 0)
        self._waiting_messages += len(batch)
        if self._waiting_messages > _WAITING_MESSAGES:
            if not self._in_transaction:
                self._begin_early(producer)
            self._send_waiting(producer)
            self._waiting_messages = 0

    def prepare(self, cursor: Cursor) -> None:
        """The cursor into the transaction: whoever was fenced learns it here, before anything else is done."""
        producer, consumer = self._opened()
        with mapped("commit"):
            self._begin(producer)
            self._send_cursor(producer, consumer, cursor)
        self._last = cursor

    def commit(self, cursor: Cursor) -> None:
        self.prepare(cursor)
        self.finish()

    def finish(self) -> None:
        producer, _ = self._opened()
        self._send_waiting(producer)
        self._waiting_messages = 0
        reach(Failpoint.LANE_CURSOR_SENT)
        self._draining.wait(producer)
        with mapped("commit"):
            until_it_is_done(lambda: producer.commit_transaction(CALL_SECONDS))
        self._in_transaction = False
        self._forget_columns()

    def close(self) -> None:
        self._waiting_messages = 0
        super().close()

    def _fence(self, producer: Producer) -> None:
        with mapped("fence the lane's earlier writer"):
            producer.init_transactions(CALL_SECONDS)

    def _drop(self, producer: Producer) -> None:
        """Where this fails, a newer writer has fenced us and aborted it, or the broker does when it times out."""
        if self._in_transaction:
            self._in_transaction = False
            producer.abort_transaction(CALL_SECONDS)

    def _begin_early(self, producer: Producer) -> None:
        if self._last is not None:
            self.prepare(self._last)
        else:
            with mapped("begin a transaction"):
                self._begin(producer)

    def _begin(self, producer: Producer) -> None:
        if not self._in_transaction:
            producer.begin_transaction()
            self._in_transaction = True

    def _send_cursor(self, producer: Producer, consumer: Consumer, cursor: Cursor) -> None:
        """To the group that this consumer is of."""
        place = TopicPartition(self._raw_topic, 0, cursor.next_offset, cursor.encode())
        group = consumer.consumer_group_metadata()
        until_it_is_done(lambda: producer.send_offsets_to_transaction([place], group, CALL_SECONDS))

    def _own_settings(self) -> dict[str, Any]:
        return {
            "transactional.id": names.lane_transactional_id(self._pipeline, self._sink, self._writer),
            "transaction.timeout.ms": _TRANSACTION_TIMEOUT_MS,
        }


def writers_changed(writers: int) -> TransientError:
    return TransientError(
        f"the lane's cursor is that of one of {writers} writers",
        code="LANE_WRITERS_CHANGED",
        remedy="Nothing: the lane starts anew, and its number of writers changes where all of them agree.",
    )
