"""Slots of a real server: whose they are, what may be done to them, and what is refused."""

import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import httpx
import psycopg
import pytest
from kit.admin_process import AdminPlace
from kit.wait import wait

from tidegate_admin.security.scopes import Scope

DROP = "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = %s"


@pytest.fixture
def client(place: AdminPlace) -> httpx.Client:
    return place.client()


@pytest.fixture
def slots(place: AdminPlace) -> str:
    return f"{place.base}/slots"


@contextmanager
def made(place: AdminPlace, name: str, plugin: str = "pgoutput") -> Iterator[str]:
    place.source.execute("SELECT pg_create_logical_replication_slot(%s, %s)", [name, plugin])
    try:
        yield name
    finally:
        place.source.execute(DROP, [name])


def replication_connection(place: AdminPlace) -> psycopg.pq.PGconn:
    dsn = f"{place.source.info.dsn} password={place.source.info.password} replication=database"
    return psycopg.pq.PGconn.connect(dsn.encode())


@contextmanager
def held(place: AdminPlace, name: str) -> Iterator[None]:
    """By a replication connection, as a reader holds it."""
    reader = replication_connection(place)
    reader.exec_(f"START_REPLICATION SLOT {name} LOGICAL 0/0 (proto_version '1', publication_names 'mine')".encode())
    active = "SELECT count(*) FROM pg_replication_slots WHERE slot_name = %s AND active"
    wait(lambda: place.source.execute(active, [name]).fetchone() == (1,), 10, "the slot is held")
    try:
        yield
    finally:
        reader.finish()
        wait(lambda: place.source.execute(active, [name]).fetchone() == (0,), 10, "the slot is let go")


def test_own_orphan_and_foreign_slots_are_told_apart(place: AdminPlace, client, slots) -> None:
    own, orphan, foreign = place.config.source.slot.name, f"tidegate_{place.config.pipeline}_old", "another"
    with made(place, own), made(place, orphan), made(place, foreign):
        whose = {each["name"]: each["whose"] for each in client.get(slots).json()["items"]}
        shown = client.get(f"{slots}/{own}").json()
    assert (whose[own], whose[orphan], whose[foreign]) == ("own", "orphan", "foreign")
    assert shown["pipeline"] == place.config.pipeline
    assert (shown["wal_status"], shown["active"], shown["holder"]) == ("reserved", False, None)
    assert "/" in shown["restart_lsn"]
    assert shown["wal_held_bytes"] >= 0


def test_the_pipelines_own_slot_is_created_once_and_dropped(place: AdminPlace, client, slots) -> None:
    own = place.config.source.slot.name
    created, again = client.post(slots), client.post(slots)
    assert (created.status_code, created.json()["name"]) == (201, own)
    assert (again.status_code, again.json()["code"]) == (409, "SOURCE_EXISTS")
    dropped = client.post(f"{slots}/{own}/drop", json={"confirm": own})
    assert (dropped.status_code, dropped.json()["done"]) == (200, "dropped")
    assert client.get(f"{slots}/{own}").status_code == 404


def test_a_slot_is_dropped_only_by_its_name_typed_again(place: AdminPlace, client, slots) -> None:
    own = place.config.source.slot.name
    with made(place, own):
        for body in ({}, {"confirm": "yes"}, {"confirm": own.upper()}, {"confirm": own, "force": True}):
            assert client.post(f"{slots}/{own}/drop", json=body).status_code == 422
        assert client.get(f"{slots}/{own}").status_code == 200


def test_a_slot_that_is_held_is_never_touched(place: AdminPlace, client, slots) -> None:
    own = place.config.source.slot.name
    with made(place, own), held(place, own):
        shown = client.get(f"{slots}/{own}").json()
        drop = client.post(f"{slots}/{own}/drop", json={"confirm": own})
        body = {"to": "FFFFFFFF/0", "confirm": own, "accept_loss": True}
        advance = client.post(f"{slots}/{own}/advance", json=body)
        still = client.get(f"{slots}/{own}").json()
    assert (shown["active"], shown["holder"]["pid"] > 0) == (True, True)
    assert [(each.status_code, each.json()["code"]) for each in (drop, advance)] == [(409, "SLOT_ACTIVE")] * 2
    assert still["confirmed_flush_lsn"] == shown["confirmed_flush_lsn"]


def test_somebody_elses_slot_is_never_touched(place: AdminPlace, client, slots) -> None:
    with made(place, "another"):
        drop = client.post(f"{slots}/another/drop", json={"confirm": "another"})
        assert (drop.status_code, drop.json()["code"]) == (409, "SLOT_FOREIGN")
        assert client.get(f"{slots}/another").status_code == 200


def test_an_advance_beyond_the_acks_takes_a_word_of_its_own(place: AdminPlace, client, slots) -> None:
    own = place.config.source.slot.name
    with made(place, own):
        place.source.execute("SET synchronous_commit = on")
        place.source.execute("INSERT INTO orders SELECT coalesce(max(id), 0) + 1, 'x' FROM orders")
        (now,) = place.source.execute("SELECT pg_current_wal_flush_lsn()::text").fetchone()  # type: ignore[misc]
        refused = client.post(f"{slots}/{own}/advance", json={"to": now, "confirm": own})
        done = client.post(f"{slots}/{own}/advance", json={"to": now, "confirm": own, "accept_loss": True})
        back = client.post(f"{slots}/{own}/advance", json={"to": "0/1", "confirm": own, "accept_loss": True})
    assert (refused.status_code, refused.json()["code"]) == (409, "SLOT_ADVANCE_LOSES")
    assert (done.status_code, done.json().get("done", done.text)) == (200, "advanced")
    assert (back.status_code, back.json()["code"]) == (409, "SLOT_ADVANCE_BACK")


@pytest.mark.parametrize(
    "slot", ["x'; DROP TABLE orders; --", 'a"b', "A", "a" * 64, "a%00b", "é", "..", "%2e%2e", "a b", "-", "a;b"]
)
def test_a_name_that_no_slot_can_have_never_reaches_the_server(client, slots, slot: str) -> None:
    answers = [client.get(f"{slots}/{slot}"), client.post(f"{slots}/{slot}/drop", json={"confirm": slot})]
    assert all(answer.status_code in (200, 404, 405, 422) for answer in answers)
    assert not any("SOURCE" in answer.text for answer in answers)


RACES = 50


def test_created_and_dropped_by_fifty_at_once_the_server_settles_each(place: AdminPlace, slots) -> None:
    """One way or the other: nothing in between, and no failure of ours."""
    own, clients = place.config.source.slot.name, [place.client() for _ in range(5)]
    codes: Counter[int] = Counter()
    barrier = threading.Barrier(RACES)

    def race(number: int) -> None:
        path, body = (slots, None) if number % 2 else (f"{slots}/{own}/drop", {"confirm": own})
        barrier.wait(30)
        codes[clients[number % 5].post(path, json=body).status_code] += 1

    with ThreadPoolExecutor(RACES) as pool:
        list(pool.map(race, range(RACES)))
    place.source.execute(DROP, [own])
    assert sum(codes.values()) == RACES
    assert set(codes) <= {200, 201, 404, 409}
    assert codes[201] >= 1
    assert codes[201] - codes[200] in (0, 1)


def test_a_drop_and_a_reader_that_starts_fifty_times_at_once(place: AdminPlace, slots) -> None:
    """Whoever comes first has it: a slot that is held is never dropped, and a dropped one never held."""
    own, clients = place.config.source.slot.name, [place.client() for _ in range(5)]
    ends = Counter(_race(place, slots, clients[number % 5]) for number in range(RACES))
    assert set(ends) <= {(200, False), (409, True)}, "dropped and not held, or held and not dropped"
    assert place.source.execute("SELECT 1 FROM pg_replication_slots WHERE slot_name = %s", [own]).fetchone() is None


def _race(place: AdminPlace, slots: str, client: httpx.Client) -> tuple[int, bool]:
    """What the drop was answered, and whether the reader has the slot; then it is gone in any case."""
    own, barrier = place.config.source.slot.name, threading.Barrier(2)
    reader = replication_connection(place)
    start = f"START_REPLICATION SLOT {own} LOGICAL 0/0 (proto_version '1', publication_names 'mine')"

    def hold() -> bool:
        barrier.wait(10)
        return reader.exec_(start.encode()).status == psycopg.pq.ExecStatus.COPY_BOTH

    def drop() -> int:
        barrier.wait(10)
        return client.post(f"{slots}/{own}/drop", json={"confirm": own}).status_code

    active = "SELECT count(*) FROM pg_replication_slots WHERE slot_name = %s AND active"
    with made(place, own), ThreadPoolExecutor(2) as pool:
        dropped, is_held = pool.submit(drop), pool.submit(hold)
        end = dropped.result(), is_held.result()
        reader.finish()
        wait(lambda: place.source.execute(active, [own]).fetchone() == (0,), 10, "the slot is let go")
    return end


def test_each_change_is_in_the_log_and_in_the_list_of_changes(place: AdminPlace, client, slots) -> None:
    """With who, what and how it ended; also what was refused."""
    client.post(f"{slots}/another_one/drop", json={"confirm": "another_one"})
    entry = client.get(f"{place.base}/changes").json()["items"][0]
    assert (entry["operation"], entry["status"], entry["caller"]) == ("dropSlot", 404, "test")
    assert "another_one/drop" in entry["path"]
    assert "change_asked" in place.process.log()


def test_destroying_takes_its_own_scope(place: AdminPlace, slots) -> None:
    weaker = place.client(Scope.READ, Scope.DATA, Scope.OPERATE)
    with made(place, "tidegate_safe"):
        answer = weaker.post(f"{slots}/tidegate_safe/drop", json={"confirm": "tidegate_safe"})
        assert (answer.status_code, answer.json()["code"]) == (403, "SCOPE_MISSING")
        assert weaker.get(f"{slots}/tidegate_safe").status_code == 200
