"""Real tables: names and values that no sane source has, targets that are not as they should be, and who may not."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from kit.frames import ORDERS, RawLog, row
from kit.pg_targets import KEYED, deliver, relation
from kit.sink_rigs import SINK, PgTableRig, cursor_behind, wal_frames
from pydantic import ValidationError

from tidegate.errors import StreamError, TransientError
from tidegate.pgoutput.messages import (
    UNCHANGED,
    Column,
    Delete,
    Insert,
    OldKind,
    ReplicaIdentity,
    Truncate,
    Update,
)
from tidegate.position import BEGINNING
from tidegate_processor.sinks.pg_table.config import PgTableOptions

HOSTILE = 'o"; DROP TABLE x; -- %s {} \\ é\t' + "'"
INT4, TEXT, NUMERIC, BOOL, JSONB, INT4_ARRAY, TIMESTAMPTZ, BYTEA = 23, 25, 1700, 16, 3802, 1007, 1184, 17
CANARY = "canary-7f3a"


@pytest.fixture
def rig(prefix: str, kafka, postgres, tmp_path: Path) -> PgTableRig:
    return PgTableRig(prefix, kafka.bootstrap, "redis://127.0.0.1:1", tmp_path, postgres)


def test_names_and_values_of_every_kind_are_data_and_never_commands(rig: PgTableRig) -> None:
    columns = Column(1, HOSTILE, TEXT, -1), Column(0, "select", TEXT, -1), Column(0, "%s", TEXT, -1)
    hostile = relation(*columns, name=HOSTILE[:30], schema=HOSTILE[:20])
    values = [HOSTILE.encode(), b"\\N", b"\\.\n\t\r\\", "é☃😀\x01".encode()]

    messages = [Insert(hostile.relation_id, (b"%d" % at, value, value)) for at, value in enumerate(values)]
    receipt = deliver(rig, [hostile], [*messages, Insert(hostile.relation_id, (b"null", None, b""))])

    assert receipt.rejected == ()
    quoted = f'"{HOSTILE[:20]}"."{HOSTILE[:30]}"'.replace('o"', 'o""')
    found = {key: (one, other) for key, one, other in rig.ask(f"TABLE {quoted}")}
    assert found == {str(at): (value.decode(),) * 2 for at, value in enumerate(values)} | {"null": (None, "")}


def test_types_are_the_sources_without_its_limits_and_text_where_the_target_does_not_know_them(rig: PgTableRig) -> None:
    known = [(INT4, b"1"), (NUMERIC, b"1.50"), (BOOL, b"t"), (JSONB, b'{"a": 1}'), (INT4_ARRAY, b"{1,NULL}")]
    more = [(TIMESTAMPTZ, b"0044-03-15 12:00:00+00 BC"), (BYTEA, b"\\x00ff"), (1043, b"long"), (70_002, b"sad")]
    columns = tuple(Column(int(at == 0), f"c{at}", oid, 5) for at, (oid, _) in enumerate([*known, *more]))
    shape = relation(*columns)

    receipt = deliver(rig, [shape], [Insert(shape.relation_id, tuple(value for _, value in [*known, *more]))])

    assert receipt.rejected == ()
    types = rig.ask(
        "SELECT format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = 'public.orders'::regclass "
        "AND attnum > 0 ORDER BY attnum"
    )
    expected = ["integer", "numeric", "boolean", "jsonb", "integer[]", "timestamp with time zone", "bytea"]
    assert [name for (name,) in types] == [*expected, "character varying", "text"]
    assert rig.ask("SELECT c1::text, c5 = '0044-03-15 12:00:00+00 BC', c7, c8 FROM public.orders") == [
        ("1.50", True, "long", "sad")
    ]


def test_one_bad_row_among_many_is_a_dead_letter_alone_and_says_no_value(rig: PgTableRig) -> None:
    rig.ask(
        "CREATE TABLE public.orders (id int PRIMARY KEY, note varchar(20) NOT NULL CHECK (note <> 'bad'), "
        "extra int DEFAULT 7)"
    )
    good = [Insert(ORDERS.relation_id, (b"%d" % at, b"good")) for at in range(50)]
    bad = [(b"100", b"bad"), (b"101", CANARY.encode() * 3), (b"102", None), (b"x" + CANARY.encode(), b"id")]

    receipt = deliver(rig, [ORDERS], [*good, *(Insert(ORDERS.relation_id, each) for each in bad), row(200, "last")])

    assert [each.ordinal for each in receipt.rejected] == [50, 51, 52, 53]
    assert {each.error.code for each in receipt.rejected} == {"SINK_PG_ROW_REFUSED"}
    assert not any(CANARY in f"{each.error}{each.error.remedy}" for each in receipt.rejected)
    assert rig.ask("SELECT count(*), min(extra), max(id) FROM public.orders") == [(51, 7, 200)]


def test_constraints_that_hold_in_commit_order_hold_in_the_target(rig: PgTableRig) -> None:
    """A foreign key, and a unique value that goes from one row to another: neither is there table by table."""
    rig.ask("CREATE TABLE public.orders (id int PRIMARY KEY, note text UNIQUE)")
    rig.ask("CREATE TABLE public.lines (id int PRIMARY KEY, note int REFERENCES public.orders)")
    lines = replace(ORDERS, relation_id=7, name="lines", columns=(KEYED[0], Column(0, "note", INT4, -1)))
    update = Update(ORDERS.relation_id, None, None, (b"1", b"b"))
    messages = [row(1, "a"), Insert(7, (b"5", b"1")), update, row(2, "a"), Delete(7, OldKind.KEY, (b"5", None))]

    receipt = deliver(rig, [lines, ORDERS], [*messages, Delete(ORDERS.relation_id, OldKind.KEY, (b"1", None))])

    assert receipt.rejected == ()
    assert rig.ask("TABLE public.orders") == [(2, "a")]
    assert rig.ask("TABLE public.lines") == []


def test_a_deferred_constraint_that_does_not_hold_at_the_commit_stops_the_lane(rig: PgTableRig) -> None:
    rig.ask("CREATE TABLE public.parents (id int PRIMARY KEY)")
    rig.ask(
        "CREATE TABLE public.orders (id int PRIMARY KEY, note text, "
        "parent int DEFAULT 5 REFERENCES public.parents DEFERRABLE INITIALLY DEFERRED)"
    )

    with pytest.raises(StreamError) as raised:
        deliver(rig, [ORDERS], [row(1, CANARY)])

    assert raised.value.code == "SINK_PG_REFUSED"
    assert CANARY not in str(raised.value)
    assert rig.cursor() is None


def test_a_value_with_a_nul_is_a_dead_letter_alone(rig: PgTableRig) -> None:
    receipt = deliver(rig, [ORDERS], [row(1, "one"), row(2, "two\0"), row(3, "three")])

    assert [(each.ordinal, each.error.code) for each in receipt.rejected] == [(1, "SINK_PG_ROW_REFUSED")]
    assert rig.rows() == {1: "one", 3: "three"}


def test_an_update_that_can_not_be_completed_is_a_dead_letter_and_never_made_up(rig: PgTableRig) -> None:
    receipt = deliver(rig, [ORDERS], [row(1, "one"), Update(ORDERS.relation_id, None, None, (b"9", UNCHANGED))])

    assert [(each.ordinal, each.error.code) for each in receipt.rejected] == [(1, "SINK_PG_ROW_INCOMPLETE")]
    assert rig.rows() == {1: "one"}


def test_a_column_that_is_added_at_the_source_is_added_here(rig: PgTableRig) -> None:
    deliver(rig, [ORDERS], [row(1, "one")])
    wider = relation(*KEYED, Column(0, "price", NUMERIC, -1))

    deliver(rig, [wider], [Update(wider.relation_id, None, None, (b"1", UNCHANGED, b"2.50"))])

    assert rig.ask("SELECT id, note, price::text FROM public.orders") == [(1, "one", "2.50")]


def test_without_create_what_is_missing_stops_the_lane_and_is_named(rig: PgTableRig) -> None:
    with pytest.raises(StreamError) as table:
        deliver(rig, [ORDERS], [row(1)], create=False)
    rig.ask("CREATE TABLE public.orders (id int PRIMARY KEY)")
    with pytest.raises(StreamError) as column:
        deliver(rig, [ORDERS], [row(1)], create=False)

    assert (table.value.code, column.value.code) == ("SINK_PG_MISSING", "SINK_PG_MISSING")
    assert "public.orders" in table.value.message
    assert "note" in column.value.message


def test_another_key_than_the_identity_stops_the_lane(rig: PgTableRig) -> None:
    rig.ask("CREATE TABLE public.orders (id int, note text PRIMARY KEY)")

    with pytest.raises(StreamError) as raised:
        deliver(rig, [ORDERS], [row(1)])

    assert raised.value.code == "SINK_PG_KEY"


def test_the_whole_row_as_identity_goes_by_the_targets_own_key(rig: PgTableRig) -> None:
    rig.ask("CREATE TABLE public.orders (id int PRIMARY KEY, note text)")
    columns = tuple(replace(column, flags=1) for column in ORDERS.columns)
    full = replace(ORDERS, replica_identity=ReplicaIdentity.FULL, columns=columns)
    moved = Update(full.relation_id, OldKind.FULL, (b"1", b"one"), (b"2", UNCHANGED))

    deliver(rig, [full], [row(1, "one"), moved, row(3), Delete(full.relation_id, OldKind.FULL, (b"3", b""))])

    assert rig.rows() == {2: "one"}


def test_without_a_key_rows_are_added_and_an_update_stops_the_lane(rig: PgTableRig) -> None:
    plain = tuple(replace(column, flags=0) for column in ORDERS.columns)
    keyless = replace(ORDERS, replica_identity=ReplicaIdentity.NOTHING, columns=plain)
    deliver(rig, [keyless], [row(1, "same"), row(1, "same"), Truncate((keyless.relation_id,), 0), row(2), row(2)])

    with pytest.raises(StreamError) as raised:
        deliver(
            rig,
            [replace(keyless, replica_identity=ReplicaIdentity.FULL)],
            [Delete(ORDERS.relation_id, OldKind.FULL, (b"2", b""))],
        )

    assert raised.value.code == "SINK_PG_KEY_MISSING"
    assert rig.ask("SELECT id FROM public.orders") == [(2,), (2,)]


def test_two_tables_with_one_target_stop_the_lane(rig: PgTableRig) -> None:
    other = replace(ORDERS, relation_id=7, namespace="archive")

    with pytest.raises(StreamError) as raised:
        deliver(rig, [other, ORDERS], [row(1), Insert(7, (b"1", b""))], schema="copies")

    assert raised.value.code == "SINK_PG_TARGET_SHARED"


def test_a_missing_right_lets_the_lane_come_again(rig: PgTableRig) -> None:
    role = f"{rig.prefix}_reader"
    rig.ask(f"CREATE ROLE {role} LOGIN PASSWORD 'x'")
    dsn = rig.plain_dsn(rig.postgres.port).replace(rig.postgres.user, role)
    try:
        with pytest.raises(TransientError) as raised:
            deliver(rig, [ORDERS], [row(1)], dsn=dsn)
    finally:
        rig.ask(f"DROP ROLE {role}")

    assert raised.value.code == "SINK_PG_DENIED"


def test_a_target_that_goes_away_between_write_and_commit_has_nothing_of_it(rig: PgTableRig) -> None:
    log = RawLog()
    log.epoch()
    log.transaction(row(1, "one"))
    (frame,) = wal_frames(log)
    sink = rig.make()
    sink.open()
    sink.write(frame, BEGINNING)
    rig.ask(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = %s",
        [f"tidegate {rig.prefix} {SINK}"],
    )

    with pytest.raises(TransientError) as raised:
        sink.commit(cursor_behind(frame))
    sink.close()

    assert raised.value.code == "SINK_PG_UNAVAILABLE"
    assert (rig.rows(), rig.cursor()) == ({}, None)


def test_the_domain_of_a_builtin_type_is_that_type(rig: PgTableRig) -> None:
    shape = relation(Column(1, "id", INT4, -1), Column(0, "price", 70_001, -1))

    deliver(rig, [shape], [Insert(shape.relation_id, (b"1", b"2.50"))])

    assert rig.ask("SELECT price::text FROM public.orders") == [("2.50",)]


@pytest.mark.parametrize(
    "options",
    [
        {"dsn": "postgresql://user:hunter2@host/db"},
        {"dsn": "postgresql://user@host/db?sslmode=disable"},
        {"dsn": "mysql://user@host/db"},
        {"dsn": "postgresql://user@ho st/db"},
        {"dsn": "postgresql://user@host/db", "table": "{column}"},
        {"dsn": "postgresql://user@host/db", "password": "hunter2"},
    ],
)
def test_an_address_with_more_than_an_address_in_it_is_refused_and_never_repeated(options) -> None:
    with pytest.raises(ValidationError) as raised:
        PgTableOptions.model_validate_json(json.dumps(options))

    assert "hunter2" not in str(raised.value)


def test_a_truncate_in_a_refused_shape_does_not_make_the_target_take_that_shape_over(rig: PgTableRig) -> None:
    """It comes without columns, of whatever key the target's table has; and a table that is not there has no rows."""
    orders = relation(*KEYED)
    deliver(rig, [orders], [Insert(orders.relation_id, (b"1", b"one"))])
    refused = relation()
    elsewhere = relation(name="elsewhere", relation_id=16391)

    both = Truncate((refused.relation_id, elsewhere.relation_id), 0)
    receipt = deliver(rig, [refused, elsewhere], [both])

    assert receipt.events == 1
    assert rig.ask("TABLE orders") == []
    columns = "SELECT attname FROM pg_attribute WHERE attrelid = to_regclass($1) AND attnum > 0"
    assert rig.ask("SELECT to_regclass('elsewhere')") == [(None,)]
    assert [name for (name,) in rig.ask(columns.replace("$1", "'orders'"))] == ["id", "note"]
