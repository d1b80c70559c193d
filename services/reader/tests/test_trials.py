"""Trials of the reliability catalogue that name the reader, by their number; each ends with every row once, in order.

`TIDEGATE_TESTS_TRIALS=50` repeats each that often; once by default. The rows are numbered, so a row that is lost,
doubled or out of order is seen at once.
"""

import json
import random
import signal
import threading
import time
from typing import Any

import psycopg
import pytest
from kit.proxy import Proxy
from kit.reader_trials import TIMES, Trials, acking, add, caught_up, rows, writing
from kit.wait import wait

from tidegate.errors import ExitCode
from tidegate.pgoutput.messages import Insert

trial = Trials()


@trial("M01")
def reader_killed_at_any_moment(fleet: Any, draw: random.Random) -> None:
    with writing(fleet):
        for _ in range(2):
            reader = fleet.reader("raw_topic.max_frame=4KiB")
            seen = fleet.status().changes
            wait(lambda seen=seen: fleet.status().changes > seen + draw.randrange(50), 20, "changes flow")
            reader.kill()
            reader.wait()
    fleet.reader()


@trial("M05")
def slot_moved_behind_our_back(fleet: Any, draw: random.Random) -> None:
    """What was skipped is gone from the server, and the raw topic never had it: LOST, and the rows before stay."""
    reader = fleet.reader()
    add(fleet, 5)
    wait(lambda: len(rows(fleet)) == 5, 10, "the rows are in the raw topic")
    fleet.stop(reader)
    fleet.sql("INSERT INTO orders (note) VALUES ('never seen')")
    fleet.sql("CHECKPOINT")  # A slot advances no further than WAL is flushed, and the tests' server is lazy.
    fleet.sql(f"SELECT pg_replication_slot_advance('{fleet.slot}', pg_current_wal_lsn())")
    assert fleet.exit_code(fleet.start(), within_seconds=60) == ExitCode.LOST
    assert fleet.status().failure.code == "GAP_LOST"
    fleet.sql("DELETE FROM orders WHERE note = 'never seen'")


@trial("M09")
def foreign_wal_beside_idle_tables(fleet: Any, draw: random.Random) -> None:
    fleet.sql("CREATE TABLE elsewhere (filler text)")
    fleet.reader()
    for _ in range(3):
        fleet.sql("INSERT INTO elsewhere SELECT repeat(md5(random()::text), 100) FROM generate_series(1, 5000)")
        end = fleet.wal_end()
        with acking(fleet):
            wait(lambda end=end: fleet.confirmed() >= end, 20, "the slot follows although nothing is published")


@trial("M17")
def an_open_transaction_is_named(fleet: Any, draw: random.Random) -> None:
    fleet.settings["source"]["slot"] = {"wal_budget": "64MiB"}
    fleet.reader()
    with psycopg.connect(fleet.dsn) as forgotten, acking(fleet):
        forgotten.execute("INSERT INTO orders (note) VALUES ('rolled back')")
        pid = forgotten.info.backend_pid
        for _ in range(4):
            fleet.sql("SELECT pg_logical_emit_message(true, 'filler', repeat('x', 15000000))")
            fleet.sql("CHECKPOINT")
        wait(lambda: f"transaction of pid {pid}" in fleet.log(), 30, "who holds the WAL is named")
        forgotten.rollback()
    told = [json.loads(line) for line in fleet.log().splitlines() if '"wal_zone"' in line]
    assert told[-1]["zone"] in ("yellow", "red")


@trial("M19")
def fast_shutdown_with_work_unacked(fleet: Any, draw: random.Random) -> None:
    reader = fleet.reader()
    add(fleet, 20)
    wait(lambda: len(rows(fleet)) == 20, 10, "the rows are in the raw topic")
    begun = time.monotonic()
    fleet.server.stop()
    stopped = time.monotonic() - begun
    fleet.server.start()
    assert stopped < 10
    assert fleet.exit_code(reader) == ExitCode.RETRY
    fleet.reader()


@trial("M24")
def link_goes_deaf_and_flaps(fleet: Any, draw: random.Random) -> None:
    source = fleet.settings["source"]
    with Proxy(source["host"], source["port"]).running() as proxy:
        source["port"] = proxy.port
        with writing(fleet):
            for _ in range(3):
                reader = fleet.reader()
                seen = fleet.status().changes
                wait(lambda seen=seen: fleet.status().changes > seen + 20, 20, "changes flow")
                proxy.cut()
                assert fleet.exit_code(reader) == ExitCode.RETRY
        fleet.reader()
        caught_up(fleet)


@trial("M26")
def backend_terminated_again_and_again(fleet: Any, draw: random.Random) -> None:
    with writing(fleet):
        for _ in range(2):
            reader = fleet.reader()
            seen = fleet.status().changes
            wait(lambda seen=seen: fleet.status().changes > seen + draw.randrange(30), 20, "changes flow")
            fleet.sql(
                f"SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = '{fleet.slot}'"
            )
            assert fleet.exit_code(reader) == ExitCode.RETRY
    fleet.reader()


@trial("M28")
def rows_larger_than_a_message(fleet: Any, draw: random.Random) -> None:
    fleet.reader("raw_topic.max_frame=64KiB")
    for size in (1_000, 100_000, 16_000_000, 10):
        fleet.sql(f"INSERT INTO orders (note) VALUES (repeat('x', {size}))")
    wait(lambda: len(rows(fleet)) == 4, 30, "the rows are in the raw topic")
    notes = [each.new[1] for each in fleet.messages() if isinstance(each, Insert)]
    assert [len(note) for note in notes] == [1_000, 100_000, 16_000_000, 10]


@trial("M41")
def reader_stopped_and_continued(fleet: Any, draw: random.Random) -> None:
    reader = fleet.reader()
    with writing(fleet):
        for _ in range(3):
            seen = fleet.status().changes
            wait(lambda seen=seen: fleet.status().changes > seen + 20, 20, "changes flow")
            reader.send_signal(signal.SIGSTOP)
            threading.Event().wait(draw.uniform(0.2, 2.0))  # The fault itself.
            reader.send_signal(signal.SIGCONT)


@pytest.mark.parametrize("seed", range(TIMES))
@pytest.mark.parametrize("name", trial.named)
def test_trial(name: str, seed: int, fleet: Any, postgres: Any) -> None:
    fleet.server = postgres
    trial.named[name](fleet, random.Random(f"{name} {seed}"))
    caught_up(fleet)
