"""One process of the reader. The start sequence, the intake, gate, feedback and keeper are production code.

Model drivers: `_life` does what `pipeline.run` and `pipeline._flow` do, in their order, without an event loop; its
tasks are `turn` (intake), `settle`, `send_status`, `poll_acks` and `look`, each taken when the schedule says so.
`LogPublisher` replaces only what waits on the event loop's futures.
"""

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from chaos.simulator.clock import Pause, Signal
from chaos.simulator.edges import Side, Stream
from chaos.simulator.kafka import Outcome, Producer
from chaos.simulator.oracle import Violation
from chaos.simulator.rest import looked_in_vain, may_rest
from chaos.simulator.taking import Taking

from tidegate.checkpoint.redis_store import read_acks
from tidegate.contracts.epoch import EpochMode
from tidegate.contracts.lineage import Lineage
from tidegate.contracts.names import lineage_key
from tidegate.errors import ExitCode, TidegateError, TransientError
from tidegate_reader import opening
from tidegate_reader.feedback import Feedback, Levels
from tidegate_reader.framer import Framer
from tidegate_reader.frames import SealedFrame
from tidegate_reader.gate import Gate
from tidegate_reader.intake import Intake
from tidegate_reader.keeper import Keeper
from tidegate_reader.metrics import ReaderMetrics
from tidegate_reader.opening import Run
from tidegate_reader.progress import Progress
from tidegate_reader.publisher import Publisher, epoch_over
from tidegate_reader.raw_watch import RawWatch
from tidegate_reader.repair import eased
from tidegate_reader.snapshot.exported import Exported
from tidegate_reader.source_watch import SourceWatch

if TYPE_CHECKING:
    from chaos.simulator.world import World

_METRICS = ReaderMetrics(Progress("sim", 1, started=0), ())


class LogPublisher(Publisher):
    """Sends to the topic model; `settle_one` is one round of `settle`."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._something_sent = Signal()  # type: ignore[assignment]
        self._something_settled = Signal()  # type: ignore[assignment]

    async def _send(self, frame: SealedFrame) -> None:
        self.in_flight_bytes += len(frame.data)
        self._sent.append((frame, self._producer.send(frame.data)))

    @property
    def can_settle(self) -> bool:
        return bool(self._sent) and self._sent[0][1].outcome is not Outcome.PENDING

    def settle_one(self) -> bool:
        if not self.can_settle:
            return False
        frame, produce = self._sent[0]
        self._settled(frame, self._outcome(produce))
        self._sent.popleft()
        self.in_flight_bytes -= len(frame.data)
        self._something_settled.set()
        self._on_durable(frame, self.next_offset - 1)
        return True

    def _outcome(self, produce: Any) -> int:
        if produce.outcome is Outcome.FAILED:
            raise epoch_over("the produce failed")
        offset: int = produce.offset
        return offset


class SimFeedback(Feedback):
    """The timer that joins many acks into one status is the schedule's."""

    def confirmed_grew(self) -> None:
        return


class ReaderProcess:
    def __init__(self, world: "World", number: int) -> None:
        self.number = number
        self.exit_code: ExitCode | None = None
        self.error: TidegateError | None = None
        self.is_zombie = False
        self.knows_no_past = False
        """Redis did not know where the reader before worked."""
        self.has_seen_frames = False
        """That count, when it looked into the raw topic."""
        self.producer: Producer | None = None
        self.publisher: LogPublisher | None = None
        self.feedback: SimFeedback | None = None
        self.gate: Gate | None = None
        self._world = world
        self._stop = Signal()
        self._stream: Stream | None = None
        self._intake: Intake | None = None
        self._keeper: Keeper | None = None
        self._watch: SourceWatch | None = None
        self._raw_watch: RawWatch | None = None
        self._said: tuple[Lineage | None, bytes] = (None, b"")
        self._generation, self._topic_life = "", world.topic.life
        self._confirmed = 0
        self._config = world.config
        """The file as it was when it started."""
        self.taking: Taking | None = None
        self._coroutine: Coroutine[Any, Any, None] = self._life()

    @property
    def required(self) -> tuple[str, ...]:
        """By the file that it has read."""
        return tuple(self._config.required_sinks)

    @property
    def is_running(self) -> bool:
        return self.exit_code is None and self.publisher is not None

    def turn(self) -> None:
        if self.exit_code is None and not self._rested():
            self._guarded(self._go_on)

    def _rested(self) -> bool:
        """Whether this turn could only look at an empty link and wait on, and has been counted as such (`rest`)."""
        intake, stream = self._intake, self._stream
        if (
            intake is None
            or stream is None
            or self._stop.is_set()
            or not may_rest(intake, stream, self._world.time.now)
        ):
            return False
        self._world.acting = self
        stream.drawn()
        looked_in_vain(intake)
        return True

    def settle(self) -> None:
        publisher = self.publisher
        if self.exit_code is None and publisher is not None and publisher.can_settle:
            self._guarded(publisher.settle_one)

    def send_status(self) -> None:
        if self.is_running and self.feedback is not None:
            feedback = self.feedback
            self._guarded(lambda: drive(feedback.send()))

    def poll_acks(self) -> None:
        """`AckWatch`: Redis away means that acks come late. And `Reporter`, which is due as often."""
        self._report()
        if not self.is_running or self._keeper is None:
            return
        try:
            acks = drive(read_acks(self._world.redis, self._world.config.pipeline, self._generation))  # type: ignore[arg-type]
        except TransientError:
            return
        self._keeper.acked(acks)
        self._check_gate()

    def take_file(self) -> None:
        if self.is_running and self.taking is not None:
            self._world.acting = self
            self.taking.step()
            self._check_gate()

    def look(self) -> None:
        for watch in (self._watch, self._raw_watch):
            if self.is_running and watch is not None:
                self._guarded(lambda: drive(watch.look()))  # noqa: B023

    async def _beginning(self) -> int:
        return self._world.topic.beginning

    def _report(self) -> None:
        """`Reporter`: Redis away means that it is said again later."""
        if self.taking is not None and self._world.redis.is_up:
            lineage = self.taking.lineage
            if lineage != self._said[0]:
                self._said = lineage, lineage.encode()
            self._world.redis.set(lineage_key(self._world.config.pipeline), self._said[1])

    def stop(self) -> None:
        self._stop.set()

    def kill(self) -> None:
        """kill -9: nobody runs `finally`; the kernel closes the sockets, what was sent is sent."""
        self.close()
        self._ended(ExitCode.RETRY)

    def close(self) -> None:
        self._coroutine.close()
        if self.taking is not None:
            self.taking.close()

    def _go_on(self) -> None:
        self._coroutine.send(None)

    async def _life(self) -> None:
        world = self._world
        await Pause()
        side, config = Side(world), self._config
        checked = await opening.check(config, side)  # type: ignore[arg-type]
        await Pause()
        self._stream = Stream(world)
        opened = await opening.begin(config, checked, side, self._stream, Exported(config))  # type: ignore[arg-type]
        self._intake = intake = self._flow(opened, side, self._stream)
        await intake.run(self._stop)  # type: ignore[arg-type]
        assert self.feedback is not None
        await self.feedback.send()
        await self._stream.end()

    def _flow(self, opened: Run, side: Side, stream: Stream) -> Intake:
        world, plan, config = self._world, opened.plan, self._config
        world.note(f"epoch {opened.stamp.number} {plan.mode} at {opened.stamp.offset} from {plan.position}")
        durable, history = plan.safe_lsn, opened.history
        if plan.mode is EpochMode.RESNAPSHOT:
            world.counts["gaps announced"] += 1
        if world.plan.resnapshots and world.dice.random() < 0.7:  # else it dies before that is written down
            world.notes.announced(opened.stamp.generation.id)
        gate = Gate(config.required_sinks, confirmed=opened.confirmed, durable=durable, history=history)
        framer = Framer(
            opened.stamp,
            max_frame_bytes=world.frame_bytes,
            linger_seconds=0.005,
            position=plan.position,
            safe_lsn=plan.safe_lsn,
            skip_to=plan.skip_to,
            next_seq=1,
            wall_clock=world.time.unix_microseconds,
            history=opened.history,
        )
        progress = Progress(config.pipeline, 1, started=0)
        progress.confirmed_lsn = opened.confirmed
        levels = lambda: Levels(framer.received_lsn, gate.confirmed)  # noqa: E731
        self.feedback = SimFeedback(stream, levels, _METRICS)  # type: ignore[arg-type]
        self._keeper = Keeper(gate, self.feedback, progress, _METRICS)
        self.gate, self._confirmed = gate, gate.confirmed
        self._generation, self._topic_life = opened.stamp.generation.id, world.topic.life
        publisher = LogPublisher(
            opened.producer,
            config.raw_topic,
            next_offset=opened.next_offset,
            on_durable=self._durable,
            on_flight=self._keeper.in_flight,
        )
        self._watch = SourceWatch(side, config, progress)  # type: ignore[arg-type]
        self.taking = taking = Taking(world, config, self._keeper, opened.lineage)
        said = lambda: taking.lineage  # noqa: E731
        self._raw_watch = RawWatch(config, opened, self._keeper, self._beginning, progress, said=said)
        self._keeper.acked(opened.acks)
        self.publisher = publisher
        return Intake(stream, framer, publisher, self.feedback, _METRICS, progress)  # type: ignore[arg-type]

    def _durable(self, frame: SealedFrame, offset: int) -> None:
        topic = self._world.topic
        if topic.life == self._topic_life and topic.value(offset) != frame.data:
            raise Violation("I3", "taken for durable, and not in the log", f"offset {offset}")
        assert self._keeper is not None
        self._keeper.durable(frame, offset)

    def _check_gate(self) -> None:
        if self.gate is not None:
            if self.gate.confirmed < self._confirmed:
                raise Violation("I12", "the gate moved back", str(self.gate.confirmed))
            self._confirmed = self.gate.confirmed

    def _guarded(self, act: Any) -> None:
        self._world.acting = self
        try:
            act()
            self._check_gate()
        except StopIteration:
            self._ended(ExitCode.CLEAN)
        except TidegateError as error:
            self.error = eased(self._config, error) if self.is_running else error
            self.close()
            self._ended(self.error.exit_code)

    def _ended(self, code: ExitCode) -> None:
        self.exit_code = code
        if self._stream is not None:
            self._stream.close()
        self._world.reader_ended(self)


def drive(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """To its end: what it waits for here is there."""
    try:
        while True:
            coroutine.send(None)
    except StopIteration as stop:
        return stop.value
