"""One lane: Spark's query, the Python worker with its stage, and the driver that watches them.

Delivery, judging, decoding and acking are production code (`commit.Delivery`, `control.LaneLink`). Model drivers:
`Worker.turn` is one round of the loop in `stage.Stage._write`, in its order; `Lane` does what the state table of
`lane.py` says, without Spark and without waiting.
"""

from enum import StrEnum
from typing import TYPE_CHECKING

from chaos.simulator.ack_store import Line
from chaos.simulator.kafka import DataLoss, RawTopic, SparkSource
from chaos.simulator.memory import remembered_header
from chaos.simulator.oracle import LaneLedger
from chaos.simulator.rest import Rest, rest_of
from chaos.simulator.sink import Sink, SinkServer

from tidegate.config.sinks import SinkConfig
from tidegate.contracts import names
from tidegate.contracts.control import Command, LaneControl
from tidegate.contracts.cursor import decode_cursor
from tidegate.contracts.epoch import decode_epoch
from tidegate.contracts.frame import FrameHeader, FrameKind, decode_frame
from tidegate.contracts.request import Asked, LaneRequest
from tidegate.errors import DecodeError, StreamError, TidegateError, TransientError
from tidegate.position import Position
from tidegate_processor.commit import Delivery
from tidegate_processor.control import LaneLink
from tidegate_processor.epoch_walk import Seen
from tidegate_processor.rewind import Terms, set_back
from tidegate_processor.stage import StageSettings, _is_old

if TYPE_CHECKING:
    from chaos.simulator.world import World

_CONFIG_EPOCH = "c1"


class LookedInto:
    """The raw topic, as a rewind looks into it."""

    def __init__(self, topic: RawTopic) -> None:
        self.id, self.beginning, self.end = topic.id, topic.beginning, topic.end
        self._topic = topic

    def at(self, offset: int) -> Seen | None:
        at = max(offset, self.beginning)
        if at >= self.end:
            return None
        frame = decode_frame(self._topic.records[at].value)
        return Seen(at, frame.header, decode_epoch(frame.body) if frame.header.kind is FrameKind.EPOCH else None)

    def offset_since(self, time: int) -> int | None:
        """Nobody asks for a time here."""
        raise NotImplementedError


class KillPoint(StrEnum):
    BEFORE_COMMIT = "before_commit"
    BEFORE_ACK = "before_ack"
    AFTER_ACK = "after_ack"


class Killed(Exception):
    """kill -9 of the worker: nothing of it runs any more."""


class Worker:
    def __init__(self, world: "World", lane: "Lane", incarnation: int, source: SparkSource) -> None:
        self.incarnation, self.source = incarnation, source
        self.kill_at: KillPoint | None = None
        self.is_drained = False
        self.is_kept = False
        """It served an earlier batch; Spark has called another worker meanwhile, perhaps."""
        self._is_draining = False
        self._world, self._lane, self.lane_name = world, lane, lane.name
        self._delivery: Delivery | None = None
        self._rest: Rest | None = None
        settings = StageSettings(world.config, lane.name, _CONFIG_EPOCH, incarnation)
        self.line = Line(world.redis)
        self._link = LaneLink(self.line, world.config.pipeline, settings)  # type: ignore[arg-type]

    def turn(self, most: int, *, ended: bool = False) -> None:
        if self._rest is not None and not ended and self._rest.lasts(self, most):
            return
        self._rest = None
        delivery = self._opened()
        records = [] if self.is_drained else self.source.take(most)
        if records:
            if self.is_kept and _is_old(delivery, records[0][0]):
                self.close()
                delivery = self._opened()
            self.is_kept = False
            is_new = self._lane.server.cursor is None and delivery.counters.frames == 0
            if is_new and not self._lane.ledger.is_owed_all:
                self._lane.ledger.suffix_from = _first_whole(remembered_header(records[0][1]))
            delivery.feed(records)
        self._die_at(KillPoint.BEFORE_COMMIT)
        self._obey()
        if self.is_drained:
            return
        is_committed = delivery.commit(at_the_end=ended or self._is_draining)
        self._die_at(KillPoint.BEFORE_ACK)
        if is_committed:
            self._link.acknowledge(delivery.ack())
        self._die_at(KillPoint.AFTER_ACK)
        self.is_drained = self._is_draining
        if is_committed and not records and not self.is_drained:
            self._rest = rest_of(self._world, self, delivery, self._link)

    def close(self) -> None:
        self._rest = None
        if self._delivery is not None:
            self._delivery.close()
            self._delivery = None

    def _opened(self) -> Delivery:
        if self._delivery is None:
            lane = self._lane
            sink = Sink(lane.server)
            self._delivery = Delivery(
                self._world.config.pipeline,
                lane.config,
                sink,
                look=self._world.topic.view,
                acked=self._link.acked,
                lineage=self._link.lineage,
                config_epoch=_CONFIG_EPOCH,
                incarnation=self.incarnation,
                head=lambda: LookedInto(self._world.topic).at(0),
            )
            self._world.note(f"{lane.name}-{self.incarnation} opened at {self._delivery.position}")
        return self._delivery

    def _obey(self) -> None:
        control = self._link.control()
        if control is None:
            return
        if control.supersedes(self.incarnation):
            raise TransientError("superseded", code="LANE_SUPERSEDED")
        if control.stops(self.incarnation):
            self._is_draining = True

    def _die_at(self, point: KillPoint) -> None:
        if self.kill_at is point:
            raise Killed


def _first_whole(header: FrameHeader) -> Position:
    """Of a log that begins with this frame. In the middle of a change, or behind one that a frame without any only
    names, the transaction is one that nobody has whole."""
    first = header.first
    is_behind = header.part > 1 or header.messages == 0
    return Position(first.commit_lsn, first.ordinal + 1) if is_behind else first


class Lane:
    def __init__(self, world: "World", ledger: LaneLedger, config: SinkConfig, *, cursor_in_group: bool) -> None:
        self.name, self.ledger, self.config = config.name, ledger, config
        self.cursor_in_group = cursor_in_group
        """The cursor is an offset of the raw topic, as the Kafka sink's is: it goes when that topic is deleted."""
        self.server = SinkServer(lambda batch: world.oracle.applied(ledger, batch))
        self.worker: Worker | None = None
        self.old_workers: list[Worker] = []
        self.lost: TidegateError | None = None
        self.last_error: TidegateError | None = None
        self.paused_until = 0.0
        self._world = world
        self._incarnation = 0
        self._is_told_to_stop = False
        self._kept: Worker | None = None
        self._next_try = 0.0
        self._backoff = 0.5
        self._refusals = 0

    def turn(self, most: int) -> None:
        now = self._world.time.now
        if self.lost is not None or now < self.paused_until:
            return
        if self.worker is None:
            if now >= self._next_try:
                self.start()
            return
        worker = self.worker
        error = self._run(worker, most)
        if error is not None:
            self._failed(error)
        elif worker.is_drained and self._is_told_to_stop:
            self.worker = None
        elif worker.is_drained:
            self._failed(TransientError("the lane drained, and nobody had told it to", code="LANE_DRAINED"))

    def old_turn(self, most: int) -> None:
        """A worker that the driver has given up and that lives on."""
        if self.old_workers:
            worker = self.old_workers[0]
            if self._run(worker, most) is not None or worker.is_drained:
                self.old_workers.remove(worker)

    def start(self) -> None:
        self._incarnation += 1
        self._is_told_to_stop = False
        self._post(Command.RUN)
        raw = self._world.topic.view()
        cursor = decode_cursor(self.server.cursor) if self.server.cursor else None
        is_there = cursor is not None and cursor.topic_id == raw.id and raw.beginning <= cursor.next_offset <= raw.end
        source = SparkSource(self._world.topic, cursor.next_offset if cursor and is_there else None)
        self._kept = None
        self.worker = Worker(self._world, self, self._incarnation, source)

    def post_stop(self) -> None:
        self._is_told_to_stop = True
        self._post(Command.STOP)

    def rewind(self, to: Position | None) -> bool | None:
        """By the production code: fenced, and refused where it would skip what the sink has not had. As the driver does
        it, an outcome that is not known is tried again, so that nothing that was held can become durable later. None:
        it could not be done now."""
        for _ in range(3):
            try:
                return self._set_back(to)
            except TransientError as error:
                self._world.note(f"{self.name} is rewound again: {error}")
            except TidegateError as error:
                self._world.note(f"{self.name} is not rewound to {to}: {error}")
                return False
        return None

    def _set_back(self, to: Position | None) -> bool:
        world = self._world
        self._incarnation += 1
        terms = Terms(LaneRequest("r", Asked.REWIND, "", 0, to), self._incarnation, _CONFIG_EPOCH, may_skip=False)
        settings = StageSettings(world.config, self.name, _CONFIG_EPOCH, self._incarnation)
        link = LaneLink(world.redis, world.config.pipeline, settings)  # type: ignore[arg-type]
        cursor = set_back(Sink(self.server), LookedInto(world.topic), terms, link.acked)
        world.note(f"{self.name} rewound to {cursor.position}, offset {cursor.next_offset}")
        world.oracle.rewound(self.ledger, cursor.position)
        return True

    def kill(self) -> None:
        self.worker = None
        self._next_try = 0.0

    def seam(self, *, replay: bool) -> None:
        """Spark calls the next batch in another worker; on a replay, from where the last one began."""
        if self.worker is None or self.worker.is_drained:
            return
        old = self.worker
        if not replay:
            error = self._run(old, 0, ended=True)
            if error is not None:
                self._failed(error)
                return
        if replay:
            old.source.at = old.source.began_at
        old.source.began_at = old.source.at
        kept, self._kept = self._kept, old
        if kept is None or kept.incarnation != old.incarnation or self._world.dice.random() < 0.5:
            self.worker = Worker(self._world, self, old.incarnation, old.source)
            return
        kept.is_kept = True
        self.worker = kept

    def _run(self, worker: Worker, most: int, *, ended: bool = False) -> TidegateError | None:
        try:
            worker.turn(most, ended=ended)
        except TidegateError as error:
            worker.close()
            return error
        except DataLoss:
            return TransientError("the lane's query ended", code="LANE_ENDED")
        except Killed:
            return TransientError("the worker is gone", code="LANE_ENDED")
        return None

    def _failed(self, error: TidegateError) -> None:
        self.worker = None
        self.last_error = error
        world = self._world
        world.note(f"{self.name} failed: {error}")
        is_helped = error.code == "REWIND_TRIMMED" and self._takes_what_is_left()
        if is_helped:
            world.counts["lane LOST REWIND_TRIMMED"] += 1
        elif type(error) in (StreamError, DecodeError):
            self.lost = error
            world.lane_lost(self, error)
        self._next_try = world.time.now + self._backoff
        self._backoff = min(self._backoff * 2, 8.0)

    def _takes_what_is_left(self) -> bool:
        """A person's rewind. Where the log was trimmed beyond the sink meanwhile, the lane gives the rewind up itself
        when it is started once more."""
        self._refusals = self._refusals + 1 if self.rewind(None) is False else 0
        return self._refusals < 2

    def _post(self, command: Command) -> None:
        if self._world.redis.is_up:
            control = LaneControl(self._incarnation, command).encode()
            self._world.redis.set(names.lane_control_key(self._world.config.pipeline, self.name), control)
