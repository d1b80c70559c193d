"""Faults of processes: killed at any moment and at the worst, stopped, frozen, doubled. Each heals what it broke.

Invariant: the load flows while a fault is done to it, unless the fault says otherwise; what a fault waits for has a
deadline, and one that passes is an error of the trial, not of the product.
"""

import os
import random
import shutil
import threading
from contextlib import suppress
from signal import SIGCONT, SIGSTOP

import psycopg
from chaos.fleet.field import CATCH_UP_SECONDS, Fault, Field
from chaos.fleet.keeper import Keeper
from chaos.fleet.kills import Kind, kill
from kit.wait import wait

from tidegate.failpoints import Failpoint
from tidegate.lsn import parse_lsn

FLOW_SECONDS = 30.0
REACH_SECONDS = 60.0


def pause(seconds: float) -> None:
    """A fault that lasts, not a wait for anything."""
    threading.Event().wait(seconds)


def flow(field: Field, draw: random.Random, most: int = 40) -> None:
    field.load.wait_for(draw.randint(1, most), FLOW_SECONDS)


def calm(field: Field, draw: random.Random) -> None:
    """No fault: nothing may come twice, and every value must be right."""
    field.load.wait_for(200, FLOW_SECONDS)


def reader_killed(field: Field, draw: random.Random) -> None:
    flow(field, draw)
    kill(field, Kind.READER)


def reader_storm(field: Field, draw: random.Random) -> None:
    """Also while it comes back."""
    for _ in range(draw.randint(4, 8)):
        pause(draw.uniform(0.3, 3.0))
        kill(field, Kind.READER)


def killed_at(point: Failpoint, *, times: int = 1) -> Fault:
    """At the drawn time that the process comes there. Where only a start leads there, it is started for it."""

    def fault(field: Field, draw: random.Random) -> None:
        flow(field, draw, 10)
        field.rig.arm(point, f"kill {draw.randint(1, times)}")
        if point in (Failpoint.READER_STREAM_STARTED, Failpoint.READER_EPOCH_BEGUN):
            kill(field, Kind.READER)
        elif point in (Failpoint.LANE_STARTING, Failpoint.LANE_FENCED):
            worker_killed(field, draw)
        wait(lambda: not field.rig.is_armed(point), REACH_SECONDS, f"{point} is reached")
        field.kills.add(Kind.READER if point.startswith("reader") else Kind.WORKER)

    return fault


def reader_killed_while_it_stops(field: Field, draw: random.Random) -> None:
    flow(field, draw)
    field.rig.arm(Failpoint.READER_GOODBYE, "kill")
    field.reader.end()
    field.rig.disarm(Failpoint.READER_GOODBYE)
    field.reader.start()


def ack_held_back(field: Field, draw: random.Random) -> None:
    """The lane stands with its events written and not committed: nothing of them may be confirmed."""
    flow(field, draw, 10)
    field.rig.arm(Failpoint.LANE_CURSOR_SENT, "hold")
    pause(4.0)
    field.rig.disarm(Failpoint.LANE_CURSOR_SENT)


def processor_killed(field: Field, draw: random.Random) -> None:
    flow(field, draw)
    kill(field, Kind.DRIVER)


def worker_killed(field: Field, draw: random.Random) -> None:
    flow(field, draw)
    kill(field, Kind.WORKER)


def stopped_in_order(name: str) -> Fault:
    def fault(field: Field, draw: random.Random) -> None:
        flow(field, draw)
        keeper: Keeper = getattr(field, name)
        code = keeper.end()
        assert code == 0, f"the {name} ended with {code} when it was told to stop"
        pause(draw.uniform(0, 1))
        keeper.start()

    return fault


def frozen(name: str) -> Fault:
    """SIGSTOP to all of it, then SIGCONT: a machine that swaps, a VM that is moved."""

    def fault(field: Field, draw: random.Random) -> None:
        flow(field, draw)
        keeper: Keeper = getattr(field, name)
        keeper.freeze()
        pause(draw.uniform(1, 8))
        keeper.thaw()

    return fault


def both_frozen(field: Field, draw: random.Random) -> None:
    """Longer than sessions and transactions live; who wakes first is drawn."""
    flow(field, draw)
    keepers = [field.reader, field.processor]
    for keeper in keepers:
        keeper.freeze()
    pause(draw.uniform(10, 40))
    draw.shuffle(keepers)
    for keeper in keepers:
        keeper.thaw()
        pause(draw.uniform(0, 2))


def sender_terminated(field: Field, draw: random.Random) -> None:
    for _ in range(draw.randint(1, 3)):
        flow(field, draw)
        terminate_sender(field)


def terminate_sender(field: Field) -> None:
    field.rig.sql(
        "SELECT pg_terminate_backend(active_pid)::text FROM pg_replication_slots WHERE slot_name = %s", field.rig.slot
    )


def sender_frozen(field: Field, draw: random.Random) -> None:
    flow(field, draw)
    rows = field.rig.sql("SELECT active_pid::text FROM pg_replication_slots WHERE slot_name = %s", field.rig.slot)
    if rows and rows[0][0]:
        pid = int(rows[0][0])
        with suppress(ProcessLookupError):
            os.kill(pid, SIGSTOP)
        pause(draw.uniform(1, 5))
        with suppress(ProcessLookupError):
            os.kill(pid, SIGCONT)


def reader_doubled(field: Field, draw: random.Random) -> None:
    """The first stands still with frames in its client, somebody frees the slot, a second takes it; the first wakes."""
    flow(field, draw)
    field.reader.freeze()
    second = field.rig.second_reader()
    second.start()
    terminate_sender(field)
    pid = second.pid
    wait(lambda: (found := field.reader_status()) is not None and found.pid == pid, REACH_SECONDS, "the second runs")
    flow(field, draw)
    field.reader.thaw()
    flow(field, draw)
    second.end()


def interleaved(field: Field, draw: random.Random) -> None:
    """A opens, B commits, the reader dies, A commits: the change of A lies before B's in the WAL, and comes after."""
    with psycopg.connect(field.rig.dsn) as first, psycopg.connect(field.rig.dsn, autocommit=True) as second:
        first.execute("INSERT INTO fleeting VALUES (%s, 'A')", [field.own_id()])
        second.execute("INSERT INTO fleeting VALUES (%s, 'B')", [field.own_id()])
        if draw.random() < 0.5:
            field.rig.sql("CHECKPOINT")
        kill(field, Kind.READER)
        if draw.random() < 0.5:
            flow(field, draw, 10)
        first.commit()


def left_open(field: Field, draw: random.Random) -> None:
    """Somebody forgets to commit: what others commit meanwhile arrives and is confirmed, and his comes when he does."""
    with psycopg.connect(field.rig.dsn) as forgetful:
        forgetful.execute("INSERT INTO hostile (id) VALUES (%s)", [field.own_id()])
        flow(field, draw)
        meanwhile = parse_lsn(field.rig.sql("SELECT pg_current_wal_lsn()::text")[0][0])
        reached = "I9: what others commit is confirmed beside an open transaction"
        wait(lambda: field.rig.confirmed() >= meanwhile, CATCH_UP_SECONDS, reached, 0.1)
        kill(field, draw.choice((Kind.READER, Kind.DRIVER)))
        flow(field, draw)
        forgetful.commit()


def checkpoint_lost(field: Field, draw: random.Random) -> None:
    """Spark's own memory of the query goes, while it runs and when it starts again: it is scratch."""
    flow(field, draw)
    for checkpoint in (field.rig.folder / "tmp").glob("tidegate-lane-*"):
        shutil.rmtree(checkpoint, ignore_errors=True)
    flow(field, draw)
    if draw.random() < 0.5:
        kill(field, Kind.DRIVER)


def newest_commit_lost(field: Field, draw: random.Random) -> None:
    """Of Spark's own log: a replay of the newest batch is asked for, and the offsets of one are empty."""
    flow(field, draw)
    for checkpoint in (field.rig.folder / "tmp").glob("tidegate-lane-*"):
        for kept in sorted((checkpoint / "commits").glob("[0-9]*"))[-1:]:
            kept.unlink(missing_ok=True)
        for kept in sorted((checkpoint / "offsets").glob("[0-9]*"))[-1:]:
            kept.write_bytes(b"")
    worker_killed(field, draw)


def giant_transaction(field: Field, draw: random.Random) -> None:
    """Two thousand savepoints, every other one undone, twenty rows each; and a kill while it is delivered."""
    mark = field.own_id()
    with psycopg.connect(field.rig.dsn) as link:
        for number in range(2_000):
            link.execute("SAVEPOINT here")
            made = [f"{mark}.{number}.", number]
            link.execute("INSERT INTO keyless SELECT %s || n, %s FROM generate_series(1, 20) n", made)
            link.execute("ROLLBACK TO here" if number % 2 else "RELEASE here")
    if draw.random() < 0.7:
        pause(draw.uniform(0.1, 1.5))
        kill(field, draw.choice((Kind.READER, Kind.DRIVER)))
