"""A slot or a gap that is lost, against real servers: a person is asked, or the tables are read again."""

import json
import urllib.error
import urllib.request
from typing import Any, cast

import psycopg
import pytest
from kit.raw_topic import administer
from kit.reader_trials import TIMES, setting
from kit.snapshots import replica_of, snapshot_marks
from kit.wait import wait

from tidegate.contracts.epoch import EpochMode, EpochRecord, decode_epoch
from tidegate.contracts.frame import FrameKind
from tidegate.contracts.gap import GapReason
from tidegate.contracts.mark import MarkKind
from tidegate.contracts.names import ack_key
from tidegate.errors import ExitCode
from tidegate.failpoints import VARIABLE, Failpoint
from tidegate.stack.server import free_port

RESNAPSHOT = "source.slot.on_lost=resnapshot"
_NAMES = "LOSS_NOTED SLOT_DROPPED SLOT_REMADE STREAM_STARTED EPOCH_BEGUN GAP_ANNOUNCED PRODUCED"
PLACES = [Failpoint[f"READER_{name}"] for name in _NAMES.split()]


def dropped(fleet: Any) -> None:
    free = "SELECT active_pid IS NULL FROM pg_replication_slots WHERE slot_name = %s"
    wait(lambda: fleet.sql(free, fleet.slot) == [(True,)], 10, "nobody holds the slot")
    fleet.sql("SELECT pg_drop_replication_slot(%s)", fleet.slot)


def invalidated(fleet: Any) -> None:
    with setting(fleet, "max_slot_wal_keep_size", "1MB"):
        for _ in range(4):
            fleet.sql("SELECT pg_switch_wal() FROM pg_logical_emit_message(true, 'filler', repeat('x', 3000000))")
        fleet.sql("CHECKPOINT")
        lost = f"SELECT wal_status FROM pg_replication_slots WHERE slot_name = '{fleet.slot}'"
        wait(lambda: fleet.sql(lost) == [("lost",)], 20, "the server has given the slot up")


def advanced(fleet: Any) -> None:
    fleet.sql("CHECKPOINT")  # what is committed is flushed then
    fleet.sql("SELECT pg_replication_slot_advance(%s, pg_current_wal_flush_lsn())", fleet.slot)


LOSSES = {
    dropped: (GapReason.SLOT_MISSING, "SLOT_MISSING"),
    invalidated: (GapReason.SLOT_INVALIDATED, "SLOT_LOST"),
    advanced: (GapReason.SLOT_MOVED, "GAP_LOST"),
}
losses = pytest.mark.parametrize("lose", LOSSES, ids=lambda lose: lose.__name__)


def begun(fleet: Any) -> None:
    """Four rows; three are acked, and the slot stands behind them."""
    reader = fleet.reader(RESNAPSHOT)
    fleet.sql("INSERT INTO orders (id, note) VALUES (1, 'kept'), (2, 'changed'), (3, 'deleted')")
    wait(lambda: len(replica_of(fleet.valid_records()).named("orders")) == 3, 20, "the rows are in the raw topic")
    fleet.ack_everything()
    fleet.stop(reader)


def gap(fleet: Any) -> None:
    """What nobody will ever send."""
    fleet.sql("UPDATE orders SET note = 'in the gap' WHERE id = 2")
    fleet.sql("DELETE FROM orders WHERE id = 3")
    fleet.sql("INSERT INTO orders (id, note) VALUES (4, 'in the gap')")


def epochs(fleet: Any) -> list[EpochRecord]:
    return [decode_epoch(each.body) for each in fleet.frames() if each.header.kind is FrameKind.EPOCH]


def modes(fleet: Any) -> list[EpochMode]:
    return [each.mode for each in epochs(fleet)]


def orders(fleet: Any) -> dict[int, str]:
    rows = replica_of(fleet.valid_records()).named("orders")
    return {int(key): note.decode() for (key,), (_, note) in rows.items()}


def level(fleet: Any) -> None:
    """All that the table holds has come, and of what it does not hold only what went in the gap is left."""
    [(after,)] = fleet.sql("INSERT INTO orders (id, note) SELECT max(id) + 1, 'after' FROM orders RETURNING id")
    wait(lambda: _is_read(fleet), 30, "it is read again")
    wait(lambda: after in orders(fleet), 20, "the stream goes on")
    found, table = orders(fleet), dict(fleet.sql("SELECT id, note FROM orders"))
    assert {key: note for key, note in found.items() if key in table} == table
    assert found.keys() - table.keys() <= {3}, "what was deleted in the gap"
    assert {each.header.generation for each in fleet.frames()} == {fleet.frames()[0].header.generation}


def _is_read(fleet: Any) -> bool:
    """The snapshot that the last announcement named."""
    announced = [each.gap.snapshot for each in epochs(fleet) if each.gap]
    ended = [mark for mark in snapshot_marks(fleet.frames()) if mark.kind is MarkKind.SNAPSHOT_COMPLETED]
    return bool(announced) and announced[-1] in {mark.details["snapshot"] for mark in ended}


@losses
def test_by_default_a_person_is_asked(fleet: Any, lose: Any) -> None:
    begun(fleet)
    gap(fleet)
    lose(fleet)
    records = len(fleet.records())
    assert fleet.exit_code(fleet.start()) == ExitCode.LOST
    assert fleet.status().failure.code == LOSSES[lose][1]
    assert len(fleet.records()) == records


@losses
def test_a_loss_is_announced_and_the_tables_are_read_again(fleet: Any, lose: Any) -> None:
    begun(fleet)
    gap(fleet)
    lose(fleet)
    fleet.reader(RESNAPSHOT)
    level(fleet)
    announced = epochs(fleet)[-1]
    assert announced.gap is not None
    reason, _ = LOSSES[lose]
    assert (announced.mode, announced.gap.lsn) == (EpochMode.RESNAPSHOT, announced.start_lsn)
    marks = snapshot_marks(fleet.frames())
    assert [mark.kind for mark in marks] == [MarkKind.SNAPSHOT_STARTED, MarkKind.SNAPSHOT_COMPLETED]
    assert {(mark.details["reason"], mark.details["snapshot"]) for mark in marks} == {(reason, announced.gap.snapshot)}
    assert "gap_announced" in fleet.log()


def _deaths() -> list[Any]:
    """All of them in trials; else each place once, and Redis emptied where it counts."""
    dropping, making, producing = (Failpoint[f"READER_{name}"] for name in ("SLOT_DROPPED", "SLOT_REMADE", "PRODUCED"))
    every = [
        (lose, point, memory)
        for lose in LOSSES
        for point in PLACES
        for memory in ("kept", "emptied")
        if not (point is dropping and lose is not invalidated) and not (point is making and lose is advanced)
    ]
    chosen = [
        *((dropped, point, "kept") for point in PLACES if point is not dropping),
        (dropped, making, "emptied"),
        (dropped, Failpoint.READER_EPOCH_BEGUN, "emptied"),
        (invalidated, dropping, "emptied"),
        (advanced, Failpoint.READER_LOSS_NOTED, "kept"),
        (advanced, producing, "emptied"),
    ]
    return [pytest.param(*each, id=f"{each[0].__name__}-{each[1]}-{each[2]}") for each in (chosen, every)[TIMES > 1]]


@pytest.mark.parametrize(("lose", "point", "memory"), _deaths())
def test_whatever_it_dies_behind_the_next_start_finishes(fleet: Any, lose: Any, point: Failpoint, memory: str) -> None:
    """With or without what Redis knew of acks and lineage; `produced`: half of the snapshot is in the raw topic."""
    folder = fleet.folder / "failpoints"
    folder.mkdir()
    fleet.variables[VARIABLE] = str(folder)
    begun(fleet)
    gap(fleet)
    lose(fleet)
    (folder / point).write_text("kill 2" if point is Failpoint.READER_PRODUCED else "kill")
    assert fleet.exit_code(fleet.start(RESNAPSHOT), within_seconds=40) == -9
    if memory == "emptied":
        with fleet.redis() as client:
            client.flushall()
    fleet.reader(RESNAPSHOT)
    level(fleet)
    announced = [each for each in epochs(fleet) if each.mode is EpochMode.RESNAPSHOT]
    assert len({each.gap.snapshot for each in announced if each.gap}) == 1


def test_a_slot_that_is_lost_behind_a_running_reader_is_for_its_next_start(fleet: Any) -> None:
    reader = fleet.reader(RESNAPSHOT)
    fleet.sql("INSERT INTO orders (id, note) VALUES (1, 'kept')")
    with psycopg.connect(fleet.dsn, autocommit=True) as connection:
        end = "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = %s"
        connection.execute(end, [fleet.slot])
        wait(lambda: _drops(connection, fleet.slot), 10, "the slot is dropped")
    assert fleet.exit_code(reader) == ExitCode.RETRY
    fleet.reader(RESNAPSHOT)
    level(fleet)


def _drops(connection: psycopg.Connection[Any], slot: str) -> bool:
    try:
        connection.execute("SELECT pg_drop_replication_slot(%s)", [slot])
    except psycopg.errors.ObjectInUse:
        return False
    return True


def test_readiness_says_that_rows_are_owed(fleet: Any) -> None:
    begun(fleet)
    fleet.sql("INSERT INTO orders (id, note) SELECT n, 'row' FROM generate_series(10, 2000) n")
    dropped(fleet)
    port = free_port()
    fleet.reader(RESNAPSHOT, f"reader.http=127.0.0.1:{port}", "snapshot.max_rows_per_second=200")

    def tables() -> dict[str, str]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz") as answer:
                told = json.load(answer)
        except urllib.error.HTTPError as not_yet:
            told = json.load(not_yet)
        return cast(dict[str, str], told["components"]["tables"])

    wait(lambda: tables()["state"] == "degraded", 20, "it says so")
    assert fleet.status().resnapshot in tables()["reason"]
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        told = answer.read().decode()
    assert "tidegate_reader_announced_gaps_total 1.0" in told
    assert "tidegate_reader_resnapshot_flag 1.0" in told
    wait(lambda: tables()["state"] == "up", 60, "all are read")


def test_what_does_not_help_is_not_tried_for_ever(fleet: Any) -> None:
    begun(fleet)
    for _ in range(3):
        dropped(fleet)
        reader = fleet.reader(RESNAPSHOT)
        level(fleet)
        fleet.stop(reader)
    dropped(fleet)
    assert fleet.exit_code(fleet.start(RESNAPSHOT)) == ExitCode.LOST
    assert fleet.status().failure.code == "RESNAPSHOT_TOO_OFTEN"
    assert not fleet.sql("SELECT FROM pg_replication_slots WHERE slot_name = %s", fleet.slot)
    assert fleet.exit_code(fleet.start()) == ExitCode.LOST


def test_a_slot_that_a_person_has_to_make_is_not_made(fleet: Any) -> None:
    begun(fleet)
    invalidated(fleet)
    assert fleet.exit_code(fleet.start(RESNAPSHOT, "source.slot.create=false")) == ExitCode.LOST
    assert fleet.status().failure.code == "SLOT_LOST"
    dropped(fleet)
    gap(fleet)
    fleet.sql("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", fleet.slot)
    fleet.reader(RESNAPSHOT, "source.slot.create=false")
    level(fleet)


def test_a_start_that_finds_no_loss_reads_nothing_again(fleet: Any) -> None:
    begun(fleet)
    fleet.stop(fleet.reader(RESNAPSHOT))
    assert modes(fleet) == [EpochMode.CONTINUE, EpochMode.CONTINUE]
    assert snapshot_marks(fleet.frames()) == []


def test_a_raw_topic_that_goes_with_the_slot_is_begun_with_the_gap(fleet: Any) -> None:
    """The generation is known by the lineage alone."""
    begun(fleet)
    generation = fleet.frames()[0].header.generation
    gap(fleet)
    dropped(fleet)
    administer(fleet.bootstrap, "delete_topics", [fleet.topic])
    fleet.reader(RESNAPSHOT)
    level(fleet)
    assert fleet.frames()[0].header.generation == generation
    assert modes(fleet) == [EpochMode.RESNAPSHOT]


def test_rows_that_may_not_be_read_are_told_before_and_after_and_the_stream_goes_on(fleet: Any) -> None:
    """What a snapshot needs the stream does not: a role that may only replicate."""
    begun(fleet)
    role = f"r_{fleet.name}"
    fleet.sql(f"CREATE ROLE {role} LOGIN REPLICATION PASSWORD 'for-a-trial'")
    try:
        fleet.settings["source"] |= {"user": role, "password": "${env:ROLE_PASSWORD}"}
        fleet.settings["source"]["publication"] = {"manage": False, "names": [fleet.slot]}
        fleet.variables["ROLE_PASSWORD"] = "for-a-trial"
        dropped(fleet)
        fleet.reader(RESNAPSHOT)
        assert "SNAPSHOT_RIGHTS" in fleet.log()
        wait(lambda: "SNAPSHOT_DENIED" in fleet.log(), 20, "it says why nothing is read")
        fleet.sql("INSERT INTO orders (id, note) VALUES (9, 'after')")
        wait(lambda: 9 in orders(fleet), 20, "the stream goes on")
        assert fleet.status().resnapshot
    finally:
        fleet.processes[-1].kill()
        fleet.sql(f"DROP ROLE {role}")


def test_a_slot_that_was_remade_is_announced_though_nobody_remembers_an_ack(fleet: Any) -> None:
    """The raw topic is gone, and of Redis only the lineage is left: by acks alone nothing would be missing."""
    folder = fleet.folder / "failpoints"
    folder.mkdir()
    fleet.variables[VARIABLE] = str(folder)
    begun(fleet)
    generation = fleet.frames()[0].header.generation
    gap(fleet)
    dropped(fleet)
    administer(fleet.bootstrap, "delete_topics", [fleet.topic])
    (folder / Failpoint.READER_SLOT_REMADE).write_text("kill")
    assert fleet.exit_code(fleet.start(RESNAPSHOT)) == -9
    with fleet.redis() as client:
        client.delete(ack_key(fleet.name, generation.id))
    fleet.reader(RESNAPSHOT)
    level(fleet)
    assert modes(fleet) == [EpochMode.RESNAPSHOT]
