"""The source of a session: a database with every table of the workloads, one publication, and slots.

Invariant: what a contestant reads is written between its slot being made and its intake going on, and nothing of it is
written twice.
"""

import os
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

from bench.contestants.base import PUBLICATION
from bench.workloads import ALWAYS_SCHEMA, LIVE_TABLE, Load, Workload
from tidegate.stack.postgres import Postgres

LIMIT_SLOT = "bench_limit"
PGBENCH_CLIENTS = 8


@dataclass
class Source:
    postgres: Postgres
    database: str
    connection: psycopg.Connection[Any]

    @property
    def dsn(self) -> str:
        return self.postgres.dsn(self.database)

    def value(self, query: str, *parameters: object) -> Any:
        row = self.connection.execute(query.encode(), parameters or None).fetchone()
        return row and row[0]

    def make_tables(self, workloads: Sequence[Workload]) -> None:
        self.connection.execute(ALWAYS_SCHEMA.encode())
        for workload in workloads:
            self.connection.execute(workload.schema.encode())
            for statement in workload.before:
                self.connection.execute(statement.encode())
        self.connection.execute(f"CREATE PUBLICATION {PUBLICATION} FOR ALL TABLES".encode())

    def make_slot(self, name: str) -> None:
        self.connection.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", [name])

    def write(self, workload: Workload) -> float:
        """Seconds. The disk is not waited for: what is measured is who reads it."""
        begun = time.monotonic()
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            connection.execute("SET synchronous_commit = off")
            for statement in workload.writes:
                connection.execute(statement.encode())
        return time.monotonic() - begun

    def write_rows(self, table: str, rows: int) -> None:
        query = f"INSERT INTO {table} (note) SELECT 'some text of a usual length' FROM generate_series(1, %s)"
        self.connection.execute(query.encode(), [rows])

    def limit(self) -> tuple[float, float]:
        """pg_recvlogical to /dev/null over what its slot holds, which is dropped then: seconds and its CPU-seconds."""
        program = str(self.postgres.binaries / "pg_recvlogical")
        end = flushed_end(self.connection)
        command = [program, "--slot", LIMIT_SLOT, "-d", self.dsn]
        options = ["-o", "proto_version=1", "-o", f"publication_names={PUBLICATION}", "-f", "/dev/null"]
        begun = time.monotonic()
        spent = _cpu_seconds_of([*command, "--start", "--no-loop", "--endpos", end, *options])
        seconds = time.monotonic() - begun
        subprocess.run([*command, "--drop-slot"], check=True, capture_output=True)
        return seconds, spent

    @contextmanager
    def writing(self, load: Load, folder: Path) -> Iterator["subprocess.Popen[bytes]"]:
        """pgbench at a fixed rate, beside the consumer: who is slow once must not be asked less often for it."""
        script = folder / "load.sql"
        script.write_text(load.script)
        command = [str(self.postgres.binaries / "pgbench"), "-n", "-M", "prepared", "-f", str(script)]
        rate = ["-R", str(load.transactions_a_second), "-T", str(load.seconds), "-c", str(PGBENCH_CLIENTS), self.dsn]
        process = subprocess.Popen([*command, *rate], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            yield process
        finally:
            process.kill()
            process.wait()

    def live_keys(self) -> int:
        return int(self.value(f"SELECT coalesce(max(id), 0) FROM {LIVE_TABLE}"))


def flushed_end(connection: psycopg.Connection[Any]) -> str:
    """Where WAL ends, all that was written so far flushed: what commits without waiting for the disk is flushed later,
    and nobody is sent it before. A commit that has written something and waits flushes everything before it; what
    this one writes is in no publication."""
    with connection.transaction():
        connection.execute("SET LOCAL synchronous_commit = on")
        connection.execute("COMMENT ON SCHEMA public IS 'flushed'")
    row = connection.execute("SELECT pg_current_wal_flush_lsn()::text").fetchone()
    assert row is not None
    return str(row[0])


@contextmanager
def source_of(postgres: Postgres, database: str) -> Iterator[Source]:
    """A database of the session's own, gone with its slots afterwards."""
    postgres.ensure_database(database)
    try:
        with psycopg.connect(postgres.dsn(database), autocommit=True) as connection:
            yield Source(postgres, database, connection)
    finally:
        _drop(postgres, database)


def _cpu_seconds_of(command: Sequence[str]) -> float:
    """Of the process alone, as the kernel counted it."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise subprocess.CalledProcessError(process.returncode, command[0])
    return usage.ru_utime + usage.ru_stime


def _drop(postgres: Postgres, database: str) -> None:
    with psycopg.connect(postgres.dsn(), autocommit=True) as connection:
        slots = "SELECT slot_name, active_pid FROM pg_replication_slots WHERE database = %s"
        for name, pid in connection.execute(slots, [database]).fetchall():
            if pid is not None:
                connection.execute("SELECT pg_terminate_backend(%s, 10000)", [pid])
            connection.execute("SELECT pg_drop_replication_slot(%s)", [name])
        connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(database)))
        connection.execute("CHECKPOINT")
