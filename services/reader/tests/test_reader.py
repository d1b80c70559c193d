"""The reader against real servers: everything once and in order, nothing confirmed before it is acked."""

import signal
import threading
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
from kit.raw_topic import inserted
from kit.wait import wait

from tidegate.contracts.epoch import EpochMode, decode_epoch
from tidegate.contracts.frame import FrameKind
from tidegate.contracts.mark import MarkKind, decode_mark
from tidegate.contracts.status import State
from tidegate.errors import ExitCode
from tidegate.failpoints import VARIABLE, Failpoint
from tidegate.pgoutput.messages import Begin, Commit, Delete, Insert, LogicalMessage, Truncate, Update


def test_changes_arrive_as_the_server_sent_them(fleet: Any) -> None:
    fleet.reader()
    fleet.sql("INSERT INTO orders (note) VALUES ('a'), ('b')")
    fleet.sql("UPDATE orders SET note = 'c' WHERE id = 1")
    fleet.sql("DELETE FROM orders WHERE id = 2")
    fleet.sql("TRUNCATE orders")
    expected = [Begin, Insert, Insert, Commit, Begin, Update, Commit, Begin, Delete, Commit, Begin, Truncate, Commit]
    wait(lambda: len(fleet.messages()) >= len(expected), 10, "all messages are in the raw topic")
    messages = fleet.messages()
    assert [type(each) for each in messages] == expected
    assert (messages[1].new, messages[2].new) == ((b"1", b"a"), (b"2", b"b"))
    assert messages[3].commit_lsn == messages[0].commit_lsn


def test_only_an_ack_moves_the_slot(fleet: Any) -> None:
    fleet.reader()
    before = fleet.confirmed()
    fleet.sql("INSERT INTO orders (note) VALUES ('a')")
    wait(lambda: inserted(fleet) == ["a"], 10, "the row is in the raw topic")
    sent = fleet.status().time
    wait(lambda: fleet.status().time > sent + 3_000_000, 10, "several statuses have been sent")
    assert fleet.confirmed() == before
    assert fleet.status().gate_holder == "topics"
    last = fleet.records()[-1]
    fleet.ack(last)
    wait(lambda: fleet.confirmed() == last.frame.header.safe_lsn, 5, "the slot follows the ack")
    assert fleet.confirmed() > before


def test_kill_and_start_again_give_every_change_exactly_once(fleet: Any, lane: Callable[[], None]) -> None:
    """Killed wherever it happens to be, among many small and some larger transactions, with acks coming in."""
    kills, enough = 5, threading.Event()
    written: list[int] = []
    writing = threading.Thread(target=_write_rows, args=(fleet.dsn, written, enough))
    reader = fleet.reader("raw_topic.max_frame=4KiB")
    writing.start()
    lane()
    for kill in range(kills):
        wait(lambda: fleet.status().changes >= 100, 20, f"changes flow before kill {kill}")
        reader.kill()
        reader.wait()
        reader = fleet.reader("raw_topic.max_frame=4KiB")
    enough.set()
    writing.join()
    rows = len(written)
    wait(lambda: len(inserted(fleet)) >= rows, 60, "every row is in the raw topic")
    assert inserted(fleet) == [str(number) for number in range(rows)]
    frames = fleet.frames()
    assert len([each for each in frames if each.header.kind is FrameKind.EPOCH]) == kills + 1
    wait(lambda: fleet.confirmed() >= frames[-1].header.safe_lsn, 10, "the slot has caught up")


def test_a_kill_inside_one_large_transaction_resumes_inside_it(fleet: Any, tmp_path: Path) -> None:
    rows = 200_000
    fleet.variables[VARIABLE] = str(tmp_path)
    reader = fleet.reader("raw_topic.max_frame=4KiB", "raw_topic.max_in_flight=1MiB")
    (tmp_path / Failpoint.READER_PRODUCED).write_text("kill 20")
    fleet.sql("INSERT INTO orders (note) SELECT n::text FROM generate_series(0, %s) n", rows - 1)
    wait(lambda: reader.poll() is not None, 20, "it is ended inside the transaction")
    cut = len(inserted(fleet))
    assert 0 < cut < rows
    fleet.reader()
    wait(lambda: isinstance((fleet.messages() or [None])[-1], Commit), 60, "the transaction is complete")
    messages = fleet.messages()
    assert sum(isinstance(each, Begin) for each in messages) == 1
    assert inserted(fleet) == [str(number) for number in range(rows)]
    resumed = [each for each in fleet.frames() if each.header.epoch == 2 and each.header.changes]
    assert resumed[0].header.open_transaction.next_ordinal == cut


def test_a_quiet_publication_releases_the_wal_of_its_neighbours(fleet: Any, lane: Callable[[], None]) -> None:
    fleet.sql("CREATE TABLE elsewhere (filler text)")
    fleet.reader("source.heartbeat.interval=1h")
    lane()
    fleet.sql("INSERT INTO elsewhere SELECT repeat('x', 1000) FROM generate_series(1, 2000)")
    end = fleet.wal_end()
    wait(lambda: fleet.confirmed() >= end, 15, "keepalives have carried the slot forward")
    assert inserted(fleet) == []


def test_a_quiet_database_gets_a_heartbeat(fleet: Any) -> None:
    fleet.reader("source.heartbeat.interval=1s")
    wait(lambda: len(_heartbeats(fleet)) >= 2, 15, "heartbeats are in the raw topic")
    assert all(each.transactional for each in _heartbeats(fleet))


def test_a_row_larger_than_a_frame_travels_in_parts(fleet: Any) -> None:
    fleet.reader()
    note = "x" * 2_000_000
    fleet.sql("INSERT INTO orders (note) VALUES (%s)", note)
    wait(lambda: inserted(fleet), 20, "the row is in the raw topic")
    assert inserted(fleet) == [note]
    parts = [each.header for each in fleet.frames() if each.header.parts]
    assert [each.part for each in parts] == list(range(1, parts[0].parts + 1))
    assert {each.last for each in parts[:-1]}.isdisjoint({parts[-1].last})


def test_a_changed_table_is_announced_before_its_first_new_row(fleet: Any) -> None:
    fleet.reader()
    fleet.sql("INSERT INTO orders (note) VALUES ('old')")
    fleet.sql("ALTER TABLE orders ADD colour text")
    fleet.sql("INSERT INTO orders (note, colour) VALUES ('new', 'red')")
    wait(lambda: inserted(fleet) == ["old", "new"], 10, "both rows are in the raw topic")
    frames = fleet.frames()
    marks = [at for at, each in enumerate(frames) if each.header.kind is FrameKind.MARK]
    assert len(marks) == 1
    mark = decode_mark(frames[marks[0]].body)
    assert (mark.kind, mark.details["table"]) == (MarkKind.SCHEMA_CHANGE, "orders")
    assert [each for each in frames[: marks[0]] if each.header.changes]
    assert [each for each in frames[marks[0] :] if each.header.changes]


def test_every_frame_describes_what_it_holds(fleet: Any) -> None:
    fleet.sql("CREATE TYPE mood AS ENUM ('sad', 'ok')")
    fleet.sql("ALTER TABLE orders ADD mood mood DEFAULT 'ok'")
    fleet.reader("raw_topic.max_frame=4KiB")
    fleet.sql("INSERT INTO orders (note) SELECT n::text FROM generate_series(1, 500) n")
    wait(lambda: len(inserted(fleet)) == 500, 10, "all rows are in the raw topic")
    filled = [each for each in fleet.frames() if each.header.changes]
    assert len(filled) > 2
    assert {len(each.schema) for each in filled} == {2}


def test_sigterm_ends_it_cleanly_even_with_nobody_acking(fleet: Any) -> None:
    reader = fleet.reader()
    fleet.sql("INSERT INTO orders (note) VALUES ('a')")
    wait(lambda: inserted(fleet) == ["a"], 10, "the row is in the raw topic")
    assert fleet.stop(reader, within_seconds=5) == ExitCode.CLEAN
    assert fleet.status().state is State.DRAINED
    wait(
        lambda: not fleet.sql(f"SELECT active FROM pg_replication_slots WHERE slot_name = '{fleet.slot}'")[0][0],
        5,
        "the slot is free",
    )


def test_a_clean_restart_sends_nothing_twice(fleet: Any) -> None:
    reader = fleet.reader()
    fleet.sql("INSERT INTO orders (note) VALUES ('a')")
    wait(lambda: inserted(fleet) == ["a"], 10, "the row is in the raw topic")
    fleet.stop(reader)
    fleet.reader()
    fleet.sql("INSERT INTO orders (note) VALUES ('b')")
    wait(lambda: len(inserted(fleet)) >= 2, 10, "the second row is in the raw topic")
    assert inserted(fleet) == ["a", "b"]
    assert _modes(fleet) == [EpochMode.CONTINUE, EpochMode.CONTINUE]


def test_a_frozen_reader_that_lost_its_slot_gives_up(fleet: Any) -> None:
    """The old one wakes up after a new one has taken over: what it still writes is void, and it ends. If it takes the
    place of a frame of the new one, that one begins a new epoch."""
    old = fleet.reader()
    old.send_signal(signal.SIGSTOP)
    fleet.sql(f"SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = '{fleet.slot}'")
    new = fleet.reader()
    fleet.sql("INSERT INTO orders (note) VALUES ('a')")
    old.send_signal(signal.SIGCONT)
    assert fleet.exit_code(old) == ExitCode.RETRY
    fleet.sql("INSERT INTO orders (note) VALUES ('b')")

    def both_are_there() -> bool:
        if fleet.processes[-1].poll() is not None:
            assert (new.returncode, "EPOCH_OVER" in fleet.log()) == (ExitCode.RETRY, True)
            fleet.reader()
        return len(inserted(fleet)) >= 2

    wait(both_are_there, 20, "both rows are in the raw topic")
    assert inserted(fleet) == ["a", "b"]


def test_health_and_metrics_are_served(fleet: Any, unused_port: int) -> None:
    fleet.reader(f"reader.http=127.0.0.1:{unused_port}")
    with urllib.request.urlopen(f"http://127.0.0.1:{unused_port}/readyz") as answer:
        assert answer.status == 200
    with urllib.request.urlopen(f"http://127.0.0.1:{unused_port}/metrics") as answer:
        assert b'tidegate_reader_gate_held_flag{sink="topics"} 1.0' in answer.read()


def _heartbeats(fleet: Any) -> list[LogicalMessage]:
    return [each for each in fleet.messages() if isinstance(each, LogicalMessage) and each.prefix == "tidegate"]


def _modes(fleet: Any) -> list[EpochMode]:
    return [decode_epoch(each.body).mode for each in fleet.frames() if each.header.kind is FrameKind.EPOCH]


def _write_rows(dsn: str, written: list[int], enough: threading.Event) -> None:
    """Ten rows a transaction, until it is enough."""
    with psycopg.connect(dsn) as connection:
        while not enough.wait(0.002):
            start = len(written)
            connection.execute(
                "INSERT INTO orders (note) SELECT n::text FROM generate_series(%s::int, %s) n", [start, start + 9]
            )
            connection.commit()
            written += range(start, start + 10)


def test_a_ddl_while_the_reader_is_away_is_marked_before_the_first_new_row(fleet: Any) -> None:
    reader = fleet.reader()
    fleet.sql("INSERT INTO orders (note) VALUES ('a')")
    wait(lambda: inserted(fleet) == ["a"], 10, "the row is in the raw topic")
    fleet.stop(reader)
    fleet.sql("ALTER TABLE orders ADD COLUMN extra int")
    fleet.sql("INSERT INTO orders (note, extra) VALUES ('b', 7)")
    reader = fleet.reader()
    wait(lambda: inserted(fleet) == ["a", "b"], 10, "the second row is in the raw topic")
    fleet.stop(reader)
    fleet.reader()
    fleet.sql("INSERT INTO orders (note, extra) VALUES ('c', 8)")
    wait(lambda: inserted(fleet) == ["a", "b", "c"], 10, "the third row is in the raw topic")
    frames = [each for each in fleet.frames() if each.header.kind in (FrameKind.WAL, FrameKind.MARK)]
    [place] = [number for number, each in enumerate(frames) if each.header.kind is FrameKind.MARK]
    assert decode_mark(frames[place].body).kind is MarkKind.SCHEMA_CHANGE
    assert frames[place].header.first == next(each.header.first for each in frames[place + 1 :] if each.header.changes)
