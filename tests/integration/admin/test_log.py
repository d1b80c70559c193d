"""Frames, where a change is held, searches and the live stream, on a raw topic as a reader writes it."""

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass

import httpx
import pytest
from kit.admin_process import AdminPlace
from kit.frames import ORDERS, RawLog, row
from kit.topics import append
from kit.wait import wait

from tidegate.clock import unix_microseconds
from tidegate.contracts import names
from tidegate.contracts.ack import Ack
from tidegate.contracts.status import LaneStatus, ReaderStatus, State
from tidegate.lsn import Lsn, format_lsn, parse_lsn
from tidegate.pgoutput.messages import Delete, OldKind, Update
from tidegate.position import Position
from tidegate_admin.security.scopes import Scope


@dataclass
class Topic:
    place: AdminPlace
    log: RawLog
    written: int = 0

    def write(self) -> int:
        """The offset of the newest frame."""
        append(self.place.bootstrap, self.place.config.raw_topic.name, self.log.frames[self.written :])
        self.written = len(self.log.frames)
        return self.written - 1


@pytest.fixture(scope="module")
def topic(place: AdminPlace) -> Topic:
    """At the source's own LSNs, so that positions and slots compare."""
    made = Topic(place, RawLog())
    made.log.safe_lsn = current_lsn(place)
    made.log.epoch()
    for number in range(40):
        made.log.transaction(row(number, f"note {number}"))
    made.log.split_transaction([row(100), row(101)], [row(102)])
    made.log.tick()
    made.write()
    return made


@pytest.fixture(scope="module")
def client(place: AdminPlace) -> httpx.Client:
    return place.client()


def current_lsn(place: AdminPlace) -> Lsn:
    found = place.source.execute("SELECT pg_current_wal_flush_lsn()::text").fetchone()
    assert found is not None
    return parse_lsn(found[0])


def test_a_frame_is_shown_decoded(place: AdminPlace, client, topic: Topic) -> None:
    frame = client.get(f"{place.base}/frames/3").json()
    [change] = frame["rows"]
    assert (frame["offset"], frame["kind"], frame["epoch"], frame["is_void"]) == (3, "wal", 1, False)
    assert (change["channel"], change["operation"]) == ("public.orders", "INSERT")
    assert change["row"] == {"id": "2", "note": "note 2"}
    assert client.get(f"{place.base}/frames/0").json()["said"]["mode"] == "continue"


def test_whoever_may_read_states_may_not_read_rows(place: AdminPlace, topic: Topic) -> None:
    reading = place.client(Scope.READ, Scope.OPERATE, Scope.DESTROY)
    headers = reading.get(f"{place.base}/frames", params={"offset": 3})
    assert headers.status_code == 200
    assert "note 2" not in headers.text
    assert reading.get(f"{place.base}/frames/3").status_code == 403
    assert reading.get(f"{place.base}/events").status_code == 403
    assert reading.post(f"{place.base}/searches", json={"table": "a.b", "key": {"x": "1"}}).status_code == 403


def test_frames_are_found_by_lsn_and_by_transaction(place: AdminPlace, client, topic: Topic) -> None:
    by_offset = client.get(f"{place.base}/frames", params={"offset": 7, "limit": 1}).json()["items"][0]
    lsn = by_offset["last"].partition("#")[0]
    by_lsn = client.get(f"{place.base}/frames", params={"lsn": lsn, "limit": 1}).json()["items"][0]
    by_xid = client.get(f"{place.base}/frames", params={"xid": 700, "limit": 1}).json()["items"][0]
    none = client.get(f"{place.base}/frames", params={"lsn": "FFFFFFFF/0"}).json()
    assert by_lsn["offset"] == 7
    assert by_xid["kind"] == "wal"
    assert none["items"] == []


@pytest.mark.parametrize("path", ["frames/999999", "frames/-1", "frames/x", "frames?lsn=1", "frames?lsn=0x0/1"])
def test_an_absurd_place_is_refused(place: AdminPlace, client, topic: Topic, path: str) -> None:
    assert client.get(f"{place.base}/{path}").status_code in (404, 422)


def test_frames_come_in_pages(place: AdminPlace, client, topic: Topic) -> None:
    first = client.get(f"{place.base}/frames", params={"offset": 0, "limit": 30}).json()
    asked = {"cursor": first["next_cursor"], "limit": 100}
    second = client.get(f"{place.base}/frames", params=asked).json()
    offsets = [each["offset"] for each in first["items"] + second["items"]]
    assert offsets == list(range(len(offsets)))
    assert second["next_cursor"] is None


def held(place: AdminPlace, client: httpx.Client, lsn: str) -> tuple[str, str | None]:
    found = client.get(f"{place.base}/where-is", params={"lsn": lsn}).json()
    return found["stage"], found["held_by"]


def stage_is(place: AdminPlace, client: httpx.Client, lsn: str, stage: str, by: str | None = None) -> None:
    """The service looks once a second."""
    wait(lambda: held(place, client, lsn) == (stage, by), 10, f"{stage}: {held(place, client, lsn)}")


def test_where_is_names_each_stage_in_turn(place: AdminPlace, client, topic: Topic) -> None:
    """WAL, then the lane, then the slot: each blocked until it is let go."""
    slot, sink = place.config.source.slot.name, place.config.sinks[0].name
    place.source.execute("SET synchronous_commit = on")
    place.source.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", [slot])
    try:
        place.source.execute("INSERT INTO orders SELECT coalesce(max(id), 0) + 1 FROM orders")
        topic.log.safe_lsn = max(current_lsn(place), topic.log.safe_lsn)
        commit = format_lsn(topic.log.safe_lsn + 0x10)
        while current_lsn(place) <= topic.log.safe_lsn + 0x10:
            place.source.execute("INSERT INTO orders SELECT coalesce(max(id), 0) + 1 FROM orders")
        report(place, topic, produced=0)
        stage_is(place, client, "FFFFFFF/0", "unwritten")
        stage_is(place, client, commit, "wal")
        topic.log.transaction(row(500))
        offset = topic.write()
        stage_is(place, client, commit, "lane", sink)
        found = client.get(f"{place.base}/where-is", params={"lsn": commit}).json()
        assert found["raw"]["offset"] == offset
        acknowledge(place, topic, offset)
        stage_is(place, client, commit, "slot")
        end = max(topic.log.safe_lsn, current_lsn(place))
        place.source.execute("INSERT INTO orders SELECT coalesce(max(id), 0) + 1 FROM orders")
        place.source.execute("SELECT pg_replication_slot_advance(%s, %s::pg_lsn)", [slot, format_lsn(end)])
        stage_is(place, client, commit, "confirmed")
    finally:
        place.source.execute("SELECT pg_drop_replication_slot(%s)", [slot])


def report(place: AdminPlace, topic: Topic, produced: int) -> None:
    now, pipeline, generation = unix_microseconds(), place.config.pipeline, topic.log.generation.id
    common = {"pipeline": pipeline, "state": State.RUNNING, "pid": 1, "time": now, "started": now}
    reader = ReaderStatus(**common, generation=generation, epoch=1, produced_lsn=produced)
    lane = LaneStatus(**common, sink=place.config.sinks[0].name, incarnation=1, generation=generation)
    place.redis.set(names.reader_status_key(pipeline), reader.encode())
    place.redis.set(names.lane_status_key(pipeline, lane.sink), lane.encode())


def acknowledge(place: AdminPlace, topic: Topic, offset: int) -> None:
    sink, generation = place.config.sinks[0].name, topic.log.generation.id
    position = Position(topic.log.position.commit_lsn, topic.log.position.ordinal)
    ack = Ack(sink, generation, 1, "topic", offset, position, topic.log.safe_lsn, unix_microseconds())
    place.redis.hset(names.ack_key(place.config.pipeline, generation), sink, ack.encode())


def test_a_rows_changes_are_found_by_its_key(place: AdminPlace, client, topic: Topic) -> None:
    """An update that changed the key is found by both; what was searched for stands nowhere."""
    keyed = ORDERS.relation_id
    topic.log.transaction(row(4711, "first"))
    topic.log.transaction(Update(keyed, OldKind.KEY, (b"4711", None), (b"4712", b"second")))
    topic.log.transaction(Delete(keyed, OldKind.KEY, (b"4712", None)))
    last = topic.write()
    body = {"table": "public.orders", "key": {"id": "4712"}}
    started = client.post(f"{place.base}/searches", json=body)
    assert started.status_code == 202
    job = f"{place.base}/searches/{started.json()['id']}"
    wait(lambda: client.get(job).json()["state"] == "done", 20, "the search ends")
    found = client.get(job).json()
    assert [(each["offset"], each["operation"]) for each in found["matches"]] == [
        (last - 1, "UPDATE"),
        (last, "DELETE"),
    ]
    assert found["progress"] == 1
    assert "4712" not in place.process.log()
    assert client.delete(job).status_code == 204
    assert client.get(job).status_code == 404


@dataclass
class Seen:
    id: str
    kind: str
    data: dict


def events(lines: Iterator[str]) -> Iterator[Seen]:
    fields: dict[str, str] = {}
    for line in lines:
        if line:
            name, _, value = line.partition(": ")
            fields[name] = value
        elif "event" in fields:
            yield Seen(fields.get("id", ""), fields["event"], json.loads(fields["data"]))
            fields = {}
        else:
            fields = {}


def take(client: httpx.Client, url: str, count: int, headers: dict[str, str] | None = None, **query: str) -> list[Seen]:
    found: list[Seen] = []
    with client.stream("GET", url, params=query, headers=headers, timeout=20) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        for event in events(answer.iter_lines()):
            if event.kind != "open":
                found.append(event)
            if len(found) == count:
                break
    return found


def test_events_resume_behind_the_last_one_and_each_comes_once(place: AdminPlace, client, topic: Topic) -> None:
    url = f"{place.base}/events"
    first = take(client, url, 3, {"Last-Event-ID": "0.-1"})
    second = take(client, url, 2, {"Last-Event-ID": first[-1].id})
    assert [event.data["row"]["id"] for event in first + second] == ["0", "1", "2", "3", "4"]
    assert first[0].data["channel"] == "public.orders"


def test_events_come_live_and_filtered(place: AdminPlace, client, topic: Topic) -> None:
    with client.stream("GET", f"{place.base}/events", params={"operation": "DELETE"}, timeout=20) as answer:
        coming = events(answer.iter_lines())
        assert next(coming).kind == "open"
        topic.log.transaction(row(600), Delete(ORDERS.relation_id, OldKind.KEY, (b"600", None)))
        topic.write()
        event = next(coming)
    assert (event.kind, event.data["operation"], event.data["old"]["id"]) == ("change", "DELETE", "600")


@pytest.mark.parametrize(("given", "status"), [("x", 400), ("1", 400), ("9" * 40 + ".1", 400), ("1.1\x7f", 400)])
def test_an_absurd_last_event_id_is_refused(place: AdminPlace, client, topic: Topic, given: str, status: int) -> None:
    assert client.get(f"{place.base}/events", headers={"Last-Event-ID": given}).status_code == status


def test_an_id_beyond_the_end_is_told_as_a_gap(place: AdminPlace, client, topic: Topic) -> None:
    [gap] = take(client, f"{place.base}/events", 1, {"Last-Event-ID": "999999999.0"})
    assert gap.kind == "gap"
    assert gap.data["from"] == 999999999


def test_reads_are_quick(place: AdminPlace, client, topic: Topic) -> None:
    """A wide bound: the figure is measured elsewhere."""
    client.get(f"{place.base}/frames/3")
    begun = time.monotonic()
    for _ in range(20):
        assert client.get(f"{place.base}/frames/3").status_code == 200
    assert time.monotonic() - begun < 10
