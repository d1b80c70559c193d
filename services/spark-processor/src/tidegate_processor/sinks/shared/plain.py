"""Records by an idempotent producer without transactions; what is committed is known by acknowledgements.

For brokers without transactions, and for dead letters of sinks that keep their cursor elsewhere. Records wait for the
commit; who dies between their acknowledgement and the cursor's sends them again: at least once, in order, the same ids.
"""

from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from tidegate.columns.json_encode import TopicEvents
from tidegate.contracts.cursor import Cursor
from tidegate.errors import TransientError
from tidegate_processor.kafka_clients import read_cursor
from tidegate_processor.kafka_refusals import mapped, refused
from tidegate_processor.sinks.shared.lane_producer import (
    CALL_SECONDS,
    LaneProducer,
    Records,
    messages,
    until_it_is_done,
)


class PlainProducer(LaneProducer):
    _failed: Any = None
    """The first record that brokers did not take: what came behind it may have been taken, and comes again."""

    def send(self, topic: str, partition: int, batch: Records, _: int = 1) -> None:
        self._opened()
        # Each is asked for its acknowledgement, which only messages have.
        self._waiting.append((topic, partition, messages(batch) if isinstance(batch, TopicEvents) else batch))

    def flush(self) -> None:
        """Returns when all that was sent is durable."""
        producer, _ = self._opened()
        self._send_waiting(producer, on_delivery=self._note)
        left = producer.flush(CALL_SECONDS)
        failed, self._failed = self._failed, None
        if failed is not None:
            raise refused(failed, "produce")
        if left:
            raise TransientError(
                f"Kafka has not acknowledged {left} records in time",
                code="SINK_KAFKA_SLOW",
                remedy="Check the brokers; the lane restarts at its cursor.",
            )

    def commit(self, cursor: Cursor) -> None:
        _, consumer = self._opened()
        self._check_newest(consumer, cursor)
        self.flush()
        place = TopicPartition(self._raw_topic, 0, cursor.next_offset, cursor.encode())
        with mapped("commit"):
            until_it_is_done(lambda: _committed(consumer, place))

    def _check_newest(self, consumer: Consumer, cursor: Cursor) -> None:
        """No fence: between this look and the commit another one may begin. Then both deliver what lies between."""
        there = read_cursor(consumer, self._raw_topic)
        if there is not None and there.incarnation > cursor.incarnation:
            raise TransientError(
                "another incarnation of this lane is at work",
                code="SINK_FENCED",
                remedy="Nothing: the newer one goes on from the committed cursor.",
            )

    def _note(self, error: Any, _: object) -> None:
        if error is not None and self._failed is None:
            self._failed = error

    def _fence(self, _: Producer) -> None:
        self._failed = None

    def _drop(self, producer: Producer) -> None:
        """What is on its way arrives or not; the next one sends it again."""
        producer.purge()
        producer.poll(0)

    def _own_settings(self) -> dict[str, Any]:
        return {"enable.idempotence": True, "acks": "all"}


def _committed(consumer: Consumer, place: TopicPartition) -> None:
    for answer in consumer.commit(offsets=[place], asynchronous=False) or ():
        if answer.error is not None:
            raise KafkaException(answer.error)
