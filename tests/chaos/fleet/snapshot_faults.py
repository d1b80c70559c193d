"""Snapshots asked for while the load flows: paused, resumed, cancelled, overtaken at any time, whoever dies meanwhile.

Invariant: what is asked for is answered, and each snapshot is over when the fault is: read to its end, or cancelled by
it. Which rows have to arrive then is told to the field; the judge looks whether they did, and as what.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass

from chaos.fleet.asking import Asking
from chaos.fleet.faults import REACH_SECONDS, flow, pause
from chaos.fleet.field import PATIENCE, Field
from chaos.fleet.kills import Kind, kill, kill_and_start
from chaos.fleet.mirror import Row
from chaos.fleet.rows import Read
from chaos.fleet.tables import Number
from kit.wait import wait

from tidegate.contracts.snapshot_request import Comparison, RowFilter, SnapshotAsked, join_table
from tidegate.contracts.snapshot_status import SnapshotState

_MOST = 3
_OVER_SECONDS = 90.0 * PATIENCE
_STRETCH = 3_000
"""Of the ids of one writer: the tables grow from trial to trial, and what is read of them should not."""
_SMALL = ("accounts", "Odd Näme.x", "shaped", "fleeting", "parted", "sentinel")
_BY_ID = ("orders", "hostile")


@dataclass(slots=True)
class Asked:
    id: str
    reads: list[Read]
    is_cancelled: bool = False


def toyed_with(field: Field, draw: random.Random) -> None:
    """One snapshot, later perhaps others, and a few things done to them, or to those who take them."""
    asking = Asking(field.redis, field.pipeline, REACH_SECONDS * PATIENCE)
    asked = [_start(field, asking, draw)]
    for _ in range(draw.randint(1, 5)):
        pause(draw.uniform(0.0, 1.2))
        _do_something(field, asking, asked, draw)
    for each in asked:
        _see_the_end(field, asking, each)


def read_while_all_dies(field: Field, draw: random.Random) -> None:
    """Nobody asks for anything more, but whoever takes part in it is killed."""
    asking = Asking(field.redis, field.pipeline, REACH_SECONDS * PATIENCE)
    asked = _start(field, asking, draw)
    for _ in range(draw.randint(1, 3)):
        pause(draw.uniform(0.0, 1.0))
        draw.choice((_kill_reader, _kill_worker, reading_terminated, _crash_source))(field)
    _see_the_end(field, asking, asked)


def _do_something(field: Field, asking: Asking, asked: list[Asked], draw: random.Random) -> None:
    one = draw.choice(asked)
    match draw.choices(range(6), (4, 3, 1, 2, 1, 1))[0]:
        case 0:
            asking.ask(one.id, SnapshotAsked.PAUSE)
        case 1:
            asking.ask(one.id, SnapshotAsked.RESUME)
        case 2:
            one.is_cancelled |= asking.ask(one.id, SnapshotAsked.CANCEL)
        case 3 if len(asked) < _MOST:
            asked.append(_start(field, asking, draw))
        case 4:
            _kill_reader(field)
        case _:
            reading_terminated(field)


def _start(field: Field, asking: Asking, draw: random.Random) -> Asked:
    tables = draw.sample((*_SMALL, *_BY_ID, "keyless"), draw.randint(1, 4))
    filters: list[RowFilter] = []
    reads = []
    for table in tables:
        more, is_asked_for = _part_of(field, table, draw)
        filters += more
        reads.append(Read(table, is_asked_for))
    named = [join_table("public", table) for table in tables]
    return Asked(asking.start(named, filters, priority=draw.randint(0, 2)), reads)


def _part_of(field: Field, table: str, draw: random.Random) -> tuple[list[RowFilter], Callable[[Row], bool]]:
    if table == "keyless":
        n = str(draw.randrange(100))
        return [RowFilter("public.keyless", "n", Comparison.EQUAL, n)], lambda row: row["n"][0] == n
    if table not in _BY_ID:
        return [], lambda _row: True
    rows = field.rig.sql(f"SELECT id::text FROM {table} ORDER BY id")
    first = int(draw.choice(rows)[0]) if rows else 0
    name = f"public.{table}"
    between = [
        RowFilter(name, "id", Comparison.GREATER_OR_EQUAL, str(first)),
        RowFilter(name, "id", Comparison.LESS, str(first + _STRETCH)),
    ]
    return between, lambda row: isinstance(row["id"], Number) and first <= int(row["id"].digits) < first + _STRETCH


def _see_the_end(field: Field, asking: Asking, asked: Asked) -> None:
    """Somebody resumes what is paused."""

    def is_over() -> SnapshotState | None:
        status = asking.status(asked.id)
        if status is not None and status.state is SnapshotState.PAUSED:
            asking.ask(asked.id, SnapshotAsked.RESUME)
        return asking.is_over(asked.id)

    state = wait(is_over, _OVER_SECONDS, "I7: the snapshot comes to its end", 0.2)
    wanted = SnapshotState.CANCELLED if asked.is_cancelled else SnapshotState.DONE
    assert state is wanted, f"I7: a snapshot that should be {wanted} is {state}"
    field.reads += asked.reads if state is SnapshotState.DONE else []


def _kill_reader(field: Field) -> None:
    kill(field, Kind.READER)


def _kill_worker(field: Field) -> None:
    kill(field, Kind.WORKER)


def reading_terminated(field: Field) -> None:
    """Every connection that reads rows, and the one that holds the exported snapshot."""
    field.rig.sql(
        "SELECT pg_terminate_backend(pid)::text FROM pg_stat_activity WHERE application_name = %s",
        f"tidegate {field.pipeline} snapshot",
    )


def _crash_source(field: Field) -> None:
    kill_and_start(field, Kind.POSTGRES)


def read_in_calm(field: Field, draw: random.Random) -> None:
    """No fault but the load: for whoever plants bugs, and for many trials in little time."""
    asking = Asking(field.redis, field.pipeline, REACH_SECONDS * PATIENCE)
    flow(field, draw)
    _see_the_end(field, asking, _start(field, asking, draw))
