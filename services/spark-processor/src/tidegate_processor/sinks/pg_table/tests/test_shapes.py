"""A table of the source changes its shape, and its target follows: in the transaction of what comes behind the mark."""

from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest
from kit.deliveries import deliver, feed, to_the_beginning
from kit.frames import ORDERS, RawLog, row
from kit.sink_rigs import SINK, PgTableRig

from tidegate.contracts.frame import Frame, FrameKind, decode_frame
from tidegate.errors import StreamError, TransientError
from tidegate.pgoutput.messages import Column, Delete, Insert, OldKind, Relation, Update
from tidegate.position import BEGINNING
from tidegate_processor.sinks.pg_table.place import connect_to_target
from tidegate_processor.sinks.shared import pg_connection
from tidegate_processor.sinks.shared import postgres as connections

INT4, INT8, TEXT, VARCHAR = 23, 20, 25, 1043
ID, NOTE = ORDERS.columns
CANARY = "canary-7f3a"


def shape(*columns: Column) -> Relation:
    return replace(ORDERS, columns=columns)


def insert(*values: object) -> Insert:
    return Insert(ORDERS.relation_id, tuple(str(value).encode() for value in values))


RENAMED = shape(ID, replace(NOTE, name="remark"))
COUNTED, COUNTED_FAR = (shape(ID, Column(0, "n", oid, -1)) for oid in (INT4, INT8))
ALONE = shape(ID)
BY_BOTH = shape(ID, replace(NOTE, flags=1))


@pytest.fixture
def rig(prefix: str, kafka, postgres, tmp_path: Path) -> PgTableRig:
    return PgTableRig(prefix, kafka.bootstrap, "redis://127.0.0.1:1", tmp_path, postgres)


def changed(previous: Relation, current: Relation, before: list[Any], after: list[Any]) -> RawLog:
    log = RawLog()
    log.epoch()
    log.transaction(*before, relation=previous)
    log.schema_change(previous, current)
    log.transaction(*after, relation=current)
    return log


def come(rig: PgTableRig, log: RawLog, start: int = 0, *, create: bool = True, **settings: Any) -> None:
    """All of it, as a lane delivers it."""
    sink = rig.make(rig.configured(create=create))
    try:
        lane = deliver(sink, **settings)
        feed(lane, log, max(start, lane.ingest.next_offset or 0))
        assert lane.counters.dead_letters == 0
    finally:
        sink.close()


def columns(rig: PgTableRig) -> dict[str, str]:
    return dict(
        rig.ask(
            "SELECT attname::text, format_type(atttypid, atttypmod) FROM pg_attribute "
            "WHERE attrelid = 'public.orders'::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum"
        )
    )


def test_a_renamed_column_keeps_the_values_of_rows_that_do_not_come_again(rig: PgTableRig) -> None:
    come(rig, changed(ORDERS, RENAMED, [row(1, "one"), row(2, "two")], [row(3, "three")]))

    assert columns(rig) == {"id": "integer", "remark": "text"}
    assert rig.ask("SELECT id, remark FROM orders ORDER BY id") == [(1, "one"), (2, "two"), (3, "three")]


def test_the_target_is_altered_in_the_transaction_of_the_lanes_place(rig: PgTableRig) -> None:
    """Whoever dies behind the mark has altered nothing, and the next one does it once."""
    log = changed(ORDERS, RENAMED, [row(1, "one")], [row(2, "two")])
    come_first = RawLog()
    come_first.epoch()
    come_first.transaction(row(1, "one"))
    come(rig, come_first)
    lane = deliver(rig.make())
    lane.feed(list(enumerate(log.frames))[2:])
    lane.close()
    assert columns(rig) == {"id": "integer", "note": "text"}

    come(rig, log)

    assert rig.ask("SELECT id, remark FROM orders ORDER BY id") == [(1, "one"), (2, "two")]


def test_a_mark_alone_is_durable_at_once(rig: PgTableRig) -> None:
    """No row comes behind it for long, and it holds a lock."""
    come(rig, changed(ORDERS, RENAMED, [row(1)], []))

    assert columns(rig) == {"id": "integer", "remark": "text"}


def test_a_mark_that_comes_again_changes_nothing(rig: PgTableRig) -> None:
    log = changed(ORDERS, RENAMED, [row(1, "one")], [row(2, "two")])
    come(rig, log)
    sink = rig.make()
    sink.open()
    for _ in range(2):
        sink.write(mark_of(log), BEGINNING)
    sink.close()

    assert columns(rig) == {"id": "integer", "remark": "text"}


def mark_of(log: RawLog) -> Frame:
    (mark,) = (frame for frame in map(decode_frame, log.frames) if frame.header.kind is FrameKind.MARK)
    return mark


def test_a_rewind_over_a_rename_ends_where_it_had_ended(rig: PgTableRig) -> None:
    """Rows of the former shape come again under the former name; others have their value under the later one."""
    gone, nothing = Delete(ORDERS.relation_id, OldKind.KEY, (b"4", None)), Insert(ORDERS.relation_id, (b"5", None))
    log = changed(ORDERS, RENAMED, [row(1, "one"), row(2, "two"), row(4), nothing], [row(3, "three"), gone])
    log.transaction(Update(ORDERS.relation_id, None, None, (b"2", b"newer")), relation=RENAMED)
    come(rig, log)
    expected = [(1, "one"), (2, "newer"), (3, "three"), (5, None)]
    assert rig.ask("SELECT id, remark FROM orders ORDER BY id") == expected

    for _ in range(2):
        cursor = rig.cursor()
        assert cursor is not None
        rig.ask("UPDATE tidegate.sink_state SET cursor = %s WHERE sink = %s", [to_the_beginning(cursor).encode(), SINK])
        come(rig, log)
        assert rig.ask("SELECT id, remark FROM orders ORDER BY id") == expected


def test_two_columns_where_one_was_renamed_stop_the_lane_until_a_person_has_decided(rig: PgTableRig) -> None:
    rig.ask("CREATE TABLE public.orders (id int PRIMARY KEY, note text, remark text)")
    log = changed(ORDERS, RENAMED, [row(1, "one")], [row(2, "two")])
    with pytest.raises(StreamError) as raised:
        come(rig, log)
    rig.ask("ALTER TABLE public.orders DROP remark")

    come(rig, log)

    assert raised.value.code == "SINK_PG_COLUMN_TAKEN"
    assert rig.ask("SELECT id, remark FROM orders ORDER BY id") == [(1, "one"), (2, "two")]


def test_a_wider_type_is_taken_over_and_values_beyond_the_former_arrive(rig: PgTableRig) -> None:
    come(rig, changed(COUNTED, COUNTED_FAR, [insert(1, 7)], [insert(2, 2**40)]))

    assert columns(rig) == {"id": "integer", "n": "bigint"}
    assert rig.ask("SELECT id, n FROM orders ORDER BY id") == [(1, 7), (2, 2**40)]


def test_a_type_of_which_the_target_holds_all_values_leaves_it_alone(rig: PgTableRig) -> None:
    """A narrower one, and one that a person has chosen."""
    come(rig, changed(COUNTED_FAR, COUNTED, [insert(1, 2**40)], [insert(2, 8)]))
    narrowed = columns(rig)
    rig.ask("DROP TABLE orders")
    rig.ask("CREATE TABLE public.orders (id int PRIMARY KEY, n numeric(30, 3))")
    rig.ask("DELETE FROM tidegate.sink_state")
    come(rig, changed(COUNTED, COUNTED_FAR, [insert(1, 7)], [insert(2, 2**40)]))

    assert narrowed == {"id": "integer", "n": "bigint"}
    assert columns(rig) == {"id": "integer", "n": "numeric(30,3)"}


def test_values_that_do_not_fit_a_new_type_stop_the_lane_and_are_not_told(rig: PgTableRig) -> None:
    written = shape(ID, Column(0, "n", TEXT, -1))
    log = changed(written, COUNTED, [insert(1, CANARY), insert(2, 5)], [insert(3, 6)])
    with pytest.raises(StreamError) as raised:
        come(rig, log)
    before = columns(rig)
    rig.ask("UPDATE orders SET n = '4' WHERE id = 1")

    come(rig, log)

    assert (raised.value.code, CANARY in f"{raised.value} {raised.value.remedy}") == ("SINK_PG_NOT_ALTERED", False)
    assert "22P02" in raised.value.message
    assert before["n"] == "text"
    assert rig.ask("SELECT id, n FROM orders ORDER BY id") == [(1, 4), (2, 5), (3, 6)]


def test_a_column_that_was_removed_stays_and_wants_no_value_any_more(rig: PgTableRig) -> None:
    rig.ask("CREATE TABLE public.orders (id int PRIMARY KEY, note text NOT NULL)")
    come(rig, changed(ORDERS, ALONE, [row(1, "one")], [insert(2)]))

    assert rig.ask("SELECT id, note FROM orders ORDER BY id") == [(1, "one"), (2, None)]


def test_another_identity_is_another_primary_key_by_which_rows_are_found(rig: PgTableRig) -> None:
    moved = Delete(ORDERS.relation_id, OldKind.KEY, (b"1", b"one"))
    come(rig, changed(ORDERS, BY_BOTH, [row(1, "one"), row(2, "two")], [row(1, "other"), row(2, "two"), moved]))

    assert rig.ask("SELECT id, note FROM orders ORDER BY id") == [(1, "other"), (2, "two")]


def test_a_key_that_the_rows_do_not_have_stops_the_lane(rig: PgTableRig) -> None:
    keyed_anew = shape(replace(ID, flags=0), replace(NOTE, flags=1))
    with pytest.raises(StreamError) as raised:
        come(rig, changed(ORDERS, keyed_anew, [row(1, "same"), row(2, "same")], [row(3, "other")]))

    assert (raised.value.code, "23505" in raised.value.message) == ("SINK_PG_NOT_ALTERED", True)


def test_all_that_changed_at_once_is_followed(rig: PgTableRig) -> None:
    """A renamed key of another type, a new column, one that is gone."""
    before = shape(ID, NOTE, Column(0, "old", TEXT, -1))
    after = shape(Column(1, "number", INT4, -1), replace(NOTE, type_oid=VARCHAR), Column(0, "new", INT8, -1))
    come(rig, changed(before, after, [insert(1, "one", "x")], [insert(2, "two", 2**40)]))

    assert rig.ask("SELECT number, note, old, new FROM orders ORDER BY number") == [
        (1, "one", "x", None),
        (2, "two", None, 2**40),
    ]


@pytest.mark.parametrize("policy", ["ignore", "dead_letter"])
def test_another_policy_leaves_the_target_as_it_is(rig: PgTableRig, policy: str) -> None:
    log = changed(ORDERS, RENAMED, [row(1, "one")], [])
    come(rig, log, schema_changes={"column_renamed": policy})

    assert columns(rig) == {"id": "integer", "note": "text"}


def test_without_create_the_target_is_a_persons_to_alter(rig: PgTableRig) -> None:
    rig.ask("CREATE TABLE public.orders (id int PRIMARY KEY, note text)")
    log = changed(ORDERS, RENAMED, [row(1, "one")], [row(2, "two")])
    with pytest.raises(StreamError) as raised:
        come(rig, log, create=False)
    rig.ask("ALTER TABLE orders RENAME note TO remark")

    come(rig, log, create=False)

    assert raised.value.code == "SINK_PG_MISSING"
    assert rig.ask("SELECT id, remark FROM orders ORDER BY id") == [(1, "one"), (2, "two")]


def test_a_lane_speaks_while_a_large_table_is_altered_and_ends_it_when_it_is_told_to(
    rig: PgTableRig, monkeypatch
) -> None:
    """It is killed when it is silent for 15 s, and would begin with it again for ever."""
    monkeypatch.setattr(pg_connection, "_SPEAK_SECONDS", 0.05)
    rig.ask("CREATE TABLE public.orders (id int)")
    alter = "ALTER TABLE public.orders ALTER COLUMN id TYPE bigint"
    altering = connect_to_target(rig.config, rig.config.sink(SINK))
    with psycopg.connect(rig.dsn) as busy, closing(altering):
        busy.execute("LOCK TABLE public.orders")
        altering.speak = busy.rollback
        assert connections.altered(altering, alter) is None
        busy.execute("LOCK TABLE public.orders")
        altering.speak = superseded
        with pytest.raises(TransientError, match="superseded"):
            connections.altered(altering, alter.replace("bigint", "numeric"))

    assert columns(rig) == {"id": "bigint"}


def superseded() -> None:
    raise TransientError("superseded", code="LANE_SUPERSEDED")
