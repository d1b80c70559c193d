"""The stack: the servers in one state directory, started side by side, stopped in order.

Invariant: at most one process holds a state directory (a lock that ends with its holder), so whatever a start finds
running there under our name is a leftover.
"""

import fcntl
import os
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Self

from tidegate.errors import ConfigError
from tidegate.stack.kafka import Kafka
from tidegate.stack.postgres import Postgres, PostgresInstall
from tidegate.stack.redis import Redis
from tidegate.stack.server import Progress, Server, silent


class Stack:
    """`databases` are made in PostgreSQL when not there. A second start in the same directory keeps all data."""

    def __init__(
        self,
        state_dir: Path | str,
        *,
        fsync: bool = True,
        databases: Iterable[str] = (),
        install: PostgresInstall | None = None,
        postgres_settings: Mapping[str, str] | None = None,
        progress: Progress = silent,
    ) -> None:
        self.state_dir = Path(state_dir).absolute()
        self.postgres = Postgres(
            self.state_dir / "postgres", install=install, fsync=fsync, settings=postgres_settings, progress=progress
        )
        self.kafka = Kafka(self.state_dir / "kafka", progress=progress)
        self.redis = Redis(self.state_dir / "redis", fsync=fsync, progress=progress)
        self._databases = tuple(databases)
        self._lock: int | None = None

    @property
    def servers(self) -> tuple[Server, ...]:
        """In the order they stop: the source first, the state last."""
        return (self.postgres, self.kafka, self.redis)

    def start(self) -> Self:
        self._take()
        try:
            with ThreadPoolExecutor(len(self.servers), thread_name_prefix="stack") as pool:
                starts = [pool.submit(server.start) for server in self.servers]
                try:
                    for start in starts:
                        start.result()
                except BaseException:
                    self._stop_servers()  # those still starting notice and give up, else the pool would wait for them
                    raise
            for name in self._databases:
                self.postgres.ensure_database(name)
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """May be called twice."""
        self._stop_servers()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _stop_servers(self) -> None:
        for server in self.servers:
            server.stop()

    def _take(self) -> None:
        self.state_dir.mkdir(parents=True, exist_ok=True)
        self._lock = os.open(self.state_dir / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._lock)
            self._lock = None
            raise ConfigError(
                f"{self.state_dir} is in use by another stack",
                code="STACK_IN_USE",
                remedy="Stop the other one, or name another state directory.",
            ) from None
