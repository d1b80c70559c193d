"""What is asked about snapshots through the API, and how far they are told to be; the reader is played by the test."""

import json
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest
from kit.admin_process import AdminPlace
from kit.wait import wait

from tidegate.clock import unix_microseconds
from tidegate.contracts import names
from tidegate.contracts.request import LaneOutcome, Result
from tidegate.contracts.snapshot_request import Comparison, SnapshotAsked, SnapshotRequest, decode_snapshot_request
from tidegate.contracts.snapshot_status import SnapshotKind, SnapshotState, SnapshotStatus, TableStatus
from tidegate_admin.security.scopes import Scope


@pytest.fixture(scope="module")
def client(place: AdminPlace) -> httpx.Client:
    return place.client(Scope.READ, Scope.OPERATE)


@pytest.fixture
def path(place: AdminPlace) -> Iterator[str]:
    yield f"{place.base}/snapshots"
    place.redis.delete(names.snapshot_requests_key(place.config.pipeline), names.snapshots_key(place.config.pipeline))


def waiting(place: AdminPlace) -> SnapshotRequest | None:
    value = place.redis.lindex(names.snapshot_requests_key(place.config.pipeline), 0)
    return decode_snapshot_request(value) if isinstance(value, bytes) else None


def answer(place: AdminPlace, request: SnapshotRequest, outcome: LaneOutcome) -> None:
    pipeline = place.config.pipeline
    with place.redis.pipeline(transaction=True) as together:
        together.set(names.snapshot_outcome_key(pipeline, request.id), outcome.encode())
        together.lpop(names.snapshot_requests_key(pipeline))
        together.execute()


def tell(place: AdminPlace, snapshot: str, state: SnapshotState, **more: object) -> None:
    now = unix_microseconds()
    told: dict[str, object] = {"by": "test", "requested": now, "time": now, "tables": 2}
    status = SnapshotStatus(id=snapshot, kind=SnapshotKind.REQUESTED, state=state, **(told | more))  # type: ignore[arg-type]
    place.redis.hset(names.snapshots_key(place.config.pipeline), snapshot, status.encode())


def test_one_is_asked_for_once_with_its_tables_and_filters(place: AdminPlace, client, path: str) -> None:
    key = {"Idempotency-Key": uuid.uuid4().hex}
    condition = {"table": "public.orders", "column": "id", "comparison": ">=", "value": "1000"}
    body = {"tables": ["public.orders"], "filters": [condition], "priority": 5}
    first, second = (client.post(path, json=body, headers=key) for _ in range(2))

    request = wait(lambda: waiting(place), 10, "the request")
    before = client.get(f"{path}/requests/{request.id}").json()["result"]
    answer(place, request, LaneOutcome(request.id, Result.DONE, 1))

    assert (first.status_code, first.json(), before) == (202, second.json(), "waiting")
    assert first.json() == {"id": request.id, "asked": "start", "snapshot": request.id}
    assert (request.asked, request.tables, request.priority) == (SnapshotAsked.START, ("public.orders",), 5)
    assert [(each.column, each.comparison, each.value) for each in request.filters] == [
        ("id", Comparison.GREATER_OR_EQUAL, "1000")
    ]
    assert client.get(f"{path}/requests/{request.id}").json()["result"] == "done"
    assert waiting(place) is None


@pytest.mark.parametrize(
    "body",
    [
        {"filters": [{"table": "a.b", "column": "c", "comparison": "is null", "value": "1"}]},
        {"filters": [{"table": "a.b", "column": "c", "comparison": "="}]},
        {"filters": [{"table": "a.b", "column": "c", "comparison": "; DROP TABLE", "value": "1"}]},
        {"tables": ["a.b"], "filters": [{"table": "a.c", "column": "c", "comparison": "=", "value": "1"}]},
        {"filters": [{"table": "a.b", "column": "c", "comparison": "=", "value": "1"}]},
        {"tables": ["orders"]},
        {"tables": ["a.b.c"]},
        {"tables": ["a.b"], "filters": [{"table": "b", "column": "c", "comparison": "=", "value": "1"}]},
        {"priority": 101},
        {"everything": True},
    ],
)
def test_what_is_no_request_is_refused(place: AdminPlace, client, path: str, body: object) -> None:
    assert client.post(path, json=body).status_code == 422
    assert waiting(place) is None


def test_they_are_listed_with_their_progress_and_shown_by_table(place: AdminPlace, client, path: str) -> None:
    old, new = uuid.uuid4().hex, uuid.uuid4().hex
    tell(place, old, SnapshotState.DONE, requested=1, percent=100.0)
    tell(place, new, SnapshotState.RUNNING, percent=41.5, rows=830, seconds_left=12.0)
    table = TableStatus(schema="public", table="orders", state=SnapshotState.RUNNING, rows=830, percent=41.5)
    place.redis.hset(names.snapshot_tables_key(place.config.pipeline, new), "public.orders", table.encode())
    place.redis.hset(names.snapshots_key(place.config.pipeline), "f" * 32, b"no status")

    first = client.get(path, params={"limit": 1}).json()
    second = client.get(path, params={"limit": 1, "cursor": first["next_cursor"]}).json()
    shown = client.get(f"{path}/{new}").json()

    assert [each["id"] for each in first["items"] + second["items"]] == [new, old]
    assert (shown["percent"], shown["rows"], shown["seconds_left"], shown["is_stale"]) == (41.5, 830, 12.0, False)
    assert [(each["table"], each["rows"]) for each in shown["by_table"]] == [("public.orders", 830)]
    assert client.get(f"{path}/{'0' * 32}").json()["code"] == "SNAPSHOT_UNKNOWN"


def test_one_that_is_over_takes_no_request(place: AdminPlace, client, path: str) -> None:
    done, running = uuid.uuid4().hex, uuid.uuid4().hex
    tell(place, done, SnapshotState.DONE)
    tell(place, running, SnapshotState.RUNNING)
    refused = client.post(f"{path}/{done}/cancel")
    taken = client.post(f"{path}/{running}/pause")
    request = wait(lambda: waiting(place), 10, "the request")
    assert (refused.status_code, refused.json()["code"]) == (409, "SNAPSHOT_OVER")
    assert (taken.status_code, request.asked, request.snapshot) == (202, SnapshotAsked.PAUSE, running)


def test_one_that_has_failed_is_resumed_and_not_ended_again(place: AdminPlace, client, path: str) -> None:
    failed = uuid.uuid4().hex
    tell(place, failed, SnapshotState.FAILED, code="SNAPSHOT_TABLE_GONE", message="a table is gone", remedy="Look.")
    assert client.get(f"{path}/{failed}").json()["code"] == "SNAPSHOT_TABLE_GONE"
    assert client.post(f"{path}/{failed}/cancel").json()["code"] == "SNAPSHOT_OVER"
    assert client.post(f"{path}/{failed}/resume").status_code == 202
    assert wait(lambda: waiting(place), 10, "the request").asked is SnapshotAsked.RESUME


def test_requests_that_nobody_takes_do_not_pile_up(client, path: str) -> None:
    answers = [client.post(path, json={}) for _ in range(17)]
    assert [each.status_code for each in answers] == [202] * 16 + [503]
    assert answers[-1].json()["code"] == "SNAPSHOT_REQUESTS_WAITING"


@contextmanager
def reader(place: AdminPlace, *states: SnapshotState) -> Iterator[list[SnapshotRequest]]:
    """Takes one request and then says, one after the other, that the snapshot is in these states."""
    seen: list[SnapshotRequest] = []

    def serve() -> None:
        request = wait(lambda: waiting(place), 30, "a command's request")
        seen.append(request)
        for state in states:
            tell(place, request.snapshot or request.id, state, percent=100.0)
        answer(place, request, LaneOutcome(request.id, Result.DONE, 1))

    thread = threading.Thread(target=serve)
    thread.start()
    yield seen
    thread.join(30)


def test_the_commands(place: AdminPlace, client, path: str) -> None:
    with reader(place, SnapshotState.DONE) as started:
        done = place.command("snapshot", "start", "public.orders", "--where", "public.orders: id < 7", "--follow")
    running = uuid.uuid4().hex
    tell(place, running, SnapshotState.RUNNING)
    with reader(place, SnapshotState.CANCELLED) as cancelled:
        ended = place.command("snapshot", "cancel", running, "--yes", "--json")
    listed = place.command("snapshot", "list", "--json")
    wrong = place.command("snapshot", "start", "--where", "anything")

    assert (done.returncode, "done" in done.stdout) == (0, True), done.stderr
    assert [(each.table, each.column, each.value) for each in started[0].filters] == [("public.orders", "id", "7")]
    assert (ended.returncode, json.loads(ended.stdout)["result"]) == (0, "done"), ended.stderr
    assert cancelled[0].asked is SnapshotAsked.CANCEL
    assert running in {each["id"] for each in json.loads(listed.stdout)["items"]}
    assert (wrong.returncode, "SNAPSHOT_FILTER" in wrong.stderr) == (2, True)
