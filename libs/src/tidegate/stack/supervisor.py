"""Keeps the fleet's services running as compose would, by the exit codes of the design.

    waiting ──▶ running ──exit 0──────────▶ done
                 ▲   ├────exit 2 or 3─────▶ down      a person has to act: configuration, or loss
                 │   ├────stop()──────────▶ stopped
                 │   └────anything else───▶ backing_off ──delay──┐
                 └────────────────────────────────────────────────┘
Invariant: a service runs at most once, and nothing that it started in its process group outlives it.
"""

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from signal import SIGKILL, SIGTERM
from types import TracebackType
from typing import Self

from tidegate.backoff import Backoff
from tidegate.errors import ExitCode, TransientError
from tidegate.stack.identity import end_leftover
from tidegate.stack.process import ChildProcess, Command

FIRST_DELAY_SECONDS = 0.2
LONGEST_DELAY_SECONDS = 10.0
HEALTHY_SECONDS = 30.0
STOP_SECONDS = 15.0
NEEDS_A_PERSON = (ExitCode.CONFIGURATION, ExitCode.LOST)


class ServiceState(StrEnum):
    WAITING = "waiting"
    RUNNING = "running"
    BACKING_OFF = "backing_off"
    DONE = "done"
    DOWN = "down"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class Service:
    """`environment` is added to the few variables every child inherits."""

    name: str
    argv: tuple[str, ...]
    log: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    folder: Path | None = None


@dataclass(frozen=True, slots=True)
class ServiceStatus:
    name: str
    state: ServiceState = ServiceState.WAITING
    pid: int | None = None
    restarts: int = 0
    last_exit: int | None = None
    """As `subprocess` has it: negative for a signal."""


Observe = Callable[[ServiceStatus], None]
"""Called at every change, from the service's own thread."""


class Supervisor:
    """`run_dir` holds the pid files by which the next start finds what a killed supervisor left."""

    def __init__(self, services: Iterable[Service], run_dir: Path, *, observe: Observe = lambda _status: None) -> None:
        self._keepers = {
            service.name: _Keeper(service, run_dir / f"{service.name}.pid.json", observe) for service in services
        }
        self._run_dir = run_dir

    def start(self) -> Self:
        self._run_dir.mkdir(parents=True, exist_ok=True)
        for keeper in self._keepers.values():
            keeper.start()
        return self

    def stop(self, deadline_seconds: float = STOP_SECONDS) -> None:
        """SIGTERM to all at once, SIGKILL to those still there at the deadline. May be called twice."""
        for keeper in self._keepers.values():
            keeper.ask_to_stop()
        deadline = time.monotonic() + deadline_seconds
        for keeper in self._keepers.values():
            keeper.finish(max(0.0, deadline - time.monotonic()))

    def kill(self, name: str) -> None:
        """SIGKILL, as a crash would be; the service is then restarted by the rules."""
        self._keepers[name].kill()

    def status(self) -> tuple[ServiceStatus, ...]:
        return tuple(keeper.status for keeper in self._keepers.values())

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


class _Keeper:
    """One thread for one service: start it, wait for its end, decide."""

    def __init__(self, service: Service, pid_file: Path, observe: Observe) -> None:
        self.status = ServiceStatus(service.name)
        self._service = service
        self._pid_file = pid_file
        self._observe = observe
        self._stopping = threading.Event()
        self._changing = threading.Lock()
        self._child: ChildProcess | None = None
        self._thread = threading.Thread(target=self._keep, name=f"supervise {service.name}", daemon=True)

    def start(self) -> None:
        end_leftover(self._pid_file, ((SIGTERM, STOP_SECONDS), (SIGKILL, 5.0)))
        self._thread.start()

    def ask_to_stop(self) -> None:
        with self._changing:
            self._stopping.set()
            if self._child:
                self._child.send(SIGTERM)

    def finish(self, seconds: float) -> None:
        if not self._thread.ident:
            return
        self._thread.join(seconds)
        self.kill()
        self._thread.join()

    def kill(self) -> None:
        child = self._child
        if child:
            child.kill()

    def _keep(self) -> None:
        backoff = Backoff(FIRST_DELAY_SECONDS, LONGEST_DELAY_SECONDS, HEALTHY_SECONDS)
        while not self._stopping.is_set():
            begun = time.monotonic()
            code = self._run_once()
            end = self._end_state(code)
            if end is not ServiceState.BACKING_OFF:
                self._tell(end, last_exit=code)
                return
            self._tell(end, last_exit=code)
            if self._stopping.wait(backoff.after(time.monotonic() - begun)):
                break
            self.status = replace(self.status, restarts=self.status.restarts + 1)
        self._tell(ServiceState.STOPPED, last_exit=self.status.last_exit)

    def _run_once(self) -> int | None:
        """None when it could not be started, or was not to be any more."""
        with self._changing:
            if self._stopping.is_set():
                return None
            child = self._child = ChildProcess(self._command())
            try:
                child.start()
            except TransientError:
                return None
        self._tell(ServiceState.RUNNING, pid=child.pid, last_exit=self.status.last_exit)
        child.exited.wait()
        return child.exit_code

    def _end_state(self, code: int | None) -> ServiceState:
        if self._stopping.is_set():
            return ServiceState.STOPPED
        if code == ExitCode.CLEAN:
            return ServiceState.DONE
        return ServiceState.DOWN if code in NEEDS_A_PERSON else ServiceState.BACKING_OFF

    def _tell(self, state: ServiceState, *, last_exit: int | None, pid: int | None = None) -> None:
        self.status = replace(self.status, state=state, pid=pid, last_exit=last_exit)
        self._observe(self.status)

    def _command(self) -> Command:
        service = self._service
        return Command(
            argv=service.argv,
            log=service.log,
            pid_file=self._pid_file,
            environment=service.environment,
            folder=service.folder,
            sweep=True,
        )
