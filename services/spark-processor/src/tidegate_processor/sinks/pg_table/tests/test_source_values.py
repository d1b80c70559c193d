"""What a real server sends ends in the target as it stands in the source: values of every built-in type, keys that
move, changes of shape between rows of one transaction."""

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from kit.frames import RawLog, row
from kit.pgoutput_source import PgoutputSource, pgoutput_source
from kit.sink_rigs import PgTableRig, cursor_behind, wal_frames

from tidegate.position import BEGINNING

VALUES: dict[str, tuple[str, ...]] = {
    "smallint": ("-32768", "32767"),
    "integer": ("-2147483648", "2147483647"),
    "bigint": ("-9223372036854775808", "9223372036854775807"),
    "numeric": ("NaN", "0.30000000000000004", "-0.000", "1e400"),
    "numeric(10,3)": ("1234567.890",),
    "real": ("NaN", "-Infinity", "-0", "1e-45", "3.4028235e38"),
    "double precision": ("NaN", "Infinity", "-0", "5e-324", "0.1"),
    "boolean": ("true", "false"),
    "text": ("", "Grüße ☃ 😀", "a\tb\nc\\d\"e'f", "\\N", "NULL", "x" * 9000),
    "character varying(20)": ("long  ",),
    "character(5)": ("ab", ""),
    "bytea": ("", "\\x00ff5c27"),
    "date": ("4713-01-01 BC", "5874897-12-31", "infinity"),
    "time": ("24:00:00", "00:00:00.000001"),
    "time with time zone": ("24:00:00-15:59:59", "12:00:00+02"),
    "timestamp": ("294276-12-31 23:59:59.999999", "-infinity", "4713-01-01 00:00:00 BC"),
    "timestamp with time zone": ("294276-12-31 23:59:59.999999+00", "infinity", "0044-03-15 12:00:00+00 BC"),
    "interval": ("-178000000 years", "1 mon -2 days 3.5 seconds", "0"),
    "uuid": ("00000000-0000-0000-0000-000000000000",),
    "json": ('{"a": 1, "a": 2}', "null", '"\\u0000"'),
    "jsonb": ('{"b": [1e400, null]}',),
    "inet": ("::1/64", "10.0.0.1"),
    "cidr": ("10.0.0.0/8",),
    "macaddr8": ("08:00:2b:01:02:03:04:05",),
    "bit(3)": ("101",),
    "bit varying": ("", "0101"),
    "money": ("-92233720368547758.08",),
    "point": ("(1e-300,-0)",),
    "polygon": ("((0,0),(1,1),(1,0))",),
    "int4range": ("empty", "[1,5)", "(,)"),
    "tstzrange": ('["2026-01-01 00:00:00+00",infinity]',),
    "int4multirange": ("{[1,2),[5,7)}",),
    "integer[]": ("{}", "[0:1]={1,NULL}", "{{1,2},{3,4}}"),
    "text[]": ('{NULL,"NULL","a,b","","q\\"s\\\\"}',),
    "tsvector": ("'a':1 'b':2,3A",),
    "pg_lsn": ("FFFFFFFF/FFFFFFFF",),
    "mood": ("sad", "o'k"),
    "positive": ("1.50",),
    "pair": ('(1,"a,b")',),
}  # fmt: skip
MOST = max(map(len, VALUES.values()))
COLUMNS = [f"c{at}" for at in range(len(VALUES))]
_TEXTS = f"SELECT id::text, {', '.join(f'{name}::text' for name in COLUMNS)} FROM every_kind ORDER BY id"


@pytest.fixture
def rig(prefix: str, kafka, postgres, tmp_path: Path) -> PgTableRig:
    return PgTableRig(prefix, kafka.bootstrap, "redis://127.0.0.1:1", tmp_path, postgres)


@pytest.fixture
def source(database, prefix: str) -> Iterator[PgoutputSource]:
    with pgoutput_source(database.dsn, f"source_{prefix}") as source:
        yield source


def deliver(rig: PgTableRig, source: PgoutputSource) -> None:
    log = RawLog()
    log.epoch()
    log.transaction(row(1))
    sink = rig.make()
    try:
        sink.open()
        for frame in source.frames():
            assert sink.write(frame, BEGINNING).rejected == ()
        sink.commit(cursor_behind(wal_frames(log)[0]))
    finally:
        sink.close()


def in_target(rig: PgTableRig, query: str) -> list[tuple[str | None, ...]]:
    with psycopg.connect(rig.dsn, options="-c TimeZone=UTC -c extra_float_digits=3") as connection:
        return connection.execute(query.encode()).fetchall()


def literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def test_every_value_of_every_kind_is_the_same_in_the_target(rig: PgTableRig, source: PgoutputSource) -> None:
    columns = ", ".join(f"{name} {kind}" for name, kind in zip(COLUMNS, VALUES, strict=True))
    source.run(
        "CREATE TYPE mood AS ENUM ('sad', 'o''k')",
        "CREATE DOMAIN positive AS numeric CHECK (VALUE > 0)",
        "CREATE TYPE pair AS (a int, b text)",
        f"CREATE TABLE every_kind (id int PRIMARY KEY, {columns})",
        "INSERT INTO every_kind (id) VALUES (-1)",
    )
    for turn in range(MOST):
        values = [literal(texts[turn]) if turn < len(texts) else "NULL" for texts in VALUES.values()]
        source.run(f"INSERT INTO every_kind VALUES ({turn}, {', '.join(values)})")
    source.run("UPDATE every_kind SET id = id + 100 WHERE id >= 0", "UPDATE every_kind SET c0 = 7 WHERE id = 105")

    deliver(rig, source)

    assert in_target(rig, _TEXTS) == source.texts(_TEXTS)
    assert len(source.texts(_TEXTS)) == MOST + 1


def test_keys_of_every_kind_move_and_change_places(rig: PgTableRig, source: PgoutputSource) -> None:
    """Composite, text, uuid, numeric of several scales, -0.0: also two rows that swap keys by way of a third."""
    source.run(
        "CREATE TABLE keyed (a text, b uuid, c numeric, d double precision, note text, PRIMARY KEY (a, b, c, d))",
        "INSERT INTO keyed SELECT 'k' || n, md5(n::text)::uuid, n / 3.0, -0.0, n::text FROM generate_series(1, 20) n",
        "UPDATE keyed SET c = 1.50 WHERE a = 'k1'",
        "UPDATE keyed SET c = 1.5, note = 'same key' WHERE a = 'k1'",
        "UPDATE keyed SET d = 0.0 WHERE a = 'k2'",
        "BEGIN; UPDATE keyed SET a = '' WHERE a = 'k3'; UPDATE keyed SET a = 'k3', b = md5('3')::uuid, c = 1 "
        "WHERE a = 'k4'; UPDATE keyed SET a = 'k4', b = md5('4')::uuid, c = 4 WHERE a = ''; COMMIT",
        "BEGIN; DELETE FROM keyed WHERE a = 'k5'; INSERT INTO keyed VALUES ('k5', md5('5')::uuid, 5, 1, 'new'); COMMIT",
    )
    query = "SELECT a, b::text, c::text, d::text, note FROM keyed ORDER BY a, b, c, d"

    deliver(rig, source)

    assert in_target(rig, query) == source.texts(query)


def test_rows_between_changes_of_shape_go_by_the_names_of_their_time(rig: PgTableRig, source: PgoutputSource) -> None:
    """In transactions, and in a savepoint that is undone. Each row is written again afterwards: what lies in rows that
    nobody touches, as a default that comes with a column, the server never sends."""
    source.run(
        "CREATE TABLE shaped (id int PRIMARY KEY, a int, b text)",
        "INSERT INTO shaped SELECT n, n, 'b' || n FROM generate_series(1, 5) n",
        "BEGIN; ALTER TABLE shaped ADD COLUMN c bigint DEFAULT 9; INSERT INTO shaped VALUES (6, 6, 'b6', 6); "
        "ALTER TABLE shaped RENAME COLUMN b TO label; INSERT INTO shaped VALUES (7, 7, 'label7', 7); "
        "SAVEPOINT s; ALTER TABLE shaped ADD COLUMN undone text; INSERT INTO shaped VALUES (8, 8, 'x', 8, 'undone'); "
        "ROLLBACK TO s; ALTER TABLE shaped DROP COLUMN a; INSERT INTO shaped VALUES (9, 'label9', 9); COMMIT",
        "ALTER TABLE shaped ALTER COLUMN c TYPE numeric",
        "ALTER TABLE shaped ADD COLUMN d text",
        "UPDATE shaped SET d = 'new ' || id, label = label || '!'",
        "DELETE FROM shaped WHERE id = 2",
    )
    query = "SELECT id::text, label, c::text, d FROM shaped ORDER BY id"

    deliver(rig, source)

    assert in_target(rig, query) == source.texts(query)
    assert len(source.texts(query)) == 7
