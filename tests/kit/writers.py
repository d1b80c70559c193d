"""Several writers of one lane at work, one step of one of them at a time, in an order that a test draws.

Each writer runs in a thread of its own, but only while it is told to: it stops wherever it waits for another one and
before and behind each commit. There it may be killed, or left behind as a stage that nobody waits for any more.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import redis
from kit import reference

from tidegate.checkpoint.redis_store import read_ack
from tidegate.checkpoint.writer_acks import write_writers_ack
from tidegate.config.sinks import SinkConfig, SinkType, Trigger
from tidegate.contracts.cursor import Cursor
from tidegate.contracts.dead_letter import DeadLetter
from tidegate.contracts.frame import Frame, FrameKind
from tidegate.contracts.lineage import Lineage
from tidegate.contracts.mark import decode_mark
from tidegate.errors import RecordError, TransientError
from tidegate.position import Position
from tidegate_processor.decode import Change
from tidegate_processor.kafka_clients import RawTopicView
from tidegate_processor.meeting import Meeting
from tidegate_processor.seat import Seat
from tidegate_processor.sinks.base import Capabilities, Receipt
from tidegate_processor.stage import _is_old
from tidegate_processor.writer_delivery import WriterDelivery

POISON = b"poison"
"""In a row that the target refuses."""
_STEP_SECONDS = 20.0


class Killed(BaseException):
    """kill -9: nothing of it runs any more."""


@dataclass(slots=True)
class Log:
    """A raw topic, as far as it has been written."""

    id: str
    frames: Sequence[bytes]

    def view(self) -> RawTopicView:
        return RawTopicView(self.id, 0, len(self.frames))


@dataclass(frozen=True, slots=True)
class Told:
    """A mark that the sink was given."""

    position: Position
    kind: str


@dataclass(slots=True)
class Written:
    """And not yet committed."""

    events: list[Change | Told] = field(default_factory=list)
    letters: list[DeadLetter] = field(default_factory=list)


@dataclass(slots=True)
class Target:
    """Where all writers write: what is committed is there with the cursors of one transaction, or nothing is."""

    cursors: dict[int, Cursor] = field(default_factory=dict)
    tokens: dict[int, int] = field(default_factory=dict)
    delivered: list[Change | Told] = field(default_factory=list)
    letters: list[DeadLetter] = field(default_factory=list)

    def fence(self, writer: int) -> int:
        self.tokens[writer] = self.tokens.get(writer, 0) + 1
        return self.tokens[writer]

    def commit(self, writer: int, token: int, written: "Written", cursors: dict[int, Cursor]) -> None:
        if self.tokens[writer] != token:
            raise TransientError("fenced by a newer writer", code="SINK_FENCED")
        self.delivered += written.events
        self.letters += written.letters
        self.cursors |= cursors


class SeatedSink:
    capabilities = Capabilities(exactly_once=True, deletes=True, truncates=True, notices=True, letters_too=True)

    def __init__(self, target: Target, seat: Seat, pause: Callable[[], None]) -> None:
        self._target, self._seat, self._pause = target, seat, pause
        self._token = 0
        self._written = Written()

    def ping(self) -> None:
        return

    def open(self) -> Cursor | None:
        self._pause()
        self._token = self._target.fence(self._seat.writer)
        self._pause()
        return self._target.cursors[self._seat.writer]

    def write(self, frame: Frame, after: Position) -> Receipt:
        if frame.header.kind is FrameKind.MARK:
            self._written.events.append(Told(frame.header.first, decode_mark(frame.body).kind))
            return Receipt(1, 0)
        changes = list(reference.row_changes(frame, after))
        poison = RecordError("this row is poison", code="POISON", remedy="Take it away.")
        refused = [reference.rejected(*each, poison) for each in changes if POISON in each[0].raw]
        good = [change for change, _ in changes if POISON not in change.raw]
        self._written.events += good
        return Receipt(len(good), 0, tuple(refused))

    def write_dead_letters(self, letters: Sequence[DeadLetter]) -> None:
        self._written.letters += letters

    def commit(self, cursor: Cursor) -> None:
        self._pause()
        own = replace(cursor, writers=self._seat.writers)
        cursors = {self._seat.writer: own, **self._seat.others_cursors(own)}
        self._target.commit(self._seat.writer, self._token, self._written, cursors)
        self._written = Written()
        self._pause()

    def close(self) -> None:
        self._written = Written()


class Worker(threading.Thread):
    """The Python worker of one writer, in one incarnation."""

    def __init__(self, lane: "Lane", writer: int) -> None:
        super().__init__(daemon=True)
        self.lane, self.seat = lane, Seat(writer, lane.writers)
        self.batches_done = 0
        self.is_killed = self.has_ended = self.has_said = False
        self.failure: BaseException | None = None
        self._go, self._stands = threading.Semaphore(0), threading.Semaphore(0)
        self.start()

    def step(self) -> None:
        self._go.release()
        assert self._stands.acquire(timeout=_STEP_SECONDS), "a writer neither goes on nor waits"

    def pause(self) -> None:
        self._stands.release()
        self._go.acquire()
        if self.is_killed:
            raise Killed

    def run(self) -> None:
        self._go.acquire()
        try:
            self._work()
        except (Killed, TransientError) as ended:
            self.failure = ended
        except BaseException as wrong:  # noqa: BLE001 - handed on to the test
            self.failure = wrong
            self.lane.wrong.append(wrong)
        finally:
            self.has_ended = True
            self._stands.release()

    def _work(self) -> None:
        delivery = self._opened()
        self._commit(delivery, at_the_end=False)
        self.has_said = True
        while True:
            start, stop = self.lane.batch(self.batches_done, self.pause)
            if delivery.has_cursor and _is_old(delivery, start):
                delivery.close()
                delivery = self._opened()
            for at in range(start, stop, self.lane.chunk):
                delivery.feed(
                    (offset, self.lane.log.frames[offset]) for offset in range(at, min(at + self.lane.chunk, stop))
                )
                self._commit(delivery, at_the_end=False)
            self._commit(delivery, at_the_end=True)
            self.batches_done += 1

    def _commit(self, delivery: WriterDelivery, *, at_the_end: bool) -> None:
        if delivery.commit(at_the_end=at_the_end) and (ack := delivery.ack()) is not None:
            lane = self.lane
            write_writers_ack(lane.redis, lane.pipeline, ack, self.seat.acks_for, lane.writers)

    def _opened(self) -> WriterDelivery:
        lane = self.lane
        meeting = Meeting(lane.redis, lane.pipeline, "events", lane.incarnation, self.pause, lambda: False)
        return WriterDelivery(
            lane.pipeline,
            SinkConfig(name="events", type=SinkType.KAFKA_TOPICS, trigger=Trigger.BATCH, writers=lane.writers),
            SeatedSink(lane.target, self.seat, self.pause),
            seat=self.seat,
            meeting=meeting,
            look=lane.log.view,
            acked=lambda generation: read_ack(lane.redis, lane.pipeline, generation, "events"),
            lineage=_no_lineage,
            config_epoch="c1",
            incarnation=lane.incarnation,
        )


@dataclass(slots=True)
class Lane:
    """One incarnation of the lane, with all its writers."""

    redis: redis.Redis
    pipeline: str
    target: Target
    log: Log
    writers: int
    incarnation: int
    batch_frames: int
    chunk: int
    workers: list[Worker] = field(default_factory=list)
    wrong: list[BaseException] = field(default_factory=list)
    _started_at: int = 0

    def start(self) -> None:
        """As Spark is told to: from the least of the cursors."""
        cursors = [self.target.cursors[writer] for writer in range(self.writers)]
        are_here = all(cursor.topic_id == self.log.id for cursor in cursors)
        self._started_at = min(cursor.next_offset for cursor in cursors) if are_here else 0
        self.workers = [Worker(self, writer) for writer in range(self.writers)]

    def batch(self, number: int, pause: Callable[[], None]) -> tuple[int, int]:
        """The next one begins when all writers have had the one before, and there is something."""
        start = self._started_at + number * self.batch_frames
        while start >= len(self.log.frames) or any(worker.batches_done < number for worker in self.workers):
            pause()
        return start, min(start + self.batch_frames, len(self.log.frames))

    @property
    def has_had_all(self) -> bool:
        behind_all = self._started_at + min(worker.batches_done for worker in self.workers) * self.batch_frames
        return behind_all >= len(self.log.frames) and all(worker.has_said for worker in self.workers)

    @property
    def has_failed(self) -> bool:
        return any(worker.has_ended for worker in self.workers)

    def kill(self) -> None:
        for worker in self.workers:
            worker.is_killed = True
            while not worker.has_ended:
                worker.step()


def _no_lineage() -> Lineage | None:
    return None
