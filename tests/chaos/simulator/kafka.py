"""The raw topic and its producers.

A record has an offset the moment it lands; the answer comes at once, or never (the outcome is then unknown). A produce
can be lost while a later one lands, which leaves a hole in seq but none in offsets. What a dead reader had under way
may land later. Retention takes records from the head; a topic that was deleted comes back empty, under another id.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from aiokafka.errors import KafkaTimeoutError, OffsetOutOfRangeError
from chaos.simulator.clock import Pause
from chaos.simulator.memory import remembered_frame, remembered_header

from tidegate.contracts.epoch import decode_epoch
from tidegate.contracts.frame import FrameHeader
from tidegate_processor.kafka_clients import RawTopicView


@dataclass(frozen=True, slots=True)
class Record:
    offset: int
    value: bytes
    header: FrameHeader
    is_valid: bool
    """As somebody judges who has seen the topic from its first record."""


class RawTopic:
    def __init__(self, logged: Callable[[Record], None]) -> None:
        self._logged = logged
        self.births = 0
        self.recreate()

    def recreate(self) -> None:
        self.births += 1
        self.id = f"topic-{self.births}"
        self.was_wiped = False
        self._empty()

    def wipe(self) -> None:
        """It keeps its id, and begins at 0 again."""
        self.was_wiped = True
        self._empty()

    def _empty(self) -> None:
        self.beginning = 0
        self.records: list[Record] = []
        self._epoch = (0, b"", -1)

    @property
    def end(self) -> int:
        return len(self.records)

    @property
    def life(self) -> tuple[str, bool]:
        """Another one, and what was in the log is not."""
        return self.id, self.was_wiped

    def value(self, offset: int) -> bytes | None:
        return self.records[offset].value if 0 <= offset < self.end else None

    def append(self, value: bytes) -> int:
        header = remembered_header(value)
        self.records.append(Record(self.end, value, header, self._judge(header, value)))
        self._logged(self.records[-1])
        return self.end - 1

    def _judge(self, header: FrameHeader, value: bytes) -> bool:
        """The rule of the epochs once more, written down independently of the code under test."""
        number, nonce, seq = self._epoch
        if header.kind.name == "EPOCH":
            if header.epoch <= number or self._is_misplaced(value):
                return False
            self._epoch = (header.epoch, header.epoch_nonce, 0)
            return True
        if (header.epoch, header.epoch_nonce, header.seq) != (number, nonce, seq + 1):
            return False
        self._epoch = (number, nonce, seq + 1)
        return True

    def _is_misplaced(self, value: bytes) -> bool:
        """An epoch frame whose writer saw another log than the one it landed in."""
        said = decode_epoch(remembered_frame(value).body)
        return said.topic_id != self.id or (said.previous is not None and said.previous.last_offset >= self.end)

    def view(self) -> RawTopicView:
        return RawTopicView(self.id, self.beginning, self.end)

    def available(self) -> Sequence[Record]:
        return self.records[self.beginning :]


class Outcome(StrEnum):
    PENDING = "pending"
    STORED = "stored"
    FAILED = "failed"


@dataclass(slots=True)
class Produce:
    value: bytes
    outcome: Outcome = Outcome.PENDING
    offset: int = -1


class Producer:
    """One reader's producer; it outlives the reader as long as something is under way."""

    def __init__(self, topic: RawTopic) -> None:
        self.topic = topic
        self.under_way: deque[Produce] = deque()
        self.is_abandoned = False

    def send(self, value: bytes) -> Produce:
        produce = Produce(value)
        self.under_way.append(produce)
        return produce

    def land(self, *, answered: bool = True) -> None:
        produce = self.under_way.popleft()
        produce.offset = self.topic.append(produce.value)
        produce.outcome = Outcome.STORED if answered else Outcome.FAILED

    def lose(self) -> None:
        self.under_way.popleft().outcome = Outcome.FAILED


class TailConsumer:
    """What `raw_log._read` asks of an aiokafka consumer; it has so long for all of it, however often it asks."""

    def __init__(self, topic: RawTopic, is_late: Callable[[], bool]) -> None:
        self._topic, self._id, self._is_late = topic, topic.id, is_late
        self._at = 0

    async def beginning_offsets(self, partitions: list[object]) -> dict[object, int]:
        await Pause()
        return {partitions[0]: self._topic.beginning}

    async def end_offsets(self, partitions: list[object]) -> dict[object, int]:
        await Pause()
        return {partitions[0]: self._topic.end}

    def seek(self, partition: object, offset: int) -> None:
        self._at = offset

    async def getmany(self, partition: object, *, timeout_ms: int, max_records: int) -> dict[object, list[Record]]:
        await Pause()
        if self._is_late():
            raise KafkaTimeoutError
        if self._topic.id != self._id or not self._topic.beginning <= self._at <= self._topic.end:
            raise OffsetOutOfRangeError
        records = self._topic.records[self._at : self._at + max_records]
        self._at += len(records)
        return {partition: records}


class SparkSource:
    """Spark's Kafka source with failOnDataLoss: a range that is not there any more ends the query."""

    def __init__(self, topic: RawTopic, starting: int | None) -> None:
        self._topic, self._id = topic, topic.id
        self.at = topic.beginning if starting is None else starting
        self.began_at = self.at

    def has_nothing(self, most: int) -> bool:
        topic = self._topic
        return topic.id == self._id and topic.beginning <= self.at <= topic.end and (not most or self.at == topic.end)

    def take(self, most: int) -> list[tuple[int, bytes]]:
        if self._topic.id != self._id or not self._topic.beginning <= self.at <= self._topic.end:
            raise DataLoss
        records = self._topic.records[self.at : self.at + most]
        self.at += len(records)
        return [(record.offset, record.value) for record in records]


class DataLoss(Exception):
    """IllegalStateException of the Kafka source; the driver only sees that the query ended."""
