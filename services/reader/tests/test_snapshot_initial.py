"""The snapshot before the stream, against real servers: every row once, then every change, and nothing between."""

import re
from itertools import pairwise
from typing import Any

import psycopg
import pytest
from kit.snapshots import Replica, replica_of, snapshot_marks
from kit.wait import wait

from tidegate.contracts.frame import FrameKind
from tidegate.contracts.mark import MarkKind
from tidegate.contracts.names import snapshots_key
from tidegate.contracts.snapshot import decode_snapshot
from tidegate.contracts.snapshot_status import decode_snapshot_status

INITIAL = "snapshot.mode=initial"
SMALL_FRAMES = ("raw_topic.max_frame=16KiB",)


def source(fleet: Any, table: str = "orders", key: int = 1) -> dict[Any, Any]:
    with psycopg.connect(fleet.dsn, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute("SET DateStyle = 'ISO'; SET TimeZone = 'UTC'; SET extra_float_digits = 3")
        with cursor.copy(f"COPY (SELECT * FROM {table}) TO STDOUT".encode()) as copy:
            lines = b"".join(bytes(each) for each in copy).splitlines()
    rows = [tuple(None if v == b"\\N" else v for v in line.split(b"\t")) for line in lines]
    return {row[:key]: row for row in rows}


def replica(fleet: Any) -> Replica:
    return replica_of(fleet.valid_records())


def completed(fleet: Any) -> list[str]:
    marks = snapshot_marks(fleet.frames())
    return [str(mark.details["table"]) for mark in marks if mark.kind is MarkKind.SNAPSHOT_COMPLETED]


def snapshots(fleet: Any) -> list[Any]:
    frames = fleet.frames()
    return [decode_snapshot(each.body) for each in frames if each.header.kind is FrameKind.SNAPSHOT]


def test_rows_precede_the_stream_and_it_goes_on_exactly_there(fleet: Any) -> None:
    fleet.sql("INSERT INTO orders (note) SELECT 'before ' || n FROM generate_series(1, 5000) n")
    fleet.sql("UPDATE orders SET note = NULL WHERE id % 7 = 0")
    fleet.reader(INITIAL)
    fleet.sql("UPDATE orders SET note = 'after' WHERE id = 1")
    fleet.sql("DELETE FROM orders WHERE id = 2")
    wait(lambda: completed(fleet) == ["orders"], 20, "the table is complete")
    wait(lambda: len(replica(fleet).changes) == 2, 20, "both changes are there")
    assert replica(fleet).named("orders") == source(fleet)
    assert not any(each.head.has_window for each in snapshots(fleet))
    assert sum(each.head.rows for each in snapshots(fleet)) == 5000


def test_a_second_start_reads_nothing_again(fleet: Any) -> None:
    fleet.sql("INSERT INTO orders (note) VALUES ('a')")
    process = fleet.reader(INITIAL)
    wait(lambda: completed(fleet) == ["orders"], 20, "the table is complete")
    assert fleet.stop(process) == 0
    process = fleet.reader(INITIAL)
    fleet.sql("INSERT INTO orders (note) VALUES ('b')")
    wait(lambda: len(replica(fleet).changes) == 1, 20, "the stream flows")
    assert sum(each.head.rows for each in snapshots(fleet)) == 1
    assert completed(fleet) == ["orders"]


def test_an_empty_table_begins_and_ends(fleet: Any) -> None:
    fleet.reader(INITIAL)
    wait(lambda: completed(fleet) == ["orders"], 20, "the table is complete")
    marks = snapshot_marks(fleet.frames())
    assert [mark.kind for mark in marks] == [MarkKind.SNAPSHOT_STARTED, MarkKind.SNAPSHOT_COMPLETED]
    assert snapshots(fleet) == []


def test_what_a_publication_leaves_out_is_not_read(fleet: Any) -> None:
    fleet.sql(
        "CREATE TABLE items (secret text, id int PRIMARY KEY, kind text, twice int GENERATED ALWAYS AS (id*2) STORED)"
    )
    fleet.sql("INSERT INTO items VALUES ('s', 1, 'a'), ('s', 2, 'b'), ('s', 3, 'a')")
    fleet.settings["source"]["publication"] = {
        "tables": ["public.items"],
        "limits": [{"table": "public.items", "columns": ["id", "kind"], "where": "kind = 'a'"}],
    }
    fleet.settings["source"]["publication"]["without_identity"] = "allow"
    fleet.reader(INITIAL)
    wait(lambda: completed(fleet) == ["items"], 20, "the table is complete")
    assert replica(fleet).named("items") == {(b"1",): (b"1", b"a"), (b"3",): (b"3", b"a")}


@pytest.mark.parametrize("via_root", [True, False])
def test_partitions_are_read_as_they_are_published(fleet: Any, via_root: bool) -> None:
    fleet.sql("CREATE TABLE sales (id int, region text, PRIMARY KEY (id, region)) PARTITION BY LIST (region)")
    fleet.sql("CREATE TABLE sales_a PARTITION OF sales FOR VALUES IN ('a')")
    fleet.sql("CREATE TABLE sales_b (region text NOT NULL, id int NOT NULL)")
    fleet.sql("ALTER TABLE sales ATTACH PARTITION sales_b FOR VALUES IN ('b')")
    fleet.sql("INSERT INTO sales SELECT n, CASE WHEN n % 2 = 0 THEN 'a' ELSE 'b' END FROM generate_series(1, 10) n")
    fleet.settings["source"]["publication"] = {"tables": ["public.sales"], "publish_via_partition_root": via_root}
    fleet.reader(INITIAL)
    names = ["sales"] if via_root else ["sales_a", "sales_b"]
    wait(lambda: sorted(completed(fleet)) == names, 20, "all are complete")
    fleet.sql("UPDATE sales SET id = id + 100 WHERE id IN (2, 3)")
    wait(lambda: len(replica(fleet).changes) >= 4, 20, "the stream flows")
    tables = replica(fleet)
    assert {table.name for table in tables.tables.values()} == set(names)
    for name in names:
        assert tables.named(name) == source(fleet, name, key=2)


def test_the_shape_is_the_one_that_the_stream_sends(fleet: Any) -> None:
    """Byte for byte, types of one's own, domains and keys included."""
    fleet.sql("CREATE TYPE mood AS ENUM ('sad', 'ok')")
    fleet.sql("CREATE DOMAIN short AS varchar(10) CHECK (VALUE <> '')")
    fleet.sql("CREATE DOMAIN shorter AS short")
    fleet.sql(
        'CREATE TABLE odd (a int, gone int, m mood, d shorter, "odd \'Näme" numeric, b mood[], PRIMARY KEY (d, a))'
    )
    fleet.sql("ALTER TABLE odd DROP COLUMN gone")
    fleet.sql("CREATE TABLE whole (a int, b text)")
    fleet.sql("ALTER TABLE whole REPLICA IDENTITY FULL")
    fleet.sql("CREATE TABLE indexed (a int, b text NOT NULL, c int NOT NULL)")
    fleet.sql("CREATE UNIQUE INDEX chosen ON indexed (b) INCLUDE (c)")
    fleet.sql("ALTER TABLE indexed REPLICA IDENTITY USING INDEX chosen")
    fleet.sql("INSERT INTO odd VALUES (1, 'ok', 'x', 1.5, '{sad,ok}')")
    fleet.sql("INSERT INTO whole VALUES (1, 'x')")
    fleet.sql("INSERT INTO indexed VALUES (1, 'x', 2)")
    fleet.settings["source"]["publication"] = {"tables": ["public.odd", "public.whole", "public.indexed"]}
    fleet.reader(INITIAL)
    wait(lambda: len(completed(fleet)) == 3, 20, "all are complete")
    for table in ("odd", "whole", "indexed"):
        fleet.sql(f"UPDATE {table} SET a = 2")
    wait(lambda: len(replica(fleet).changes) >= 3, 20, "the stream flows")
    frames = fleet.frames()
    from_snapshot = {entry for each in frames if each.header.kind is FrameKind.SNAPSHOT for entry in each.schema}
    from_stream = {entry for each in frames if each.header.kind is FrameKind.WAL for entry in each.schema}
    assert from_snapshot == from_stream
    assert not any(mark.kind is MarkKind.SCHEMA_CHANGE for mark in snapshot_marks(frames))


def test_several_tables_are_read_at_the_same_time(fleet: Any) -> None:
    """By connections that share one snapshot: rows of one table stand between those of another."""
    for name in ("port", "starboard"):
        fleet.sql(f"CREATE TABLE {name} AS SELECT n AS id, repeat('x', 100) AS note FROM generate_series(1, 4000) n")
        fleet.sql(f"ALTER TABLE {name} ADD PRIMARY KEY (id)")
    fleet.settings["source"]["publication"] = {"tables": ["public.port", "public.starboard"]}
    fleet.reader(INITIAL, "snapshot.connections=2", "snapshot.max_rows_per_second=3000", *SMALL_FRAMES)
    wait(lambda: sorted(completed(fleet)) == ["port", "starboard"], 30, "both are complete")
    heads = [each.head for each in snapshots(fleet)]
    assert sum(one.relation_id != next_.relation_id for one, next_ in pairwise(heads)) > 2
    assert not any(head.has_window for head in heads)
    for name in ("port", "starboard"):
        assert replica(fleet).named(name) == source(fleet, name)


def test_a_snapshot_that_is_held_too_long_is_given_up_and_the_rest_read_beside_the_stream(fleet: Any) -> None:
    fleet.sql("INSERT INTO orders (note) SELECT repeat('x', 100) FROM generate_series(1, 12000)")
    slow = ("snapshot.max_transaction_age=1s", "snapshot.max_rows_per_second=3000", "snapshot.range=1MiB")
    fleet.reader(INITIAL, *slow, *SMALL_FRAMES)
    fleet.sql("UPDATE orders SET note = 'after' WHERE id IN (1, 12000)")
    wait(lambda: completed(fleet) == ["orders"], 60, "the table is complete")
    wait(lambda: len(replica(fleet).changes) == 2, 20, "both changes are there")
    assert re.search("snapshot_export_given_up.*SNAPSHOT_TOO_OLD", fleet.log())
    assert {each.head.has_window for each in snapshots(fleet)} == {True, False}
    assert replica(fleet).named("orders") == source(fleet)


def test_a_row_larger_than_a_frame_travels_in_parts(fleet: Any) -> None:
    fleet.sql("INSERT INTO orders (note) VALUES ('small'), (repeat(E'x\\ty\\n\\\\', 300000)), ('small')")
    fleet.reader(INITIAL)
    wait(lambda: completed(fleet) == ["orders"], 30, "the table is complete")
    assert replica(fleet).named("orders")[(b"2",)][1] == b"x\ty\n\\" * 300_000
    assert max(record.frame.header.parts for record in fleet.records()) > 1


def test_initial_only_ends_when_all_is_read(fleet: Any) -> None:
    fleet.sql("INSERT INTO orders (note) VALUES ('a')")
    process = fleet.start("snapshot.mode=initial_only")
    assert fleet.exit_code(process, 30) == 0
    assert completed(fleet) == ["orders"]


def test_initial_only_that_is_started_again_ends_again_and_streams_nothing(fleet: Any) -> None:
    fleet.sql("INSERT INTO orders (note) VALUES ('a')")
    assert fleet.exit_code(fleet.start("snapshot.mode=initial_only"), 30) == 0
    shown = shown_states(fleet)
    fleet.sql("INSERT INTO orders (note) VALUES ('b')")
    assert fleet.exit_code(fleet.start("snapshot.mode=initial_only"), 30) == 0
    assert (shown, shown_states(fleet)) == (["done"], ["done"])
    assert (completed(fleet), replica(fleet).changes) == (["orders"], [])
    fleet.reader(INITIAL)
    wait(lambda: replica(fleet).named("orders") == source(fleet), 20, "another mode goes on where it ended")


def test_initial_only_that_could_not_read_all_does_not_end_as_if_it_had(fleet: Any) -> None:
    """It failed, and ended with the exit code of one that is done."""
    fleet.sql("CREATE TABLE log AS SELECT repeat('x', 100) AS note FROM generate_series(1, 5000)")
    fleet.settings["source"]["publication"] = {"tables": ["public.log"], "without_identity": "allow"}
    fleet.stop(fleet.reader())
    slow = ("snapshot.max_transaction_age=1s", "snapshot.max_rows_per_second=1000")
    assert fleet.exit_code(fleet.start("snapshot.mode=initial_only", *slow, *SMALL_FRAMES), 30) == 1
    assert "SNAPSHOT_TABLE_LONG" in fleet.log()
    assert fleet.exit_code(fleet.start("snapshot.mode=initial_only"), 30) == 0
    assert completed(fleet) == ["log"]


def shown_states(fleet: Any) -> list[str]:
    with fleet.redis() as client:
        return [decode_snapshot_status(value).state.value for value in client.hvals(snapshots_key(fleet.name))]
