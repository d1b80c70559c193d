"""A transaction streamed while it runs, by a real server over the replication link, then half undone.

Only a live session shows this: a server does not stream what it already knows to be aborted.
"""

import select
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from kit.wait import wait
from psycopg import pq
from psycopg.conninfo import make_conninfo

from tidegate.pgoutput import RelationMap, XLogData, decode_envelope, decode_message, encode_message
from tidegate.pgoutput.messages import (
    Insert,
    Message,
    Relation,
    StreamAbort,
    StreamCommit,
    StreamStart,
    StreamStop,
)
from tidegate.pgoutput.transactions import Transactions
from tidegate.position import Position

DEADLINE_SECONDS = 30.0
SETUP = """
CREATE TABLE t (id int PRIMARY KEY, note text);
CREATE PUBLICATION p FOR ALL TABLES;
"""
ROWS = "INSERT INTO t SELECT i, repeat('x', 100) FROM generate_series(%d, %d) i"


class Session:
    """One START_REPLICATION, each message checked and placed as it comes."""

    def __init__(self, link: pq.PGconn) -> None:
        self._link = link
        self._transactions = Transactions()
        self._relations = RelationMap()
        self._streaming: int | None = None
        self.placed: list[tuple[Message, Position | None]] = []

    def read_until(self, is_last: Callable[[Message], bool]) -> Message:
        for data in self._data():
            message = decode_message(data, in_stream=self._transactions.in_stream)
            assert data == encode_message(message)
            self.placed.append((message, self._transactions.place(message)))
            self._describe(message)
            if is_last(message):
                return message
        raise AssertionError("the server ended the stream")

    def _describe(self, message: Message) -> None:
        match message:
            case StreamStart(xid):
                self._streaming = xid
            case StreamStop():
                self._streaming = None
            case StreamCommit(xid):
                self._relations.promote(xid)
            case Relation():
                self._relations.learn(message, xid=self._streaming)
            case Insert(relation_id, new):
                described = self._relations.relation(relation_id, xid=self._streaming)
                assert len(described.columns) == len(new)

    def _data(self) -> Iterator[bytes]:
        deadline = time.monotonic() + DEADLINE_SECONDS
        while True:
            self._link.consume_input()
            size, data = self._link.get_copy_data(1)
            if size == 0:
                ready, _, _ = select.select([self._link.socket], [], [], max(0, deadline - time.monotonic()))
                assert ready, "nothing came in time"
            elif size < 0:
                return
            else:
                envelope = decode_envelope(bytes(data))
                if isinstance(envelope, XLogData):
                    yield envelope.data


@contextmanager
def _session(dsn: str, slot: str) -> Iterator[Session]:
    options = "-c logical_decoding_work_mem=64kB"
    link = pq.PGconn.connect(make_conninfo(dsn, replication="database", options=options).encode())
    command = f"START_REPLICATION SLOT {slot} LOGICAL 0/0 (proto_version '2', publication_names 'p', streaming 'on')"
    try:
        started = link.exec_(command.encode())
        assert started.status == pq.ExecStatus.COPY_BOTH, started.error_message
        yield Session(link)
    finally:
        link.finish()


def test_a_subtransaction_undone_after_it_was_streamed(database: Any) -> None:
    """Its rows take no ordinal, and every row fits what was said of its table: all is as if it had never been."""
    with psycopg.connect(database.dsn, autocommit=True) as control, psycopg.connect(database.dsn) as writer:
        control.execute(SETUP)
        control.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", [database.name])
        with _session(database.dsn, database.name) as session:
            writer.execute(ROWS % (1, 1000))
            writer.execute("SAVEPOINT s")
            writer.execute("ALTER TABLE t ADD more int")
            writer.execute(ROWS % (1001, 2000))
            # The last argument flushes the WAL of everybody, so the server sees what is not committed yet.
            control.execute("SELECT pg_logical_emit_message(false, 'flush', '', true)")
            undone = session.read_until(lambda message: isinstance(message, Insert) and len(message.new) == 3)
            writer.execute("ROLLBACK TO s")
            writer.execute(ROWS % (3001, 3003))
            writer.commit()
            session.read_until(lambda message: isinstance(message, StreamCommit))
        idle = "SELECT NOT active FROM pg_replication_slots WHERE slot_name = %s"
        wait(lambda: control.execute(idle, [database.name]).fetchone() == (True,), DEADLINE_SECONDS, "slot is let go")
        control.execute("SELECT pg_logical_emit_message(false, 'flush', '', true)")
        plain = control.execute(
            "SELECT data FROM pg_logical_slot_get_binary_changes(%s, NULL, NULL,"
            " 'proto_version', '1', 'publication_names', 'p')",
            [database.name],
        ).fetchall()

    assert isinstance(undone, Insert)
    (abort,) = [message for message, _ in session.placed if isinstance(message, StreamAbort)]
    assert abort.subxid == undone.xid != abort.xid
    streamed = [message for message, _ in session.placed if isinstance(message, Insert)]
    survivors = [insert.new for insert in streamed if insert.xid != abort.subxid]
    unstreamed = [message for (data,) in plain if isinstance(message := decode_message(data), Insert)]
    assert survivors == [insert.new for insert in unstreamed]
    commit, position = session.placed[-1]
    assert isinstance(commit, StreamCommit)
    assert position == Position(commit.commit_lsn, 1003)
