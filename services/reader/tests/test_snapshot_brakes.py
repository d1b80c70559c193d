"""A busy source, or a replica that is behind, holds a snapshot; the server itself says so, and nothing is guessed."""

import asyncio
import secrets
import threading
import time
import urllib.request
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import psycopg
import pytest
from kit.pipelines import source_of
from kit.wait import wait, wait_async

from tidegate.config.snapshot import SnapshotConfig
from tidegate.config.source import PostgresSource
from tidegate.contracts.names import snapshot_requests_key, snapshots_key
from tidegate.contracts.snapshot_request import SnapshotAsked, SnapshotRequest
from tidegate.contracts.snapshot_status import SnapshotState, decode_snapshot_status
from tidegate.errors import ConfigError
from tidegate.lsn import format_lsn, parse_lsn
from tidegate.pgoutput.wire import encode_status
from tidegate_reader.progress import Progress
from tidegate_reader.snapshot.brakes import Brakes
from tidegate_reader.sources.postgres_wal.session import SideConnection, replication_conninfo
from tidegate_reader.sources.postgres_wal.stream import ReplicationStream

Scenario = Callable[[SideConnection, PostgresSource], Awaitable[None]]


ENVIRONMENT = pytest.MonkeyPatch()


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    yield
    ENVIRONMENT.undo()


def play(dsn: str, scenario: Scenario) -> None:
    async def run() -> None:
        source = source_of(dsn, ENVIRONMENT.setenv)
        side = await SideConnection.open(source, "tidegate shop")
        try:
            await scenario(side, source)
        finally:
            await side.close()

    asyncio.run(run())


def brakes(side: SideConnection, **limits: Any) -> Brakes:
    ticks = iter(range(0, 10**6, 10))  # each look is a new one
    return Brakes(side, SnapshotConfig(**limits), "shop", Progress("shop", 1), lambda: next(ticks))


@contextmanager
def busy_sessions(dsn: str, count: int) -> Iterator[None]:
    with ExitStack() as stack:
        for _ in range(count):
            link = stack.enter_context(psycopg.connect(dsn, autocommit=True))
            link.pgconn.send_query(b"SELECT pg_sleep(300)")
            stack.callback(link.pgconn.finish)
            stack.callback(link.cancel)
        yield


def test_no_limit_asks_nothing(database: Any) -> None:
    async def scenario(side: SideConnection, _source: PostgresSource) -> None:
        assert await brakes(side).reason() == ""

    play(database.dsn, scenario)


def test_a_replica_that_is_behind_holds_it_until_it_has_caught_up(database: Any) -> None:
    async def scenario(side: SideConnection, source: PostgresSource) -> None:
        held = brakes(side, max_replica_lag="1MiB")
        stream = await ReplicationStream.connect(replication_conninfo(source, "replica"))
        try:
            begins = parse_lsn(await side.value("SELECT pg_current_wal_flush_lsn()::text"))
            await stream.start(f"START_REPLICATION PHYSICAL {format_lsn(begins)}")
            await stream.send(encode_status(write=begins, flush=begins, apply=begins, clock=0))
            assert await held.reason() == ""
            await side.value("SELECT pg_logical_emit_message(false, 'x', repeat('x', 3000000))::text")
            await wait_async(held.reason, 10, "the replica is behind")
            assert "a replica that is" in await held.reason()
            end = parse_lsn(await side.value("SELECT pg_current_wal_insert_lsn()::text"))
            await stream.send(encode_status(write=end, flush=end, apply=end, clock=0))

            async def is_free() -> bool:
                return not await held.reason()

            await wait_async(is_free, 10, "the replica has caught up")
        finally:
            stream.close()

    play(database.dsn, scenario)


@pytest.mark.parametrize(
    "limit", [{"max_active_sessions": 10}, {"max_replica_lag": "1MiB"}], ids=lambda limit: next(iter(limit))
)
def test_a_role_that_may_not_look_is_told(database: Any, limit: dict[str, Any]) -> None:
    """Taken for calm, the brake would be none."""
    role, password = f"blind_{secrets.token_hex(4)}", secrets.token_hex(8)
    with psycopg.connect(database.dsn, autocommit=True) as admin:
        admin.execute(f"CREATE ROLE {role} LOGIN PASSWORD '{password}'")  # type: ignore[arg-type]
        address = admin.info
        dsn = f"postgresql://{role}:{password}@{address.host}:{address.port}/{address.dbname}"

        async def scenario(side: SideConnection, _source: PostgresSource) -> None:
            stream = await ReplicationStream.connect(
                replication_conninfo(source_of(database.dsn, ENVIRONMENT.setenv), "replica")
            )
            try:
                begins = str(admin.execute("SELECT pg_current_wal_flush_lsn()::text").fetchone()[0])  # type: ignore[index]
                await stream.start(f"START_REPLICATION PHYSICAL {begins}")
                with pytest.raises(ConfigError) as refused:
                    await brakes(side, **limit).reason()
                assert refused.value.code == "SNAPSHOT_BRAKE_BLIND"
            finally:
                stream.close()

        try:
            play(dsn, scenario)
        finally:
            admin.execute(f"DROP ROLE {role}")  # type: ignore[arg-type]


@contextmanager
def connecting_sessions(dsn: str) -> Iterator[None]:
    """Each is done before it has done anything, in a stream that does not end."""
    is_over = threading.Event()

    def connect() -> None:
        while not is_over.is_set():
            psycopg.connect(dsn).close()

    threads = [threading.Thread(target=connect) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        is_over.set()
        for thread in threads:
            thread.join()


def test_a_session_that_connects_is_no_hidden_one(database: Any) -> None:
    """It has a type, and no state yet: whoever may see everything was told that the role may not look."""
    connecting = "SELECT 1 FROM pg_stat_activity WHERE (state IS NULL OR state = 'starting') AND datid IS NOT NULL"

    async def scenario(side: SideConnection, _source: PostgresSource) -> None:
        held, seen = brakes(side, max_active_sessions=10**6), 0
        deadline = time.monotonic() + 30
        while seen < 5 and time.monotonic() < deadline:
            assert await held.reason() == ""
            seen += bool(await side.fetch(connecting))
        assert seen == 5

    with connecting_sessions(database.dsn):
        play(database.dsn, scenario)


def test_a_server_that_does_not_track_its_sessions_is_told(database: Any) -> None:
    """A busy one would look like one that has no sessions at all."""

    async def scenario(side: SideConnection, _source: PostgresSource) -> None:
        with psycopg.connect(database.dsn, autocommit=True) as busy:
            busy.execute("SET track_activities = off")
            with pytest.raises(ConfigError) as refused:
                await brakes(side, max_active_sessions=10).reason()
        assert refused.value.code == "SNAPSHOT_BRAKE_UNTRACKED"

    play(database.dsn, scenario)


def test_rows_wait_while_the_source_is_busy(fleet: Any, unused_port: int) -> None:
    fleet.sql("INSERT INTO orders (note) SELECT 'row ' || n FROM generate_series(1, 100) n")
    fleet.reader("snapshot.max_active_sessions=3", f"reader.http=127.0.0.1:{unused_port}")
    with busy_sessions(fleet.dsn, 4), fleet.redis() as client:
        request = SnapshotRequest(secrets.token_hex(16), SnapshotAsked.START, "somebody", time.time_ns() // 1000)
        client.rpush(snapshot_requests_key(fleet.name), request.encode())

        def status() -> Any:
            value = client.hget(snapshots_key(fleet.name), request.id)
            return decode_snapshot_status(value) if isinstance(value, bytes) else None

        wait(lambda: (found := status()) and "active sessions" in found.waits_for, 30, "it says what it waits for")
        assert status().rows == 0
        with urllib.request.urlopen(f"http://127.0.0.1:{unused_port}/metrics") as answer:
            assert b"tidegate_reader_snapshot_braked_flag 1.0" in answer.read()
    with fleet.redis() as client:
        wait(lambda: status().state is SnapshotState.DONE, 30, "then it is read")
        assert status().rows == 100
