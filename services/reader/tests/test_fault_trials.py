"""Trials of the reliability catalogue in which source, brokers or Redis misbehave, by their number.

As in `test_trials.py`: once each by default, `TIDEGATE_TESTS_TRIALS=50` repeats each that often, with other draws.
"""

import random
import threading
from typing import Any

import pytest
from kit.reader_trials import TIMES, Trials, acking, add, caught_up, rows, setting, writing
from kit.wait import wait

from tidegate.contracts.frame import FrameKind
from tidegate.errors import ExitCode
from tidegate.failpoints import VARIABLE, Failpoint

trial = Trials()


@trial("M02")
def storm_of_kills(fleet: Any, draw: random.Random) -> None:
    """Killed again and again, whether or not it has begun by then."""
    with writing(fleet):
        for _ in range(4 if TIMES == 1 else 40):
            reader = fleet.start()
            threading.Event().wait(draw.uniform(0.3, 3.0))  # The fault itself.
            reader.kill()
            reader.wait()
        fleet.reader()


@trial("M04")
def ended_behind_a_frame(fleet: Any, draw: random.Random) -> None:
    """Right behind the k-th acknowledgement: what comes after it is sent again, and nothing before."""
    folder = fleet.folder / "failpoints"
    folder.mkdir()
    fleet.variables[VARIABLE] = str(folder)
    fleet.reader("raw_topic.max_frame=4KiB")
    fleet.sql("INSERT INTO orders (note) SELECT 'copied' FROM generate_series(1, 50)")
    (folder / Failpoint.READER_PRODUCED).write_text(f"kill {draw.randrange(1, 20)}")
    add(fleet, 10)
    fleet.sql("INSERT INTO orders (note) SELECT repeat('x', 100) FROM generate_series(1, 1000)")
    wait(lambda: fleet.processes[-1].poll() is not None, 30, "it is ended where it was told")
    kept = [each.header.last for each in fleet.frames()]
    fleet.reader("raw_topic.max_frame=4KiB")
    caught_up(fleet)
    again = [each.header for each in fleet.frames() if each.header.epoch == 2 and each.header.kind is FrameKind.WAL]
    assert all(each.first > kept[-1] for each in again if each.changes)


@trial("M06")
def slot_that_lost_its_wal(fleet: Any, draw: random.Random) -> None:
    fleet.stop(fleet.reader())
    with setting(fleet, "max_slot_wal_keep_size", "1MB"):
        for _ in range(4):
            fleet.sql("SELECT pg_switch_wal() FROM pg_logical_emit_message(true, 'filler', repeat('x', 3000000))")
        fleet.sql("CHECKPOINT")
        lost = f"SELECT wal_status FROM pg_replication_slots WHERE slot_name = '{fleet.slot}'"
        wait(lambda: fleet.sql(lost) == [("lost",)], 20, "the server has given the slot up")
        records = len(fleet.records())
        assert fleet.exit_code(fleet.start()) == ExitCode.LOST
    assert fleet.status().failure.code == "SLOT_LOST"
    assert len(fleet.records()) == records


@trial("M08")
def column_list_and_row_filter_change_between_rows(fleet: Any, draw: random.Random) -> None:
    """What is published is what was published when a row was written. One writer, so that rows have an order."""
    with acking(fleet):
        fleet.reader()
        add(fleet, 3)
        narrow = f"ALTER PUBLICATION {fleet.slot} SET TABLE orders (id, note) WHERE (note <> 'hidden')"
        fleet.sql(narrow)
        hidden = [fleet.sql("INSERT INTO orders (note) VALUES ('hidden') RETURNING id")[0][0] for _ in range(3)]
        add(fleet, 3)
        fleet.sql(f"ALTER PUBLICATION {fleet.slot} SET TABLE orders")
        shown = fleet.sql("INSERT INTO orders (note) VALUES ('hidden') RETURNING id")[0][0]
    wait(lambda: shown in rows(fleet), 30, "the last row is in the raw topic")
    assert not set(hidden) & set(rows(fleet))
    fleet.sql("DELETE FROM orders WHERE id = ANY(%s)", hidden)


@trial("M14")
def redis_that_takes_no_writes_and_forgets(fleet: Any, draw: random.Random) -> None:
    """Full, then emptied: acks come late, confirmed neither falls nor passes what was acked."""
    fleet.reader()
    add(fleet, 2)
    wait(lambda: len(rows(fleet)) == 2, 10, "the rows are in the raw topic")
    acked = fleet.records()[-1].frame.header.safe_lsn
    fleet.ack_everything()
    wait(lambda: fleet.confirmed() >= acked, 10, "the slot follows")
    with fleet.redis() as client:
        client.config_set("maxmemory", "1")
        try:
            wait(lambda: "status_unwritten" in fleet.log(), 10, "the reader has met a full Redis")
            add(fleet, 2)
            wait(lambda: len(rows(fleet)) == 4, 10, "the stream goes on")
        finally:
            client.config_set("maxmemory", "0")
        client.flushall()
    heard = fleet.last_heard()
    wait(lambda: fleet.last_heard() > heard, 10, "the server has had a status since")
    assert acked <= fleet.confirmed() < fleet.frames()[-1].header.last.commit_lsn
    with acking(fleet):
        wait(lambda: fleet.confirmed() > acked, 10, "the gate opens again")


@trial("M27")
def rights_that_are_taken_away(fleet: Any, draw: random.Random) -> None:
    """A role that may not replicate is a person's business, and the next start has every row once it may again."""
    role, password = f"r_{fleet.name}", "for-a-trial"
    fleet.sql(f"CREATE ROLE {role} LOGIN REPLICATION PASSWORD '{password}'")
    fleet.sql(f'GRANT CREATE ON DATABASE "{fleet.name}" TO {role}')
    fleet.sql(f"ALTER TABLE orders OWNER TO {role}")
    fleet.settings["source"] |= {"user": role, "password": "${env:ROLE_PASSWORD}"}
    fleet.variables["ROLE_PASSWORD"] = password
    try:
        fleet.stop(fleet.reader())
        add(fleet, 1)
        fleet.sql(f"ALTER ROLE {role} NOREPLICATION")
        assert fleet.exit_code(fleet.start()) == ExitCode.CONFIGURATION
        fleet.sql(f"ALTER ROLE {role} REPLICATION PASSWORD 'rotated'")
        assert fleet.exit_code(fleet.start()) == ExitCode.CONFIGURATION
        fleet.variables["ROLE_PASSWORD"] = "rotated"
        reader = fleet.reader()
        caught_up(fleet)
        fleet.stop(reader)
    finally:
        fleet.sql(f"REASSIGN OWNED BY {role} TO current_user")
        fleet.sql(f"DROP OWNED BY {role}")
        fleet.sql(f"DROP ROLE {role}")


@pytest.mark.parametrize("seed", range(TIMES))
@pytest.mark.parametrize("name", trial.named)
def test_trial(name: str, seed: int, fleet: Any) -> None:
    trial.named[name](fleet, random.Random(f"{name} {seed}"))
    caught_up(fleet)
