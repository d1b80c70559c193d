"""The demo, top to bottom.

hold the state directory → processor and admin (they wait) ∥ servers → reader → shop writes, consumer checks
→ time is over or Ctrl-C → shop stops → everything has arrived, the slot has moved → stop in order → summary

Invariant: the exit code is 0 only if every committed change arrived once its commit was through, in order.
"""

import asyncio
import signal
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from rich.console import Console
from rich.live import Live

from tidegate.config.load import load_pipeline
from tidegate.config.pipeline import PipelineConfig
from tidegate.contracts.names import raw_topic
from tidegate.errors import ExitCode, StreamError, TidegateError, TransientError
from tidegate.stack.process import tail
from tidegate.stack.server import ServerState
from tidegate.stack.supervisor import ServiceState, ServiceStatus
from tidegate.stack.up import Stack
from tidegate_admin.demo import screen
from tidegate_admin.demo.consumer import PARTITIONS, Consumer
from tidegate_admin.demo.fleet import Fleet, FleetPlan, log_of
from tidegate_admin.demo.ledger import Ledger
from tidegate_admin.demo.place import Place, shop_pipeline
from tidegate_admin.demo.progress import DemoProgress
from tidegate_admin.demo.shop import TABLES
from tidegate_admin.demo.summary import Summary, summarise
from tidegate_admin.demo.writer import CHANGES_A_SECOND, Writer
from tidegate_admin.pipelines.watch import Observer

WANTED_PORTS = {"postgres": 0, "kafka": 0, "redis": 0, "reader": 0, "processor": 0, "admin": 8080}
FIRST_EVENT_SECONDS = 120.0
ARRIVE_SECONDS = 90.0
"""A lane whose worker was killed is noticed after 15 s and needs a few more to be back."""
CONFIRM_SECONDS = 30.0
_LOOK_SECONDS = 0.5
_FRAMES_A_SECOND = 4
_LINE_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class DemoOptions:
    place: Place
    seconds: float | None
    """How long after the first event; none: until Ctrl-C."""
    changes_a_second: float = CHANGES_A_SECOND
    plain: bool = False


async def run_demo(options: DemoOptions, begun: float, out: Console, err: Console) -> int:
    with options.place.held():
        demo = Demo(options, begun, out, err)
        summary = await demo.run()
    if summary is None:
        err.print("stopped before the first event")
        return ExitCode.CLEAN
    out.print("\n".join(["", *summary.lines()]), highlight=False, markup=False)
    return ExitCode.CLEAN if summary.is_good or not summary.checked else ExitCode.RETRY


class Demo:
    def __init__(self, options: DemoOptions, begun: float, out: Console, err: Console) -> None:
        self._options, self._out, self._err = options, out, err
        self.ports = options.place.ports(WANTED_PORTS)
        self.progress = DemoProgress(begun, Ledger())
        self._asked_to_stop = asyncio.Event()
        self._cut_off = asyncio.Event()
        self._stack = Stack(options.place.root, databases=["shop"], progress=self._server_changed)
        self._fleet: Fleet | None = None

    async def run(self) -> Summary | None:
        """None when it was stopped before there was anything to sum up."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._interrupt)
        try:
            config = await self._start()
            return None if config is None else await self._play(config)
        finally:
            self.progress.stage = "stopping"
            await asyncio.shield(asyncio.to_thread(self._stop))

    def _interrupt(self) -> None:
        if self._asked_to_stop.is_set():
            self._cut_off.set()
        elif self.progress.first_event:
            self._err.print("stopping: waiting for what is on its way; Ctrl-C again to leave at once")
        self._asked_to_stop.set()

    # ---- start

    async def _start(self) -> PipelineConfig | None:
        place = self._options.place
        for server in self._stack.servers:
            server.port = self.ports[server.name]
            server.folder.mkdir(mode=0o755, exist_ok=True)
        _ = self._stack.postgres.password, self._stack.redis.password  # drawn now: services read them from their files
        file = place.write_pipeline(shop_pipeline(place, self.ports, TABLES, PARTITIONS))
        self._fleet = Fleet(FleetPlan(place, file), observe=self._service_changed)
        self._fleet.start_early()
        starting = asyncio.create_task(asyncio.to_thread(self._stack.start))
        if await self._first(starting, self._asked_to_stop):
            starting.result()
            self._fleet.start_reader()
            return load_pipeline(file, environ={}, secrets=("source", "redis"))
        await asyncio.to_thread(self._stack.stop)
        with suppress(TidegateError):  # it gave up because it was told to
            await starting
        return None

    async def _first(self, task: "asyncio.Task[object]", stop: asyncio.Event) -> bool:
        """Whether the task came first."""
        stopped = asyncio.create_task(stop.wait())
        await asyncio.wait({task, stopped}, return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        return task.done()

    def _server_changed(self, name: str, state: ServerState, seconds: float) -> None:
        if state in (ServerState.READY, ServerState.FAILED):
            self._err.print(screen.startup_line(name, state, seconds), highlight=False)

    def _service_changed(self, status: ServiceStatus) -> None:
        exited = "" if status.last_exit is None else f", last exit {status.last_exit}"
        if status.state in (ServiceState.BACKING_OFF, ServiceState.DOWN):
            self._err.print(f"{status.name} {status.state}{exited}", highlight=False)

    # ---- play

    async def _play(self, config: PipelineConfig) -> Summary:
        progress, options = self.progress, self._options
        slot = config.source.slot.name
        writer = Writer(
            self._stack.postgres.dsn("shop"), slot, progress.ledger, changes_a_second=options.changes_a_second
        )
        topics = [f"{config.pipeline}.public.{table}" for table in TABLES]
        consumer = Consumer(config.kafka.bootstrap, topics, progress.judge)
        progress.places = self._places()
        progress.stage = "waiting for the first event"
        consuming = asyncio.create_task(consumer.run(), name="consumer")
        looking = asyncio.create_task(self._look(Observer(config)), name="look")
        try:
            writer.start()
            async with self._shown():
                await self._until(lambda: self._is_over(writer, consuming, looking), None)
                return await self._finish(writer, consuming)
        finally:
            await asyncio.to_thread(writer.stop)
            for task in (consuming, looking):
                task.cancel()
            await asyncio.gather(consuming, looking, return_exceptions=True)

    def _is_over(self, writer: Writer, *tasks: "asyncio.Task[None]") -> bool:
        """Raises when it cannot go on."""
        progress, seconds = self.progress, self._options.seconds
        if writer.failure:
            raise writer.failure
        for task in tasks:
            if task.done():
                task.result()
        for service in progress.services:
            if service.state in (ServiceState.DOWN, ServiceState.DONE):
                raise self._service_gave_up(service)
        if progress.first_event is None and time.monotonic() - progress.begun > FIRST_EVENT_SECONDS:
            raise TransientError(
                f"no event arrived within {FIRST_EVENT_SECONDS:.0f} s",
                code="DEMO_NO_EVENT",
                remedy=f"Read the logs in {self._options.place.logs}.",
            )
        if progress.first_event:
            progress.stage = "running"
        return self._asked_to_stop.is_set() or (seconds is not None and progress.running_seconds >= seconds)

    def _service_gave_up(self, service: ServiceStatus) -> StreamError:
        log = log_of(self._options.place, service.name)
        said = " | ".join(tail(log, lines=1))[:600]
        return StreamError(
            f"the {service.name} ended with {service.last_exit}: {said or 'it said nothing'}",
            code="DEMO_SERVICE_DOWN",
            remedy=f"Read {log}.",
        )

    async def _look(self, observer: Observer) -> None:
        try:
            while True:
                self.progress.view = await observer.look()
                if self._fleet:
                    self.progress.services = self._fleet.status()
                await asyncio.sleep(_LOOK_SECONDS)
        finally:
            await observer.close()

    # ---- finish

    async def _finish(self, writer: Writer, consuming: "asyncio.Task[None]") -> Summary:
        progress = self.progress
        progress.stage = "waiting for the last events"
        await asyncio.to_thread(writer.stop)

        def arrived() -> bool:
            if consuming.done():
                consuming.result()
            return progress.ledger.due == 0

        checked = progress.first_event is not None or not self._asked_to_stop.is_set()
        if checked:
            await self._until(arrived, ARRIVE_SECONDS)
            await self._until(lambda: self._slot_is_past(writer), CONFIRM_SECONDS)
        return summarise(
            progress, checked=checked and not self._cut_off.is_set(), slot_caught_up=self._slot_is_past(writer)
        )

    def _slot_is_past(self, writer: Writer) -> bool:
        slot = self.progress.view.slot if self.progress.view else None
        confirmed = getattr(slot, "confirmed_flush_lsn", None)
        return writer.end_lsn is not None and confirmed is not None and confirmed >= writer.end_lsn

    async def _until(self, condition: Callable[[], bool], seconds: float | None) -> bool:
        deadline = None if seconds is None else time.monotonic() + seconds
        while not condition():
            if self._cut_off.is_set() or (deadline is not None and time.monotonic() > deadline):
                return False
            await asyncio.sleep(0.05)
        return True

    def _stop(self) -> None:
        if self._fleet:
            self._fleet.stop()
        self._stack.stop()

    # ---- show

    @asynccontextmanager
    async def _shown(self) -> AsyncIterator[None]:
        if self._out.is_terminal and not self._options.plain:
            with Live(
                get_renderable=lambda: screen.picture(self.progress),
                console=self._out,
                refresh_per_second=_FRAMES_A_SECOND,
            ):
                yield
            return
        screen.announce(self._err, self.progress)
        printing = asyncio.create_task(self._print_lines())
        try:
            yield
        finally:
            printing.cancel()

    async def _print_lines(self) -> None:
        """One every few seconds, and one at the first event."""
        progress = self.progress
        while True:
            waiting = progress.first_event is None
            await self._until(self._has_first_event if waiting else lambda: False, _LINE_SECONDS)
            if waiting and progress.first_event_seconds is not None:
                self._out.print(f"first event after {progress.first_event_seconds:.1f} s", highlight=False)
            self._out.print(screen.line(progress), highlight=False, markup=False, soft_wrap=True)

    def _has_first_event(self) -> bool:
        return self.progress.first_event is not None

    def _places(self) -> tuple[tuple[str, str], ...]:
        ports, place = self.ports, self._options.place
        postgres = self._stack.postgres
        return (
            ("Admin page", f"http://127.0.0.1:{ports['admin']}/"),
            ("API", f"http://127.0.0.1:{ports['admin']}/docs"),
            ("Kafka", f"{self._stack.kafka.bootstrap}  (events on shop.public.*, frames on {raw_topic('shop')})"),
            ("PostgreSQL", f"postgresql://{postgres.user}@{postgres.host}:{postgres.port}/shop"),
            ("  password", f"in {postgres.folder / 'postgres.password'}"),
            ("Logs", str(place.logs)),
        )
