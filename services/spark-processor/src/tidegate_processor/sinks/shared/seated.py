"""The Kafka transactions of a lane that has several writers: of one of them, and of the driver, who speaks for all.

| | fences | cursors in its transaction |
| --- | --- | --- |
| `SeatedProducer` | its writer | that writer's; all of them while it is alone |
| `GatheredProducer` | all writers, then it reads all cursors | all of them |

Invariant: a transaction that moves a writer's cursor is that writer's, or he can't commit meanwhile: he has ceded, or
is fenced.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from confluent_kafka import Consumer, Producer

from tidegate.config.pipeline import PipelineConfig
from tidegate.contracts import names
from tidegate.contracts.cursor import Cursor
from tidegate.position import before
from tidegate_processor.kafka_clients import read_cursor
from tidegate_processor.kafka_refusals import mapped
from tidegate_processor.seat import Seat
from tidegate_processor.sinks.shared.lane_producer import CALL_SECONDS
from tidegate_processor.sinks.shared.transactional import TransactionalProducer, writers_changed


class _ManyCursors(TransactionalProducer):
    def __init__(
        self, config: PipelineConfig, sink: str, **options: Any
    ) -> None:  # as TransactionalProducer takes them
        super().__init__(config, sink, **options)
        self._consumers: dict[int, Consumer] = {}
        """Of other writers' groups."""

    def close(self) -> None:
        while self._consumers:
            self._consumers.popitem()[1].close()
        super().close()

    def _begin_early(self, producer: Producer) -> None:
        """Whose cursors move with a transaction is known at its end, and one that is repeated moves too."""
        with mapped("begin a transaction"):
            self._begin(producer)

    def _prepare(self, cursors: Mapping[int, Cursor]) -> None:
        producer, consumer = self._opened()
        with mapped("commit"):
            self._begin(producer)
            for writer, cursor in cursors.items():
                group = consumer if writer == self._writer else self._consumer_of(writer)
                self._send_cursor(producer, group, cursor)

    def _consumer_of(self, writer: int) -> Consumer:
        if writer not in self._consumers:
            self._consumers[writer] = self._new_consumer(writer)
        return self._consumers[writer]


class SeatedProducer(_ManyCursors):
    def __init__(self, config: PipelineConfig, sink: str, seat: Seat, **options: Any) -> None:
        super().__init__(config, sink, **options)
        self._seat, self._writer, self._writers = seat, seat.writer, seat.writers

    def open(self) -> Cursor | None:
        cursor = super().open()
        if cursor is None:  # the driver has seen one
            raise writers_changed(1)
        return cursor

    def prepare(self, cursor: Cursor) -> None:
        own = replace(cursor, writers=self._writers)
        self._prepare({self._writer: own, **self._seat.others_cursors(own)})


class GatheredProducer(_ManyCursors):
    """What it reads stands for all: the least of their places, and the furthest that any has delivered. Committed as
    it was read, it leaves each where it stands."""

    _read: Sequence[Cursor] = ()

    def open(self) -> Cursor | None:
        first = super(TransactionalProducer, self).open()
        self._writers = first.writers if first is not None else 1
        for writer in range(1, self._writers):
            self._fence_writer(writer)
        found = [first, *(read_cursor(self._consumer_of(each), self._raw_topic) for each in range(1, self._writers))]
        self._read = [cursor for cursor in found if cursor is not None]
        if len(self._read) < len(found):
            self._read = ()
        return self._for_all()

    def prepare(self, cursor: Cursor) -> None:
        self._prepare(dict(enumerate(self._cursors(cursor))))

    @property
    def agrees(self) -> bool:
        return agree(self._read)

    def become(self, writers: int, cursor: Cursor) -> None:
        """All stand at this cursor, and there are so many from now on."""
        self._writers, self._read = writers, ()
        self.commit(cursor)

    def _fence_writer(self, writer: int) -> None:
        own = names.lane_transactional_id(self._pipeline, self._sink, writer)
        producer: Producer = self._new_producer(**{"transactional.id": own})
        with mapped("fence the lane's earlier writers"):
            producer.init_transactions(CALL_SECONDS)

    def _for_all(self) -> Cursor | None:
        if not self._read:
            return None
        least = min(self._read, key=lambda each: (each.position, each.next_offset))
        delivered = max(max(each.position, each.rewound_from or each.position) for each in self._read)
        return least if delivered == least.position else replace(least, rewound_from=delivered)

    def _cursors(self, cursor: Cursor) -> Sequence[Cursor]:
        read = self._for_all()
        if read is not None and _terms(read, cursor) == cursor:
            return [_terms(each, cursor) for each in self._read]
        return [replace(cursor, writers=self._writers)] * self._writers


def agree(cursors: Sequence[Cursor]) -> bool:
    """Whether they are one place, so that it does not matter whose change is whose. Behind its position each has all
    that ends at its safe LSN."""
    covered = ((each.topic_id, each.next_offset, max(each.position, before(each.safe_lsn))) for each in cursors)
    return len(set(covered)) == 1


def _terms(cursor: Cursor, of: Cursor) -> Cursor:
    """Where it was, in the name of who commits."""
    return replace(cursor, config_epoch=of.config_epoch, incarnation=of.incarnation)
