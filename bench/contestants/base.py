"""What a contestant is given, and what it must be able to do.

A session: start (until the first event arrives) → the intake stands while WAL is written → it goes on → live → kill -9
and start again → stop. Invariant: after `stop` or `kill` no process of the contestant is left.
"""

import os
import signal
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from tidegate.stack.kafka import Kafka
from tidegate.stack.postgres import Postgres
from tidegate.stack.redis import Redis

PUBLICATION = "bench"
STOP_SECONDS = 40.0


class ContestantError(Exception):
    """It cannot be had here, did not start, or ended by itself: it is out of this session, the others go on."""


@dataclass(frozen=True, slots=True)
class Rig:
    """The servers, and the names that are this session's own."""

    folder: Path
    name: str
    postgres: Postgres
    database: str
    kafka: Kafka
    redis: Redis

    @property
    def slot(self) -> str:
        return f"bench_{self.name}".replace("-", "_")

    def topic(self, table: str) -> str:
        return f"{self.name}.public.{table}"


@dataclass(frozen=True, slots=True)
class Change:
    """What the consumer makes of an event."""

    operation: str
    """c, u or d."""
    key: int
    number: int | None
    committed: float
    """Seconds since 1970 by the source's clock."""


class Contestant(ABC):
    name: ClassVar[str]
    label: ClassVar[str]

    def __init__(self, rig: Rig) -> None:
        self.rig = rig

    @classmethod
    @abstractmethod
    def settings(cls) -> Mapping[str, str]:
        """What differs from its own defaults, or is worth knowing."""

    @classmethod
    @abstractmethod
    def versions(cls) -> Mapping[str, str]: ...

    @abstractmethod
    def start(self) -> None:
        """From nothing, and again after `kill`; returns before it is ready."""

    @abstractmethod
    def pause(self) -> None:
        """The slot is let go; whatever else runs stays up and warm."""

    @abstractmethod
    def resume(self) -> None: ...

    @abstractmethod
    def stop(self) -> None: ...

    @abstractmethod
    def kill(self) -> None:
        """SIGKILL to every process of it."""

    @abstractmethod
    def pids(self) -> Sequence[int]:
        """Roots of its process trees, as far as they run."""

    @abstractmethod
    def check(self) -> None:
        """Raises ContestantError if a process of it ended by itself."""

    @abstractmethod
    def topics(self) -> Sequence[str]:
        """Prefixes of all topics that it writes."""

    def copies(self, table: str) -> Sequence[str]:
        """Topics that get the table's events, the one that is judged first."""
        return (self.rig.topic(table),)

    @abstractmethod
    def change(self, value: bytes) -> Change: ...


class Program:
    """One process with all it starts, in a session of its own, its output kept."""

    def __init__(self, command: Sequence[str], log: Path, environ: Mapping[str, str] | None = None) -> None:
        self._command, self._log, self._environ = tuple(command), log, environ
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None and self._process.poll() is None else None

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command, env=self._environ, stdout=log, stderr=log, start_new_session=True
            )

    def stop(self) -> int | None:
        """None if it did not end by itself, and had to be killed, or was not there."""
        code = None
        if self._process is not None:
            self._process.terminate()
            with suppress(subprocess.TimeoutExpired):
                code = self._process.wait(STOP_SECONDS)
        self.kill()
        return code

    def kill(self) -> None:
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(10)
            self._process = None

    def check(self) -> None:
        if self._process is not None and self._process.poll() is not None:
            raise ContestantError(f"ended with {self._process.returncode}: {' | '.join(last_lines(self._log))}")


def last_lines(log: Path, lines: int = 3) -> list[str]:
    return log.read_text(errors="replace").splitlines()[-lines:] if log.exists() else []
