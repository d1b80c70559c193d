"""Snapshots that somebody asks for: started, watched, paused, resumed, cancelled; and what survives."""

import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from kit.snapshots import replica_of, snapshot_marks
from kit.wait import wait

from tidegate.contracts.mark import MarkKind
from tidegate.contracts.names import (
    snapshot_outcome_key,
    snapshot_requests_key,
    snapshot_tables_key,
    snapshots_key,
)
from tidegate.contracts.request import LaneOutcome, Result, decode_outcome
from tidegate.contracts.snapshot_request import Comparison, RowFilter, SnapshotAsked, SnapshotRequest
from tidegate.contracts.snapshot_status import (
    SnapshotState,
    SnapshotStatus,
    decode_snapshot_status,
    decode_table_status,
)

SLOW = "snapshot.max_rows_per_second=2000"
SMALL = ("snapshot.transaction=100ms", "raw_topic.max_frame=4KiB")


def ask(fleet: Any, asked: SnapshotAsked, **more: Any) -> str:
    request = SnapshotRequest(secrets.token_hex(16), asked, "somebody", time.time_ns() // 1000, **more)
    with fleet.redis() as client:
        client.rpush(snapshot_requests_key(fleet.name), request.encode())
    return request.id


def outcome(fleet: Any, request: str) -> LaneOutcome:
    def answered() -> Any:
        with fleet.redis() as client:
            return client.get(snapshot_outcome_key(fleet.name, request))

    return decode_outcome(wait(answered, 30, "the request is answered"))


def status(fleet: Any, snapshot: str) -> SnapshotStatus | None:
    with fleet.redis() as client:
        value = client.hget(snapshots_key(fleet.name), snapshot)
    return decode_snapshot_status(value) if isinstance(value, bytes) else None


def until(fleet: Any, snapshot: str, state: SnapshotState) -> SnapshotStatus:
    def reached() -> SnapshotStatus | None:
        found = status(fleet, snapshot)
        return found if found is not None and found.state is state else None

    return wait(reached, 60, f"it is {state}")


def ids(fleet: Any) -> list[int]:
    return sorted(int(key[0]) for key in replica_of(fleet.valid_records()).named("orders"))


def outcomes(fleet: Any) -> list[object]:
    marks = snapshot_marks(fleet.frames())
    return [mark.details["outcome"] for mark in marks if mark.kind is MarkKind.SNAPSHOT_COMPLETED]


def filled(fleet: Any, rows: int) -> None:
    fleet.sql("INSERT INTO orders (note) SELECT 'row ' || n || repeat(' ', 200) FROM generate_series(1, %s) n", rows)


def test_a_table_is_asked_for_and_its_progress_is_seen(fleet: Any) -> None:
    filled(fleet, 3000)
    fleet.reader()
    request = ask(fleet, SnapshotAsked.START, tables=("public.orders",))
    assert outcome(fleet, request).result is Result.DONE
    done = until(fleet, request, SnapshotState.DONE)
    assert (done.rows, done.tables, done.tables_done, done.percent, done.by) == (3000, 1, 1, 100.0, "somebody")
    with fleet.redis() as client:
        tables = client.hgetall(snapshot_tables_key(fleet.name, request))
    table = decode_table_status(tables[b"public.orders"])
    assert (table.state, table.rows) == (SnapshotState.DONE, 3000)
    assert ids(fleet) == list(range(1, 3001))


def test_only_what_a_filter_lets_through_is_read(fleet: Any) -> None:
    filled(fleet, 300)
    fleet.reader()
    filters = (
        RowFilter("public.orders", "id", Comparison.GREATER, "290"),
        RowFilter("public.orders", "note", Comparison.NOT_EQUAL, "row 295" + " " * 200),
    )
    request = ask(fleet, SnapshotAsked.START, tables=("public.orders",), filters=filters)
    until(fleet, request, SnapshotState.DONE)
    assert ids(fleet) == [291, 292, 293, 294, 296, 297, 298, 299, 300]


def test_what_can_not_be_done_is_refused_or_fails_alone(fleet: Any) -> None:
    filled(fleet, 10)
    fleet.reader()
    unknown = outcome(fleet, ask(fleet, SnapshotAsked.START, tables=("public.other",)))
    assert (unknown.result, unknown.code) == (Result.REFUSED, "SNAPSHOT_UNPUBLISHED")
    none = outcome(fleet, ask(fleet, SnapshotAsked.CANCEL, snapshot="0" * 32))
    assert (none.result, none.code) == (Result.REFUSED, "SNAPSHOT_UNKNOWN")
    wrong = (RowFilter("public.orders", "id", Comparison.EQUAL, "not a number"),)
    request = ask(fleet, SnapshotAsked.START, tables=("public.orders",), filters=wrong)
    assert until(fleet, request, SnapshotState.FAILED).code == "SNAPSHOT_FILTER"
    filled(fleet, 1)
    wait(lambda: fleet.status().changes >= 1, 10, "the stream goes on")


def test_paused_it_waits_also_through_a_restart_and_an_empty_redis(fleet: Any) -> None:
    filled(fleet, 20_000)
    process = fleet.reader(SLOW, *SMALL)
    request = ask(fleet, SnapshotAsked.START)
    wait(lambda: (status(fleet, request) or done_nothing(request)).rows > 0, 30, "some rows are there")
    assert outcome(fleet, ask(fleet, SnapshotAsked.PAUSE, snapshot=request)).result is Result.DONE
    paused = until(fleet, request, SnapshotState.PAUSED)
    assert 0 < paused.rows < 20_000
    again = outcome(fleet, ask(fleet, SnapshotAsked.PAUSE, snapshot=request))
    assert (again.result, again.code) == (Result.REFUSED, "SNAPSHOT_STATE")
    fleet.stop(process)
    with fleet.redis() as client:
        client.delete(snapshots_key(fleet.name))
    fleet.reader(*SMALL)
    assert until(fleet, request, SnapshotState.PAUSED).rows >= paused.rows
    assert outcome(fleet, ask(fleet, SnapshotAsked.RESUME, snapshot=request)).result is Result.DONE
    until(fleet, request, SnapshotState.DONE)
    assert ids(fleet) == list(range(1, 20_001))


def test_cancelled_it_ends_where_it_is(fleet: Any) -> None:
    filled(fleet, 20_000)
    fleet.reader(SLOW, *SMALL)
    request = ask(fleet, SnapshotAsked.START)
    wait(lambda: (status(fleet, request) or done_nothing(request)).rows > 0, 30, "some rows are there")
    assert outcome(fleet, ask(fleet, SnapshotAsked.CANCEL, snapshot=request)).result is Result.DONE
    assert until(fleet, request, SnapshotState.CANCELLED).finished > 0
    wait(lambda: outcomes(fleet) == ["cancelled"], 20, "the log says so")
    assert len(ids(fleet)) < 20_000


def test_the_most_urgent_is_read_first(fleet: Any) -> None:
    fleet.sql("CREATE TABLE small (id int PRIMARY KEY)")
    fleet.sql("INSERT INTO small VALUES (1)")
    fleet.settings["source"]["publication"]["tables"] = ["public.orders", "public.small"]
    filled(fleet, 20_000)
    fleet.reader(SLOW, *SMALL)
    slow = ask(fleet, SnapshotAsked.START, tables=("public.orders",))
    wait(lambda: (status(fleet, slow) or done_nothing(slow)).rows > 0, 30, "some rows are there")
    urgent = ask(fleet, SnapshotAsked.START, tables=("public.small",), priority=10)
    until(fleet, urgent, SnapshotState.DONE)
    unfinished = status(fleet, slow)
    assert unfinished is not None
    assert unfinished.state is SnapshotState.RUNNING


def done_nothing(snapshot: str) -> SnapshotStatus:
    return decode_snapshot_status(
        SnapshotStatus(id=snapshot, kind="requested", state=SnapshotState.WAITING, by="", requested=0).encode()  # type: ignore[arg-type]
    )


def test_cancelled_by_a_reader_that_dies_before_the_log_says_so_it_is_said_by_the_next(fleet: Any) -> None:
    filled(fleet, 20_000)
    process = fleet.reader(SLOW, "snapshot.transaction=10s", "raw_topic.max_frame=4KiB")
    request = ask(fleet, SnapshotAsked.START)
    wait(lambda: snapshot_marks(fleet.frames()), 30, "it has begun")
    assert outcome(fleet, ask(fleet, SnapshotAsked.CANCEL, snapshot=request)).result is Result.DONE
    process.kill()
    fleet.reader()
    wait(lambda: outcomes(fleet) == ["cancelled"], 30, "the log says so")
    until(fleet, request, SnapshotState.CANCELLED)


@pytest.mark.parametrize(
    ("asked", "becomes"),
    [(SnapshotAsked.CANCEL, SnapshotState.CANCELLED), (SnapshotAsked.PAUSE, SnapshotState.PAUSED)],
)
def test_what_is_asked_while_its_tables_are_looked_at_stays_so(
    fleet: Any, asked: SnapshotAsked, becomes: SnapshotState
) -> None:
    """The first look at a thousand tables takes a while."""
    filled(fleet, 20_000)
    fleet.reader(SLOW, *SMALL)
    first, second = (ask(fleet, SnapshotAsked.START) for _ in range(2))
    assert outcome(fleet, second).result is Result.DONE
    wait(lambda: (status(fleet, first) or done_nothing(first)).rows > 0, 30, "some rows are there")
    with locked(fleet, "pg_catalog.pg_inherits") as is_waited_for:
        ask(fleet, SnapshotAsked.CANCEL, snapshot=first)
        wait(is_waited_for, 30, "the next one looks at its tables")
        assert outcome(fleet, ask(fleet, asked, snapshot=second)).result is Result.DONE
    assert until(fleet, second, becomes).rows == 0
    if asked is SnapshotAsked.PAUSE:
        assert outcome(fleet, ask(fleet, SnapshotAsked.RESUME, snapshot=second)).result is Result.DONE
        wait(lambda: (status(fleet, second) or done_nothing(second)).rows > 0, 30, "it goes on")
    else:
        third = ask(fleet, SnapshotAsked.START)
        wait(lambda: (status(fleet, third) or done_nothing(third)).rows > 0, 30, "the next one has its turn")
        assert until(fleet, second, becomes).rows == 0


@contextmanager
def locked(fleet: Any, table: str) -> Iterator[Callable[[], bool]]:
    """So that nobody can read it; and whether somebody wants to."""
    waiting = f"SELECT count(*) FROM pg_locks WHERE relation = '{table}'::regclass AND NOT granted"
    with psycopg.connect(fleet.dsn) as holder:
        holder.execute(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE")
        yield lambda: bool(holder.execute(waiting).fetchall()[0][0])
        holder.rollback()


def test_what_is_no_request_is_answered_too(fleet: Any) -> None:
    filled(fleet, 10)
    fleet.reader()
    filters = (RowFilter("public.orders", "id", Comparison.EQUAL, "1"),)
    bodies: list[dict[str, Any]] = [{"tables": ("orders",)}, {"filters": filters}]
    refused = [outcome(fleet, ask(fleet, SnapshotAsked.START, **each)) for each in bodies]
    assert {(each.result, each.code) for each in refused} == {(Result.REFUSED, "SNAPSHOT_REQUEST_MALFORMED")}
