"""What a real PostgreSQL says, of every kind of message: it decodes, follows the table, and encodes to the same bytes.

Through the SQL interface of logical decoding: the messages are those of the replication link, without their envelopes.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest

from tidegate.pgoutput import RelationMap, decode_message, encode_message
from tidegate.pgoutput.messages import (
    UNCHANGED,
    Commit,
    CommitPrepared,
    Delete,
    Insert,
    LogicalMessage,
    Message,
    OldKind,
    Relation,
    RollbackPrepared,
    StreamCommit,
    StreamPrepare,
    Truncate,
    Type,
    Update,
)
from tidegate.pgoutput.transactions import State, Transactions
from tidegate.pgoutput.types import Kind, array_type, kind_of
from tidegate.position import Position

Connection = psycopg.Connection[Any]

SETUP = """
CREATE TYPE mood AS ENUM ('sad', 'fine');
CREATE TABLE plain (id int PRIMARY KEY, note text, m mood);
CREATE TABLE whole (id int, note text);
ALTER TABLE whole REPLICA IDENTITY FULL;
ALTER TABLE plain ALTER note SET STORAGE EXTERNAL;
CREATE PUBLICATION p FOR ALL TABLES;
"""


@dataclass(frozen=True, slots=True)
class Source:
    connection: Connection
    slot: str

    def run(self, *statements: str) -> None:
        for statement in statements:
            self.connection.execute(statement)  # type: ignore[call-overload]

    def changes(self, *, parallel: bool = False, **options: str) -> list[tuple[Message, Position | None]]:
        """Each message with its position, once it has proved to be no more and no less than its bytes."""
        told = {"proto_version": "4", "publication_names": "p", "messages": "on", **options}
        arguments = [text for option in told.items() for text in option]
        transactions = Transactions()
        found = self.connection.execute(
            "SELECT data FROM pg_logical_slot_get_binary_changes(%s, NULL, NULL, VARIADIC %s)", [self.slot, arguments]
        )
        placed = []
        for (data,) in found.fetchall():
            message = decode_message(data, in_stream=transactions.in_stream, parallel=parallel)
            assert data == encode_message(message)
            placed.append((message, transactions.place(message)))
        assert transactions.state is State.IDLE
        return placed


@contextmanager
def _source(database: Any, *, two_phase: bool = False) -> Iterator[Source]:
    with psycopg.connect(database.dsn, autocommit=True) as connection:
        # Only flushed WAL is decoded, so every commit has to wait for its flush.
        connection.execute("SET synchronous_commit = on")
        connection.execute("SET logical_decoding_work_mem = '64kB'")
        connection.execute(SETUP)
        connection.execute(
            "SELECT pg_create_logical_replication_slot(%s, 'pgoutput', false, %s)", [database.name, two_phase]
        )
        yield Source(connection, database.name)


def _of(placed: list[tuple[Message, Position | None]], *kinds: type[Any]) -> list[Any]:
    return [message for message, _ in placed if isinstance(message, kinds)]


def test_rows_keys_and_old_rows(database: Any) -> None:
    with _source(database) as source:
        source.run(
            "BEGIN; INSERT INTO plain VALUES (1, repeat('x', 5000), 'fine'), (2, NULL, NULL);"
            " UPDATE plain SET m = 'sad' WHERE id = 1; UPDATE plain SET id = 3 WHERE id = 2;"
            " DELETE FROM plain WHERE id = 3;"
            " INSERT INTO whole VALUES (1, 'a'); UPDATE whole SET note = NULL; DELETE FROM whole; COMMIT"
        )
        placed = source.changes()

    plain, whole = (relation.relation_id for relation in _of(placed, Relation))
    assert _of(placed, Insert, Update, Delete) == [
        Insert(plain, (b"1", b"x" * 5000, b"fine")),
        Insert(plain, (b"2", None, None)),
        Update(plain, None, None, (b"1", UNCHANGED, b"sad")),
        Update(plain, OldKind.KEY, (b"2", None, None), (b"3", None, None)),
        Delete(plain, OldKind.KEY, (b"3", None, None)),
        Insert(whole, (b"1", b"a")),
        Update(whole, OldKind.FULL, (b"1", b"a"), (b"1", None)),
        Delete(whole, OldKind.FULL, (b"1", None)),
    ]
    assert [(described.schema, described.name) for described in _of(placed, Type)] == [("public", "mood")]
    ordinals = [position.ordinal for _, position in placed if position is not None]
    assert ordinals == [0, 1, 2, 3, 4, 5, 6, 7, 8]
    assert isinstance(placed[-1][0], Commit)


def test_truncates_and_messages(database: Any) -> None:
    with _source(database) as source:
        source.run(
            "TRUNCATE plain, whole RESTART IDENTITY CASCADE",
            "SELECT pg_logical_emit_message(true, 'tied', 'a'::text)",
            "SELECT pg_logical_emit_message(false, 'untied', '\\x00ff'::bytea, true)",
        )
        placed = source.changes()

    (truncate,) = _of(placed, Truncate)
    assert {relation.relation_id for relation in _of(placed, Relation)} == set(truncate.relation_ids)
    assert (truncate.cascade, truncate.restart_identity) == (True, True)
    assert [(message.prefix, message.content, message.transactional) for message in _of(placed, LogicalMessage)] == [
        ("tied", b"a", True),
        ("untied", b"\x00\xff", False),
    ]


HALF_ABORTED = """
BEGIN;
INSERT INTO plain SELECT i, repeat('x', 100) FROM generate_series(1, 1000) i;
SAVEPOINT s; INSERT INTO plain SELECT i, repeat('y', 100) FROM generate_series(1001, 2000) i; ROLLBACK TO s;
INSERT INTO plain SELECT i, repeat('z', 100) FROM generate_series(2001, 3000) i;
COMMIT
"""


@pytest.mark.parametrize("streaming", ["off", "on", "parallel"])
def test_a_commit_stands_at_the_same_ordinal_streamed_or_not(database: Any, streaming: str) -> None:
    with _source(database) as source:
        source.run(HALF_ABORTED)
        placed = source.changes(streaming=streaming, parallel=streaming == "parallel")

    ends = [position for message, position in placed if isinstance(message, Commit | StreamCommit)]
    assert [position.ordinal for position in ends if position is not None] == [2000]
    assert (streaming != "off") is bool(_of(placed, StreamCommit))


def test_what_a_stream_described_holds_for_all_once_it_committed(database: Any) -> None:
    """The server does not describe the table again to those that come later."""
    with _source(database) as source:
        source.run(
            "INSERT INTO plain SELECT i, repeat('x', 100) FROM generate_series(1, 1000) i",
            "INSERT INTO plain VALUES (1001, 'a', 'sad')",
        )
        placed = source.changes(streaming="on")

    relations = RelationMap()
    for message, _ in placed:
        match message:
            case StreamCommit(xid):
                relations.promote(xid)
            case Relation() | Type():
                assert message.xid is not None
                relations.learn(message, xid=message.xid)
    (later,) = [insert for insert in _of(placed, Insert) if insert.xid is None]
    assert [column.name for column in relations.relation(later.relation_id).columns] == ["id", "note", "m"]


@pytest.mark.parametrize("streaming", ["off", "on"])
def test_prepared_transactions(database: Any, streaming: str) -> None:
    with _source(database, two_phase=True) as source:
        if source.connection.execute("SHOW max_prepared_transactions").fetchone() == ("0",):
            pytest.skip("this server prepares no transactions")
        rows = "INSERT INTO plain SELECT i, repeat('x', 100) FROM generate_series(%d, %d) i"
        source.run(
            f"BEGIN; {rows % (1, 1000)}; PREPARE TRANSACTION '{source.slot}-a'",
            f"BEGIN; {rows % (1001, 2000)}; PREPARE TRANSACTION '{source.slot}-b'",
            f"COMMIT PREPARED '{source.slot}-a'",
            f"ROLLBACK PREPARED '{source.slot}-b'",
        )
        placed = source.changes(streaming=streaming, two_phase="on")

    ((committed, position),) = [pair for pair in placed if isinstance(pair[0], CommitPrepared)]
    assert Position(committed.commit_lsn, 1000) == position
    assert [f"{source.slot}-b"] == [rolled_back.gid for rolled_back in _of(placed, RollbackPrepared)]
    assert (streaming == "on") is bool(_of(placed, StreamPrepare))


def test_the_types_are_those_of_the_catalogue(database: Any) -> None:
    """Every built-in array type with its element and delimiter; no element is an array."""
    with psycopg.connect(database.dsn) as connection:
        found = connection.execute(
            "SELECT a.oid::int8, e.oid::int8, e.typdelim FROM pg_type a JOIN pg_type e ON e.oid = a.typelem"
            " WHERE a.oid < 10000 AND a.typinput = 'array_in'::regproc AND e.typtype NOT IN ('c', 'p')"
        ).fetchall()
    assert len(found) > 60
    for array_oid, element_oid, delimiter in found:
        described = array_type(array_oid)
        assert described is not None, array_oid
        assert (element_oid, delimiter.encode()) == (described.element_oid, described.delimiter)
        assert kind_of(element_oid) is not Kind.ARRAY
