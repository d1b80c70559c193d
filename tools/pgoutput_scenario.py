"""What happens in the captured database: every kind of message that a server can send, and every hostile value."""

from collections.abc import Callable
from typing import Any

import psycopg
from pgoutput_matrix import IDENTITIES, rows, setup

HOSTILE = {
    "DateStyle": "SQL, DMY",
    "IntervalStyle": "sql_standard",
    "TimeZone": "Asia/Kathmandu",
    "bytea_output": "escape",
    "extra_float_digits": "-15",
    "client_encoding": "LATIN1",
}

_TABLES = """
CREATE SCHEMA "odd ""schema.x";
CREATE TABLE "odd ""schema.x"."a.b\\c 😀" (
    "id" int PRIMARY KEY, "quo""te" text, "new
line" text, "שלום" text, "sixty-three bytes of name, and not one more: abcdefghijklmnopqr" text);
CREATE TABLE parent (id int PRIMARY KEY, note text);
CREATE TABLE child (id int PRIMARY KEY, parent int REFERENCES parent);
CREATE TABLE shifting (id int PRIMARY KEY, note text);
CREATE TABLE big (id int PRIMARY KEY, note text);
CREATE TABLE whole (id int, note text);
ALTER TABLE whole REPLICA IDENTITY FULL;
CREATE TABLE keyless (note text);
CREATE TABLE events (id int PRIMARY KEY, at date) PARTITION BY RANGE (id);
CREATE TABLE events_1 PARTITION OF events FOR VALUES FROM (0) TO (10);
CREATE TABLE events_2 PARTITION OF events FOR VALUES FROM (10) TO (20);
CREATE PUBLICATION p FOR ALL TABLES;
"""
_ODD = '"odd ""schema.x"."a.b\\c 😀"'

_PLAIN = (
    f"INSERT INTO {_ODD} VALUES (1, 'a', 'b', 'c', 'd'), (2, NULL, '', 'x', 'y')",
    f"UPDATE {_ODD} SET id = 3 WHERE id = 2",
    "UPDATE matrix_default SET c1 = 7",
    "UPDATE matrix_default SET id = id + 100 WHERE id < 3",
    "UPDATE matrix_default SET toasted = repeat('other', 600), pictures = '\\x00' WHERE id = 101",
    "UPDATE matrix_full SET c1 = 7",
    "UPDATE matrix_index SET c1 = c1 + 10, c0 = NOT c0",
    "UPDATE matrix_index SET c0 = true WHERE id = 1",
    "DELETE FROM matrix_default WHERE id > 4",
    "DELETE FROM matrix_full",
    "DELETE FROM matrix_index",
    "INSERT INTO keyless VALUES (NULL), ('x')",
    "INSERT INTO whole VALUES (1, 'a'), (1, 'a'), (NULL, NULL)",
    "UPDATE whole SET note = 'b' WHERE id = 1",
    "DELETE FROM whole WHERE id IS NULL",
    "INSERT INTO parent VALUES (1, 'p')",
    "INSERT INTO child VALUES (1, 1)",
    "TRUNCATE parent CASCADE",
    "TRUNCATE whole, keyless RESTART IDENTITY",
    "TRUNCATE child",
    "INSERT INTO events VALUES (1, '2026-01-01'), (11, '2026-01-02')",
    "UPDATE events SET id = 12 WHERE id = 1",
    "SELECT pg_logical_emit_message(true, 'prefix é', 'content')",
    "SELECT pg_logical_emit_message(false, 'outside', E'\\\\x00ff'::bytea)",
)
_SHIFTING = """
BEGIN;
INSERT INTO shifting VALUES (1, 'a');
ALTER TABLE shifting ADD added int DEFAULT 5;
INSERT INTO shifting VALUES (2, 'b', 6);
ALTER TABLE shifting RENAME note TO renamed;
UPDATE shifting SET renamed = 'c' WHERE id = 1;
ALTER TABLE shifting ALTER added TYPE text;
INSERT INTO shifting VALUES (3, 'd', 'e');
ALTER TABLE shifting DROP renamed;
ALTER TABLE shifting REPLICA IDENTITY FULL;
UPDATE shifting SET added = 'f' WHERE id = 2;
ALTER TABLE shifting ADD m mood;
INSERT INTO shifting VALUES (4, 'g', 'fine');
COMMIT;
"""
_SHIFTED = (
    "ALTER TYPE mood ADD VALUE 'grand'",
    'ALTER TABLE shifting SET SCHEMA "odd ""schema.x"',
    'INSERT INTO "odd ""schema.x"."shifting" VALUES (5, \'h\', \'grand\')',
)
_FILL = "INSERT INTO big SELECT i, repeat('x', 90) || '%s' || i FROM generate_series(%d, %d) i"
_ROWS = 700
_FLUSH = "SELECT pg_logical_emit_message(false, 'flush', '', true)"
_FLUSH_BEFORE_17 = "CREATE TABLE IF NOT EXISTS flushing (); DROP TABLE flushing"

Wait = Callable[[bytes], None]
Connection = psycopg.Connection[Any]


class Scenario:
    last = b"the very last"

    def __init__(self, major: int) -> None:
        self._major = major

    def set_up(self, control: Connection) -> None:
        for statement in setup(self._major):
            control.execute(statement)
        control.execute(_TABLES)

    def run(self, control: Connection, dsn: str, wait: Wait) -> None:
        for identity in IDENTITIES:
            for statement in rows(self._major, identity):
                control.execute(statement)
        for statement in _PLAIN:
            control.execute(statement)
        self._plain_transactions(control)
        for statement in (_SHIFTING, *_SHIFTED):
            control.execute(statement)
        self._origin(control)
        with psycopg.connect(dsn) as writer:
            self._streamed(writer, control, wait)
        if self._major >= 15:
            self._two_phase(control, dsn, wait)
        control.execute("SELECT pg_logical_emit_message(true, 'end', %s)", [self.last.decode()])

    def _plain_transactions(self, control: Connection) -> None:
        control.execute("BEGIN; INSERT INTO parent VALUES (50, 'x'); ROLLBACK")
        control.execute("CREATE TABLE made_and_gone (); DROP TABLE made_and_gone")  # a transaction without changes
        control.execute("BEGIN; INSERT INTO parent VALUES (51, 'x'); SAVEPOINT s; INSERT INTO parent VALUES (52, 'y')")
        control.execute("SELECT pg_logical_emit_message(false, 'in between', 'x')")
        control.execute("ROLLBACK TO s; INSERT INTO parent VALUES (53, 'z'); COMMIT")
        with control.cursor() as cursor, cursor.copy("COPY parent FROM STDIN") as copy:
            for at in range(100, 150):
                copy.write_row((at, f"copied {at}"))

    def _origin(self, control: Connection) -> None:
        control.execute("SELECT pg_replication_origin_create('elsewhere é')")
        control.execute("SELECT pg_replication_origin_session_setup('elsewhere é')")
        control.execute(
            "BEGIN; SELECT pg_replication_origin_xact_setup('1/10', now()); INSERT INTO parent VALUES (60, 'o'); COMMIT"
        )
        control.execute("SELECT pg_replication_origin_session_reset()")

    def _streamed(self, writer: Connection, control: Connection, wait: Wait) -> None:
        """Subtransactions undone after they were streamed, one with its own idea of the table; another in between."""
        self._fill(writer, control, "one ", 1, wait)
        writer.execute("SAVEPOINT a")
        writer.execute("ALTER TABLE big ADD more mood")
        self._fill(writer, control, "two ", 1001, wait)
        control.execute("INSERT INTO parent VALUES (70, 'in between')")
        writer.execute("ROLLBACK TO a")
        writer.execute("SAVEPOINT b")
        self._fill(writer, control, "three ", 2001, wait)
        writer.execute("SELECT pg_logical_emit_message(true, 'streamed', 'x')")
        writer.execute("UPDATE big SET note = 'updated' WHERE id = 2001")
        writer.execute("DELETE FROM big WHERE id = 2002")
        writer.execute("TRUNCATE keyless")
        writer.commit()
        self._fill(writer, control, "undone ", 3001, wait)
        writer.rollback()

    def _fill(self, writer: Connection, control: Connection, marker: str, first: int, wait: Wait) -> None:
        last = first + _ROWS - 1
        writer.execute(_FILL % (marker, first, last))
        control.execute(_FLUSH if self._major >= 17 else _FLUSH_BEFORE_17)
        wait(f"{marker}{first + 300}".encode())

    def _two_phase(self, control: Connection, dsn: str, wait: Wait) -> None:
        control.execute("BEGIN; INSERT INTO parent VALUES (80, 'kept'); PREPARE TRANSACTION 'kept ''é'''")
        control.execute("INSERT INTO parent VALUES (81, 'between')")
        control.execute("COMMIT PREPARED 'kept ''é'''")
        control.execute("BEGIN; INSERT INTO parent VALUES (82, 'undone'); PREPARE TRANSACTION 'undone'")
        control.execute("ROLLBACK PREPARED 'undone'")
        with psycopg.connect(dsn) as writer:
            self._fill(writer, control, "prepared ", 5001, wait)
            writer.execute("PREPARE TRANSACTION 'large'")
        control.execute("COMMIT PREPARED 'large'")
        control.execute(
            "BEGIN; SELECT pg_logical_emit_message(true, 'm', 'in prepared'); PREPARE TRANSACTION 'message'"
        )
        control.execute("COMMIT PREPARED 'message'")
