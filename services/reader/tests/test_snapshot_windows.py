"""Snapshots beside the stream, with real writers and real deaths: what a sink ends up with is what the source has."""

import threading
from typing import Any

import psycopg
import pytest
from kit.snapshots import Replica, relations_of, replica_of, snapshot_marks
from kit.wait import wait

from tidegate.contracts.frame import FrameKind
from tidegate.contracts.mark import MarkKind
from tidegate.contracts.snapshot import decode_snapshot
from tidegate.lsn import parse_lsn

INITIAL = "snapshot.mode=initial"
SMALL = ("snapshot.range=1MiB", "snapshot.transaction=100ms", "raw_topic.max_frame=16KiB")
SLOW = "snapshot.max_bytes_per_second=2MiB"


def heads(fleet: Any) -> list[Any]:
    return [decode_snapshot(each.body).head for each in fleet.frames() if each.header.kind is FrameKind.SNAPSHOT]


def is_done(fleet: Any) -> bool:
    """By the log of the running reader."""
    return "snapshot_done" in fleet.log()


def source_rows(fleet: Any) -> dict[Any, Any]:
    rows = fleet.sql("SELECT id::text, note, version::text, long FROM orders")
    return {(row[0].encode(),): tuple(v if v is None else v.encode() for v in row) for row in rows}


class Writers:
    """Inserts, updates, moves and deletes, until told to stop; then all that they did is committed."""

    def __init__(self, dsn: str, rows: int, count: int = 2) -> None:
        self._dsn, self._rows, self._enough = dsn, rows, threading.Event()
        self.written = 0
        self._threads = [threading.Thread(target=self._write, args=(number,)) for number in range(count)]

    def __enter__(self) -> "Writers":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._enough.set()
        for thread in self._threads:
            thread.join()

    def _write(self, number: int) -> None:
        state = number * 7919 + 1
        with psycopg.connect(self._dsn, autocommit=True) as connection:
            while not self._enough.is_set():
                state = (state * 1103515245 + 12345) % 2**31
                row = state % self._rows + 1
                what = state // 7 % 10
                if what < 6:
                    connection.execute("UPDATE orders SET version = version + 1 WHERE id = %s", [row])
                elif what < 7:
                    connection.execute("UPDATE orders SET note = repeat('w', 300), long = long WHERE id = %s", [row])
                elif what < 8:
                    connection.execute("DELETE FROM orders WHERE id = %s", [row])
                else:
                    connection.execute("INSERT INTO orders (note) VALUES (%s)", [f"new {state}"])
                self.written += 1


@pytest.fixture
def filled(fleet: Any) -> Any:
    """About 6 MiB of rows, some with values out of line."""
    fleet.sql("ALTER TABLE orders ADD version int NOT NULL DEFAULT 0, ADD long text")
    fleet.sql("ALTER TABLE orders ALTER long SET STORAGE EXTERNAL")
    fleet.sql(
        "INSERT INTO orders (note, long) SELECT repeat('x', 200), CASE WHEN n % 50 = 0 THEN repeat(n::text, 1000) END"
        " FROM generate_series(1, 20000) n"
    )
    return fleet


def assert_equal_to_source(fleet: Any) -> Replica:
    # Commits are asynchronous here, so what is flushed may lie behind what the writers were told.
    end = parse_lsn(fleet.sql("SELECT pg_current_wal_insert_lsn()::text")[0][0])
    fleet.sql("INSERT INTO orders (note) VALUES ('sentinel')")
    wait(lambda: fleet.status().produced_lsn > end, 60, "the sentinel is there")
    replica = replica_of(fleet.valid_records())
    assert replica.named("orders") == source_rows(fleet)
    return replica


def test_a_slot_that_was_there_before_is_no_hindrance(filled: Any) -> None:
    """Asked for later, all of it is read beside the stream, while others write."""
    process = filled.reader()
    filled.stop(process)
    with Writers(filled.dsn, 20000) as writers:
        filled.reader(INITIAL, *SMALL)
        wait(lambda: is_done(filled), 60, "the table is complete")
        assert writers.written > 100
    replica = assert_equal_to_source(filled)
    assert all(head.has_window for head in heads(filled))
    assert len({head.reading for head in heads(filled)}) > 2
    assert replica.delivered >= 15000


@pytest.mark.parametrize("after", [0, 10, 60, 200])
def test_killed_before_the_stream_it_goes_on_beside_it(filled: Any, after: int) -> None:
    with Writers(filled.dsn, 20000):
        process = filled.reader(INITIAL, SLOW, *SMALL)
        wait(lambda: filled.status().frames >= after, 30, "some frames are there")
        process.kill()
        process.wait()
        filled.reader(INITIAL, *SMALL)
        wait(lambda: is_done(filled), 60, "the table is complete")
    assert_equal_to_source(filled)


def test_killed_again_and_again_it_comes_to_an_end(filled: Any) -> None:
    with Writers(filled.dsn, 20000):
        for _ in range(3):
            process = filled.reader(INITIAL, SLOW, *SMALL)
            wait(lambda: filled.status().frames >= 40, 30, "it goes on")
            process.kill()
            process.wait()
        filled.reader(INITIAL, *SMALL)
        wait(lambda: is_done(filled), 60, "the table is complete")
    assert_equal_to_source(filled)


def test_the_exporting_connection_is_killed(filled: Any) -> None:
    with Writers(filled.dsn, 20000):
        filled.reader(INITIAL, SLOW, *SMALL)
        wait(lambda: filled.status().frames >= 20, 30, "some frames are there")
        filled.sql(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE application_name LIKE '%%snapshot' AND state = 'idle in transaction'"
        )
        wait(lambda: is_done(filled), 60, "the table is complete")
    assert_equal_to_source(filled)
    assert {head.has_window for head in heads(filled)} == {True, False}


def test_a_table_that_is_rewritten_meanwhile_is_read_anew(filled: Any) -> None:
    process = filled.reader()
    filled.stop(process)
    filled.reader(INITIAL, SLOW, *SMALL)
    wait(lambda: len(heads(filled)) > 10, 30, "some rows are there")
    filled.sql("DELETE FROM orders WHERE id % 3 = 0")
    filled.sql("VACUUM FULL orders")
    wait(lambda: is_done(filled), 60, "the table is complete")
    assert_equal_to_source(filled)


def test_a_transaction_that_is_open_meanwhile_is_in_the_end_there_too(filled: Any) -> None:
    process = filled.reader()
    filled.stop(process)
    with psycopg.connect(filled.dsn) as connection:
        connection.execute("UPDATE orders SET version = 77 WHERE id <= 100")
        filled.reader(INITIAL, *SMALL)
        wait(lambda: is_done(filled), 60, "the table is complete")
        connection.commit()
    assert_equal_to_source(filled)


def test_columns_that_come_or_are_renamed_meanwhile_are_those_of_rows_still_to_be_read(filled: Any) -> None:
    filled.stop(filled.reader())
    filled.reader(INITIAL, SLOW, *SMALL)
    wait(lambda: len(heads(filled)) > 10, 30, "some rows are there")
    filled.sql("ALTER TABLE orders ADD later int; ALTER TABLE orders RENAME note TO comment")
    filled.sql("UPDATE orders SET later = 9 WHERE id > 19000")
    wait(lambda: is_done(filled), 60, "the table is complete")
    seen = [columns for columns in columns_of_rows(filled) if len(columns) == 5]
    assert seen
    assert set(seen) == {("id", "comment", "version", "long", "later")}
    rows = replica_of(filled.valid_records()).named("orders")
    late = [row for key, row in rows.items() if int(key[0]) > 19000]
    assert {row[4] for row in late} == {b"9"}
    assert len(rows) == 20000


def columns_of_rows(fleet: Any) -> list[tuple[str, ...]]:
    """Of each frame of rows."""
    frames = [each for each in fleet.frames() if each.header.kind is FrameKind.SNAPSHOT]
    relations = [next(relation for _, relation in relations_of(frame)) for frame in frames]
    return [tuple(column.name for column in relation.columns) for relation in relations]


def test_a_table_that_is_renamed_meanwhile_is_read_on(filled: Any) -> None:
    filled.stop(filled.reader())
    filled.reader(INITIAL, SLOW, *SMALL)
    wait(lambda: len(heads(filled)) > 10, 30, "some rows are there")
    filled.sql("ALTER TABLE orders RENAME TO purchases")
    wait(lambda: is_done(filled), 60, "the table is complete")
    names = {int(key[0]) for table in replica_of(filled.valid_records()).tables.values() for key in table.rows}
    assert names == set(range(1, 20001))


def test_a_table_that_is_dropped_meanwhile_has_an_end(filled: Any) -> None:
    filled.stop(filled.reader())
    reader = filled.reader(INITIAL, SLOW, *SMALL)
    wait(lambda: len(heads(filled)) > 10, 30, "some rows are there")
    filled.sql("DROP TABLE orders")
    wait(lambda: is_done(filled), 30, "the snapshot is over")
    assert [mark.kind for mark in marks_of(filled)] == [MarkKind.SNAPSHOT_STARTED, MarkKind.SNAPSHOT_COMPLETED]
    end = marks_of(filled)[-1]
    assert end.details["outcome"] == "cancelled"
    assert 0 < int(end.details["rows"]) < 20000
    assert reader.poll() is None


@pytest.mark.parametrize("is_dropped", [False, True])
def test_a_table_that_left_the_publication_while_no_reader_was_there_has_an_end(filled: Any, is_dropped: bool) -> None:
    """Nobody can say one of a table that was dropped then: its columns are not known any more."""
    filled.stop(filled.reader())
    reader = filled.reader(INITIAL, SLOW, *SMALL)
    wait(lambda: len(heads(filled)) > 10, 30, "some rows are there")
    filled.stop(reader)
    filled.sql("CREATE TABLE other (id int PRIMARY KEY)")
    if is_dropped:
        filled.sql("DROP TABLE orders")
    filled.reader(INITIAL, SLOW, *SMALL, 'source.publication.tables=["public.other"]')
    wait(lambda: is_done(filled), 30, "the snapshot is over")
    told = [mark.details.get("outcome") for mark in marks_of(filled)]
    assert told == ([None] if is_dropped else [None, "cancelled"])


def marks_of(fleet: Any) -> list[Any]:
    return [mark for mark in snapshot_marks(fleet.frames()) if mark.details["table"] == "orders"]


def test_the_stream_goes_on_beside_it(filled: Any) -> None:
    """A change is there at once while rows are still being read."""
    process = filled.reader()
    filled.stop(process)
    filled.reader(INITIAL, "snapshot.max_bytes_per_second=500KiB", *SMALL)
    wait(lambda: heads(filled), 30, "some rows are there")
    changes = filled.status().changes
    filled.sql("INSERT INTO orders (note) VALUES ('quick')")
    wait(lambda: filled.status().changes > changes, 5, "the change is there")
    assert not is_done(filled)


BUSY = """
from tidegate_reader.main import main
from tidegate_reader.snapshot.readers import Readers
from tidegate_reader.snapshot.refusals import window_too_long

rows_of = Readers._rows

async def rows(self, link, job, piece, head, stream_bytes):
    counted = await rows_of(self, link, job, piece, head, stream_bytes)
    if piece.is_moved and piece.is_whole and not piece.heap.since:
        raise window_too_long()
    return counted

Readers._rows = rows
main()
"""
"""One transaction is too long for what moved, until most of it has been read in pieces."""


def test_rows_that_moved_are_read_in_pieces_first_where_too_much_is_written_for_one_transaction(filled: Any) -> None:
    filled.stop(filled.reader())
    filled.program = ("-c", BUSY)
    with Writers(filled.dsn, 20000):
        filled.start(INITIAL, SLOW, *SMALL)
        wait(lambda: is_done(filled) or "snapshot_failed" in filled.log(), 100, "it ends")
    assert is_done(filled), filled.log()
    assert filled.log().count("snapshot_moved_in_pieces") == 1
    assert_equal_to_source(filled)
