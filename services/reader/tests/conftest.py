"""A reader as a process of its own against real servers, and the raw topic as an independent judge reads it."""

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest
import redis as redis_client
from kit.postgres_versions import chosen_versions
from kit.raw_topic import Record, messages_of, read_topic, valid
from kit.wait import wait

from tidegate.checkpoint.redis_store import write_ack
from tidegate.contracts.ack import Ack
from tidegate.contracts.frame import Frame
from tidegate.contracts.missed import NONE, Missed
from tidegate.contracts.names import raw_topic, reader_status_key
from tidegate.contracts.status import ReaderStatus, State
from tidegate.lsn import Lsn, parse_lsn
from tidegate.pgoutput.messages import Message
from tidegate.stack.postgres import Postgres
from tidegate.stack.server import free_port

SINK = "topics"


@dataclass
class Fleet:
    """One pipeline's surroundings; `reader()` starts the service under test."""

    name: str
    dsn: str
    bootstrap: str
    redis_url: str
    folder: Path
    settings: dict[str, Any]
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)
    logs: list[Path] = field(default_factory=list)
    variables: dict[str, str] = field(default_factory=dict)
    program: Sequence[str] = ("-m", "tidegate_reader.main")
    major: int = 18
    server: Any = None

    @property
    def topic(self) -> str:
        return raw_topic(self.name)

    def sql(self, statement: str, *parameters: object) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            cursor = connection.execute(statement.encode(), parameters or None)
            return cursor.fetchall() if cursor.description else []

    def config(self) -> Path:
        path = self.folder / "pipeline.yaml"
        path.write_text(json.dumps(self.settings))
        return path

    def start(self, *overrides: str) -> subprocess.Popen[bytes]:
        """Does not wait for anything."""
        log = self.folder / f"reader-{len(self.logs)}.log"
        command = [sys.executable, *self.program, "--config", str(self.config())]
        for override in overrides:
            command += ["--set", override]
        with log.open("wb") as stderr:
            process = subprocess.Popen(command, stderr=stderr, env=self.environment())
        self.processes.append(process)
        self.logs.append(log)
        return process

    def environment(self) -> dict[str, str]:
        parts, redis = urlsplit(self.dsn), urlsplit(self.redis_url)
        passwords = {"SOURCE_PASSWORD": parts.password or "", "REDIS_PASSWORD": redis.password or ""}
        return os.environ | passwords | self.variables

    def reader(self, *overrides: str) -> subprocess.Popen[bytes]:
        """Started, and its epoch begun."""
        process = self.start(*overrides)

        def runs() -> bool:
            assert process.poll() is None, self.log()
            status = self.status()
            return status is not None and status.pid == process.pid and status.state is State.RUNNING

        wait(runs, 30, "the reader runs")
        return process

    def log(self) -> str:
        return self.logs[-1].read_text()

    def exit_code(self, process: subprocess.Popen[bytes], within_seconds: float = 30) -> int:
        wait(lambda: process.poll() is not None, within_seconds, "the reader ends")
        return process.returncode

    def stop(self, process: subprocess.Popen[bytes], within_seconds: float = 5) -> int:
        process.send_signal(signal.SIGTERM)
        return self.exit_code(process, within_seconds)

    def status(self) -> ReaderStatus | None:
        with self.redis() as client:
            value = client.get(reader_status_key(self.name))
        return ReaderStatus.decode(value) if isinstance(value, bytes) else None

    def confirmed(self) -> Lsn:
        [(lsn,)] = self.sql(
            f"SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE slot_name = '{self.slot}'"
        )
        return parse_lsn(lsn)

    def last_heard(self) -> Any:
        """When the server had our last status."""
        return self.sql("SELECT reply_time FROM pg_stat_replication WHERE application_name LIKE %s", f"%{self.name}%")

    def redis(self) -> redis_client.Redis:
        return redis_client.Redis.from_url(self.redis_url)

    def wal_end(self) -> Lsn:
        return parse_lsn(self.sql("SELECT pg_current_wal_flush_lsn()::text")[0][0])

    @property
    def slot(self) -> str:
        return f"tidegate_{self.name}"

    def records(self) -> list[Record]:
        return asyncio.run(read_topic(self.bootstrap, self.topic))

    def valid_records(self) -> list[Record]:
        return valid(self.records())

    def frames(self) -> list[Frame]:
        return [each.frame for each in self.valid_records()]

    def messages(self) -> list[Message]:
        return messages_of(self.frames())

    def ack(self, record: Record, topic_id: str = "any", sink: str = SINK, missed: Missed = NONE) -> None:
        header = record.frame.header
        ack = Ack(
            sink=sink,
            generation=header.generation.id,
            epoch=header.epoch,
            topic_id=topic_id,
            offset=record.offset,
            position=header.last,
            safe_lsn=header.safe_lsn,
            time=time.time_ns() // 1000,
            missed=missed,
        )
        with self.redis() as client:
            write_ack(client, self.name, ack)

    def ack_everything(self) -> None:
        self.ack(valid(self.records())[-1])


@pytest.fixture
def fleet(postgres: Any, kafka: Any, redis: Any, database: Any, prefix: str, tmp_path: Path) -> Iterator[Fleet]:
    yield from _living(_fleet(prefix, database.dsn, kafka.bootstrap, redis.url, tmp_path))


@pytest.fixture
def fleet_on(kafka: Any, redis: Any, prefix: str, tmp_path: Path) -> Iterator[Callable[[str], Fleet]]:
    """A fleet on a server of the test's own, by its DSN."""
    with ExitStack() as living:

        def make(dsn: str) -> Fleet:
            with psycopg.connect(dsn, autocommit=True) as connection:
                connection.execute(f'CREATE DATABASE "{prefix}"')
            fleet = _fleet(
                prefix, urlsplit(dsn)._replace(path=f"/{prefix}").geturl(), kafka.bootstrap, redis.url, tmp_path
            )
            return living.enter_context(contextmanager(_living)(fleet))

        yield make


@pytest.fixture
def own_postgres() -> Iterator[Postgres]:
    """A server of the test's own, for what concerns all of it."""
    folder = Path(tempfile.mkdtemp(prefix="tidegate-restored-"))
    folder.chmod(0o755)
    server = Postgres(folder / "server", fsync=False)
    server.start()
    yield server
    server.stop()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(params=chosen_versions())
def versioned(
    request: pytest.FixtureRequest, postgres_versions: Any, kafka: Any, redis: Any, prefix: str, tmp_path: Path
) -> Iterator[Fleet]:
    """A fleet on each chosen major; `.major` says which. Its slot is dropped, its database goes with the server."""
    server = postgres_versions(request.param)
    fleet = _fleet(prefix, server.ensure_database(prefix), kafka.bootstrap, redis.url, tmp_path)
    fleet.major = int(request.param.split(".")[0])
    yield from _living(fleet)
    active = "SELECT count(*) = 0 FROM pg_replication_slots WHERE database = current_database() AND active"
    wait(lambda: fleet.sql(active) == [(True,)], 10, "the server has noticed that the reader is gone")
    fleet.sql(
        "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = current_database()"
    )


def _fleet(name: str, dsn: str, bootstrap: str, redis_url: str, folder: Path) -> Fleet:
    parts, redis_parts = urlsplit(dsn), urlsplit(redis_url)
    settings = {
        "pipeline": name,
        "source": {
            "host": parts.hostname,
            "port": parts.port,
            "database": name,
            "user": parts.username,
            **({"password": "${env:SOURCE_PASSWORD}"} if parts.password else {}),
            "publication": {"tables": ["public.orders"]},
        },
        "kafka": {"bootstrap": bootstrap},
        "redis": {
            "url": f"redis://{redis_parts.hostname}:{redis_parts.port}/0",
            **({"password": "${env:REDIS_PASSWORD}"} if redis_parts.password else {}),
        },
        "sinks": [{"name": SINK, "type": "kafka_topics"}],
        "reader": {"http": "127.0.0.1:0", "look_every": "500ms", "gap_wait": "6s"},
    }
    return Fleet(name, dsn, bootstrap, redis_url, folder, settings)


def _living(fleet: Fleet) -> Iterator[Fleet]:
    fleet.sql("CREATE TABLE orders (id bigserial PRIMARY KEY, note text)")
    yield fleet
    for process in fleet.processes:
        if process.poll() is None:
            process.kill()
            process.wait()


@pytest.fixture
def lane(fleet: Fleet) -> Iterator[Callable[[], None]]:
    """A sink that acks whatever is in the raw topic, a few times a second, once it is started."""
    stop = threading.Event()

    def run() -> None:
        while not stop.wait(0.2):
            fleet.ack_everything()

    thread = threading.Thread(target=run)
    yield thread.start
    stop.set()
    if thread.ident is not None:
        thread.join()


@pytest.fixture
def unused_port() -> int:
    return free_port()
