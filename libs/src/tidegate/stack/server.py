"""What the three servers have in common: a folder, a port, a log, a way to ask whether they are ready.

    stopped ──start──▶ preparing ──▶ starting ──probe answers──▶ ready ──stop | kill──▶ stopped

Invariant: `start` returns with the server answering or raises with no process left; the port stays the same over a
restart.
"""

import os
import secrets
import socket
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from signal import Signals
from typing import ClassVar

from tidegate.errors import TransientError
from tidegate.stack.identity import StopSteps, end_leftover
from tidegate.stack.process import ChildProcess, Command, tail

HOST = "127.0.0.1"
PROBE_SECONDS = 0.02
PORT_TRIES = 3


class ServerState(StrEnum):
    PREPARING = "preparing"
    STARTING = "starting"
    READY = "ready"
    STOPPING = "stopping"
    STOPPED = "stopped"
    FAILED = "failed"


Progress = Callable[[str, ServerState, float], None]
"""Called, from any thread, with the server's name, its new state and the seconds since that was asked for."""


def silent(_name: str, _state: ServerState, _seconds: float) -> None:
    return


class Server(ABC):
    name: ClassVar[str]
    stop_steps: ClassVar[StopSteps]
    death_signal: ClassVar[Signals]
    start_seconds: ClassVar[float] = 60.0

    def __init__(self, folder: Path, *, progress: Progress = silent) -> None:
        self.folder = folder
        self.host = HOST
        self.port = 0
        self.log = folder / f"{self.name}.log"
        self._progress = progress
        self._child: ChildProcess | None = None
        self._spawning = threading.Lock()
        self._closed = False
        self._since = 0.0

    @abstractmethod
    def prepare(self) -> None:
        """Makes what has to be there before the process starts: data, configuration with the current port."""

    @abstractmethod
    def command(self) -> Command: ...

    @abstractmethod
    def answers(self) -> bool:
        """One real request; False while the server is not ready for work."""

    @property
    def pid(self) -> int | None:
        return self._child.pid if self._child and self._child.running else None

    @property
    def running(self) -> bool:
        return self.pid is not None

    def start(self) -> None:
        if self.running:
            return
        self._closed = False
        self._tell(ServerState.PREPARING, anew=True)
        self.folder.mkdir(mode=0o755, parents=True, exist_ok=True)
        end_leftover(self._pid_file, self.stop_steps)
        try:
            self._start_on_a_port()
        except BaseException:
            self._tell(ServerState.FAILED)
            self.kill()
            raise
        self._tell(ServerState.READY)

    def stop(self) -> None:
        self._close(lambda child: child.stop(self.stop_steps))

    def kill(self) -> None:
        """SIGKILL, as a crash would be; what the server left behind is recovered by the next start."""
        self._close(ChildProcess.kill)

    def restart(self) -> None:
        self.stop()
        self.start()

    def _start_on_a_port(self) -> None:
        """A free port is only probably still free when the server binds it; a port once ready is kept."""
        kept = self.port
        for attempt in range(PORT_TRIES):
            self.port = kept or free_port(self._remembered_port() if attempt == 0 else 0)
            self.prepare()
            log_bytes = self.log.stat().st_size if self.log.exists() else 0
            self._tell(ServerState.STARTING)
            self._spawn()
            if self._await_ready():
                self._port_file.write_text(str(self.port))
                return
            if kept or self._closed or is_free(self.port):
                break
        self.port = kept
        raise self._failure(log_bytes)

    def _spawn(self) -> None:
        with self._spawning:
            if self._closed:
                raise TransientError(f"{self.name} was stopped while it started", code="STACK_START_ABANDONED")
            self._child = ChildProcess(self.command())
            self._child.start()

    def _await_ready(self) -> bool:
        """False when the process ended by itself; one that stays without answering in time is for the caller to end."""
        child = self._child
        deadline = time.monotonic() + self.start_seconds
        while child is not None and not child.exited.wait(PROBE_SECONDS):
            if self.answers():
                return True
            if time.monotonic() > deadline:
                raise TransientError(
                    f"{self.name} did not answer within {self.start_seconds:.0f} s",
                    code="STACK_NOT_READY",
                    remedy=f"Read {self.log}.",
                )
        return False

    def _failure(self, log_bytes: int) -> TransientError:
        said = " | ".join(tail(self.log, log_bytes))
        return TransientError(
            f"{self.name} ended while it started: {said or 'it said nothing'}",
            code="STACK_SERVER_FAILED",
            remedy=f"Read {self.log}.",
        )

    def _close(self, end: Callable[[ChildProcess], object]) -> None:
        with self._spawning:
            self._closed = True
            child = self._child
        if child is None or not child.running:
            return
        self._tell(ServerState.STOPPING, anew=True)
        end(child)
        self._tell(ServerState.STOPPED)

    def _tell(self, state: ServerState, *, anew: bool = False) -> None:
        now = time.monotonic()
        if anew:
            self._since = now
        self._progress(self.name, state, now - self._since)

    @property
    def _pid_file(self) -> Path:
        return self.folder / f"{self.name}.pid.json"

    @property
    def _port_file(self) -> Path:
        return self.folder / f"{self.name}.port"

    def _remembered_port(self) -> int:
        try:
            return int(self._port_file.read_text())
        except (OSError, ValueError):
            return 0


def free_port(wanted: int = 0) -> int:
    """`wanted` if nobody listens there, else one the kernel picks."""
    if wanted and is_free(wanted):
        return wanted
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
        return True


def kept_secret(path: Path) -> str:
    """A password drawn once for this folder, readable by its owner only."""
    if not path.exists():
        write_private(path, secrets.token_urlsafe(24))
    return path.read_text().strip()


def write_private(path: Path, text: str) -> None:
    part = path.with_name(path.name + ".part")
    part.unlink(missing_ok=True)
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as stream:
        stream.write(text)
    part.replace(path)
