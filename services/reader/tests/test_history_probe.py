"""The raw topic's last transaction is asked for of a server that has one WAL sender to spare."""

import asyncio
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from kit.pipelines import checked, document, secrets_of

from tidegate.contracts.epoch import StreamOptions
from tidegate.errors import TransientError
from tidegate.lsn import Lsn, format_lsn, parse_lsn
from tidegate.pgoutput.decode import decode_message
from tidegate.pgoutput.messages import Begin
from tidegate.stack.postgres import Postgres
from tidegate_reader import history_probe as subject
from tidegate_reader.history import HistoryCheck, Told
from tidegate_reader.sources.postgres_wal.session import SideConnection, replication_conninfo
from tidegate_reader.sources.postgres_wal.stream import ReplicationStream

OPTIONS = StreamOptions(("p",), 1, messages=False)
SLOT = "probed"


def prepared(dsn: str) -> Told:
    """A slot, and a transaction that it has not confirmed."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("CREATE TABLE t (id int PRIMARY KEY)")
        connection.execute("CREATE PUBLICATION p FOR ALL TABLES")
        connection.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", [SLOT])
        connection.execute("INSERT INTO t VALUES (1)")
        peek = "SELECT data FROM pg_logical_slot_peek_binary_changes(%s, NULL, NULL, VARIADIC %s)"
        begin = connection.execute(peek, [SLOT, ["proto_version", "1", "publication_names", "p"]]).fetchone()
        end = connection.execute("SELECT pg_current_wal_flush_lsn()::text").fetchone()
    assert begin is not None
    assert end is not None
    return Told(decode_begin(begin[0]), parse_lsn(end[0]), None, OPTIONS)


def decode_begin(message: bytes) -> Lsn:
    begin = decode_message(message)
    assert isinstance(begin, Begin)
    return begin.commit_lsn


async def asked(dsn: str, told: Told) -> None:
    secrets = secrets_of(redis_url="redis://127.0.0.1:9/0", postgres=dsn)
    values = document("shop", kafka="127.0.0.1:9", redis_url="redis://127.0.0.1:9/0", postgres=dsn)
    source = checked(values, secrets).source
    conninfo = replication_conninfo(source, "tidegate shop reader")
    side, idle = await SideConnection.open(source, "tidegate shop"), await ReplicationStream.connect(conninfo)
    start = f"START_REPLICATION SLOT {SLOT} LOGICAL {format_lsn(told.commit_lsn)} "
    command = start + "(proto_version '1', publication_names 'p')"
    history = HistoryCheck(told, told.commit_lsn, OPTIONS)
    try:
        await subject.ask(idle, lambda: ReplicationStream.connect(conninfo), command, history, side, SLOT)
        await idle.start(command)
    finally:
        idle.close()
        await side.close()


@pytest.fixture
def dsn(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Of a server with one WAL sender."""
    with tempfile.TemporaryDirectory(prefix="tidegate-") as folder:
        base = Path(folder)
        base.chmod(0o755)
        postgres = Postgres(base / "postgres", settings={"max_wal_senders": "1"})
        postgres.start()
        try:
            postgres.ensure_database("x")
            dsn = postgres.dsn("x")
            for name, value in secrets_of(redis_url="redis://127.0.0.1:9/0", postgres=dsn).items():
                monkeypatch.setenv(name, value)
            yield dsn
        finally:
            postgres.stop()


def test_one_wal_sender_is_enough(dsn: str) -> None:
    """A second link was opened beside the idle one, where only one is asked for before the start."""
    asyncio.run(asked(dsn, prepared(dsn)))


def test_a_slot_that_was_moved_meanwhile_proves_nothing(dsn: str) -> None:
    """By the last word of the reader before; the server was taken for one that had gone back (seed 794407)."""
    told = prepared(dsn)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("SELECT pg_replication_slot_advance(%s, pg_current_wal_flush_lsn())", [SLOT])
        connection.execute("INSERT INTO t VALUES (2)")
    with pytest.raises(TransientError) as raised:
        asyncio.run(asked(dsn, told))
    assert raised.value.code == "EPOCH_RACE"
