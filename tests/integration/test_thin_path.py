"""PostgreSQL → reader → raw topic → processor → table topic → ack → confirmed LSN, with real servers and services."""

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
import redis as redis_client
import yaml
from confluent_kafka import Consumer, Message, TopicPartition
from kit.collector import Collector, Received, collector
from kit.fleet import Service, service, spark_jars
from kit.pipelines import document, secrets_of, written
from kit.topics import Inbox, inbox
from kit.wait import wait

from tidegate.lsn import Lsn, parse_lsn

pytestmark = pytest.mark.timeout(300)
START_SECONDS = 120

# One column a type that applications use every day, with its literal and the JSON it becomes.
TYPES: list[tuple[str, str, Any]] = [
    ("smallint", "-32768", -32768),
    ("integer", "2147483647", 2147483647),
    ("bigint", "9223372036854775807", 9223372036854775807),
    ("numeric", "'123456789012345678901234567890.10'", "123456789012345678901234567890.10"),
    ("numeric(10,2)", "'12.50'", "12.50"),
    ("real", "1.5", 1.5),
    ("double precision", "0.1", 0.1),
    ("double precision", "'NaN'", "NaN"),
    ("double precision", "'-Infinity'", "-Infinity"),
    ("boolean", "true", True),
    ("text", "E'tab\\t \"quoted\" \\u00e9 \\U0001F30A'", 'tab\t "quoted" é 🌊'),
    ("varchar(20)", "'vär'", "vär"),
    ("char(4)", "'ab'", "ab  "),
    ("bytea", "'\\xdeadbeef'", "3q2+7w=="),
    ("date", "'2026-02-28'", "2026-02-28"),
    ("date", "'infinity'", "infinity"),
    ("time", "'23:59:59.5'", "23:59:59.5"),
    ("timestamp", "'2026-02-28 12:34:56.789'", "2026-02-28T12:34:56.789"),
    ("timestamptz", "'2026-02-28 12:34:56+02'", "2026-02-28T10:34:56Z"),
    ("timestamptz", "'0044-03-15 12:00:00+00 BC'", "0044-03-15 12:00:00+00 BC"),
    ("interval", "'1 year 2 days 03:04:05'", "1 year 2 days 03:04:05"),
    ("uuid", "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
    ("json", """'{"b": [1, 2.50], "a": null}'""", {"b": [1, 2.5], "a": None}),
    ("jsonb", """'{"k": "v"}'""", {"k": "v"}),
    ("inet", "'192.168.0.1/24'", "192.168.0.1/24"),
    ("macaddr", "'08:00:2b:01:02:03'", "08:00:2b:01:02:03"),
    ("bit(3)", "B'101'", "101"),
    ("money", "'1234.5'", "$1,234.50"),
    ("point", "'(1,2)'", "(1,2)"),
    ("int4range", "'[1,5)'", "[1,5)"),
    ("integer[]", "'{{1,2},{3,NULL}}'", [[1, 2], [3, None]]),
    ("text[]", """'{"a b",NULL,"NULL"}'""", ["a b", None, "NULL"]),
    ("xid8", "'7'", "7"),
    ("mood", "'happy'", "happy"),
    ("positive", "5", 5),
    ("pair", "'(1,x)'", "(1,x)"),
]
COLUMNS = [f"c{at}" for at in range(len(TYPES))]
SCHEMA = f"""
CREATE TYPE mood AS ENUM ('sad', 'happy');
CREATE DOMAIN positive AS integer CHECK (VALUE > 0);
CREATE TYPE pair AS (a integer, b text);
CREATE TABLE everything (id bigint PRIMARY KEY, {", ".join(f"c{at} {kind}" for at, (kind, _, _) in enumerate(TYPES))});
CREATE TABLE plain (id integer PRIMARY KEY, note text);
"""
INSERT = f"INSERT INTO everything VALUES (1, {', '.join(literal for _, literal, _ in TYPES)})"


@dataclass
class Route:
    pipeline: str
    bootstrap: str
    source: psycopg.Connection[Any]
    redis: redis_client.Redis
    reader: Service
    processor: Service
    slot: str
    file: Path

    def configure(self, **sections: Any) -> None:
        """Before anything is started."""
        self.file.write_text(yaml.safe_dump(yaml.safe_load(self.file.read_text()) | sections))

    def confirmed(self) -> Lsn:
        found = self.source.execute(
            "SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = %s", [self.slot]
        ).fetchone()
        # NULL while the server is still looking for the slot's starting point.
        return parse_lsn(found[0]) if found and found[0] else Lsn(0)

    def wal_end(self) -> Lsn:
        (found,) = self.source.execute("SELECT pg_current_wal_lsn()::text").fetchone() or ("0/0",)
        return parse_lsn(found)


@pytest.fixture
def path(postgres, kafka, redis, database, prefix: str, tmp_path: Path) -> Iterator[Route]:
    values = document(prefix, kafka=kafka.bootstrap, redis_url=redis.url, postgres=database.dsn)
    file = written(tmp_path, values)
    environ = secrets_of(redis_url=redis.url, postgres=database.dsn) | spark_jars()
    with (
        psycopg.connect(database.dsn, autocommit=True) as source,
        redis_client.Redis.from_url(redis.url) as client,
        service("tidegate-processor", file, environ) as processor,
        service("tidegate-reader", file, environ) as reader,
    ):
        # Else a commit returns before it is written, and `wal_end` is an earlier one.
        source.execute("SET synchronous_commit = on")
        source.execute(SCHEMA)
        yield Route(prefix, kafka.bootstrap, source, client, reader, processor, f"tidegate_{prefix}", file)


def events(box: Inbox, count: int, seconds: float = 30) -> list[dict[str, Any]]:
    messages: list[Message] = box.until(lambda found: len(found) >= count, seconds, f"{count} events")
    assert len(messages) == count
    return [json.loads(message.value()) for message in messages]


def slot_is_there(path: Route) -> bool:
    return path.confirmed() > 0


def test_a_row_of_every_common_type_goes_through_its_whole_life(path: Route) -> None:
    path.processor.start()
    path.reader.start()
    wait(lambda: slot_is_there(path), 60, "the reader has made its slot")
    path.source.execute(INSERT)
    path.source.execute("UPDATE everything SET c1 = 7 WHERE id = 1")
    path.source.execute("UPDATE everything SET id = 2 WHERE id = 1")
    path.source.execute("DELETE FROM everything WHERE id = 2")
    path.source.execute("TRUNCATE everything")

    with inbox(path.bootstrap, f"{path.pipeline}.public.everything") as box:
        found = events(box, 5, START_SECONDS)

    assert [event["operation"] for event in found] == ["INSERT", "UPDATE", "UPDATE", "DELETE", "TRUNCATE"]
    assert [message.key() for message in box.messages] == [b'{"id":1}', b'{"id":1}', b'{"id":2}', b'{"id":2}', None]
    row = found[0]["payload"]["row"]
    assert {name: row[name] for name in COLUMNS} == dict(
        zip(COLUMNS, (expected for _, _, expected in TYPES), strict=True)
    )
    assert found[1]["payload"]["row"]["c1"] == 7
    assert (found[2]["payload"]["old"], found[2]["payload"]["row"]["id"]) == ({"id": 1}, 2)
    assert (found[3]["payload"]["old"], found[3]["payload"]["row"]) == ({"id": 2}, None)
    order = [parse_lsn(event["position"]["commit_lsn"]) for event in found]
    assert order == sorted(order)


def test_the_slot_moves_only_after_the_ack_and_catches_up_when_idle(path: Route) -> None:
    path.reader.start()
    wait(lambda: slot_is_there(path), 60, "the reader has made its slot")
    before = path.confirmed()
    path.source.execute("INSERT INTO plain VALUES (1, 'held')")
    written = path.wal_end()
    wait(lambda: raw_frames(path) > 1, 30, "the change is in the raw topic")

    # Nobody acks: for as long as the server asks twice for a status, nothing is confirmed.
    lsns = sampled(path, seconds=3)
    assert lsns == {before}

    path.processor.start()
    wait(lambda: path.confirmed() >= written, START_SECONDS, "the ack has opened the gate")
    path.source.execute("SELECT pg_switch_wal()")
    end = path.wal_end()
    wait(lambda: path.confirmed() >= end, 30, "an idle publication holds no WAL")


def test_either_service_killed_at_work_comes_back_and_nothing_is_lost_or_doubled(path: Route) -> None:
    path.processor.start()
    path.reader.start()
    wait(lambda: slot_is_there(path), 60, "the reader has made its slot")
    write(path, 0, 200)
    with inbox(path.bootstrap, f"{path.pipeline}.public.plain") as box:
        box.until(bool, START_SECONDS, "the first events")
        path.reader.kill()
        write(path, 200, 400)
        path.reader.start()
        write(path, 400, 600)
        path.processor.kill()
        write(path, 600, 800)
        path.processor.start()
        write(path, 800, 1000)
        found = events(box, 1000, START_SECONDS)

    assert [event["payload"]["row"]["id"] for event in found] == list(range(1000))
    assert len({event["id"] for event in found}) == 1000


def test_a_sampled_transaction_is_one_trace_from_its_commit_to_the_ack_of_every_lane(path: Route) -> None:
    with collector() as received:
        options = {"headers": True}
        path.configure(
            tracing={"endpoint": received.url, "ratio": 1.0},
            sinks=[{"name": name, "type": "kafka_topics", "options": options} for name in ("events", "more")],
        )
        path.processor.start()
        path.reader.start()
        wait(lambda: slot_is_there(path), 60, "the reader has made its slot")
        with path.source.transaction():
            path.source.execute("INSERT INTO plain SELECT n, repeat('canary', 400) FROM generate_series(1, 2000) n")
        with inbox(path.bootstrap, f"{path.pipeline}.public.plain") as box:
            messages = box.until(lambda found: len(found) >= 4000, START_SECONDS, "the events of both lanes")
        [parent] = {dict(message.headers())["traceparent"].decode() for message in messages}
        trace = whole_trace(received, parent)

    [root] = [each for each in trace if not each.parent_id]
    lanes = [each for each in trace if each.name == "lane"]
    assert parent == f"00-{root.trace_id}-{root.span_id}-01"
    assert (root.service, root.attributes["tidegate.changes"]) == ("tidegate-reader", 2000)
    assert root.attributes["tidegate.frames"] > 1
    assert {each.parent_id for each in lanes} == {root.span_id}
    assert {each.service for each in lanes} == {"tidegate-processor"}
    assert sorted(each.attributes["tidegate.sink"] for each in lanes) == ["events", "more"]
    assert {each.attributes["tidegate.commit_lsn"] for each in lanes} == {root.attributes["tidegate.commit_lsn"]}
    below = {lane.span_id: {each.name for each in trace if each.parent_id == lane.span_id} for lane in lanes}
    assert set(map(frozenset, below.values())) == {frozenset({"written", "committed", "acked"})}
    assert not any("canary" in str(each.attributes) for each in received.spans)


def whole_trace(received: Collector, parent: str) -> list[Received]:
    def is_whole() -> list[Received]:
        found = received.trace(parent.split("-")[1])
        names = [each.name for each in found]
        return found if "confirmed" in names and names.count("lane") == 2 else []

    return wait(is_whole, 30, "the trace is whole")


def write(path: Route, start: int, stop: int) -> None:
    for at in range(start, stop, 20):
        path.source.execute(
            "INSERT INTO plain SELECT n, repeat('x', 50) FROM generate_series(%s::int, %s::int) n", [at, at + 19]
        )


def raw_frames(path: Route) -> int:
    consumer = Consumer({"bootstrap.servers": path.bootstrap, "group.id": "watermarks"})
    try:
        _, high = consumer.get_watermark_offsets(TopicPartition(f"tidegate.{path.pipeline}.raw", 0), timeout=10)
        return int(high)
    finally:
        consumer.close()


def sampled(path: Route, seconds: float) -> set[Lsn]:
    """Every value that the slot shows during this time."""
    seen, end = set(), time.monotonic() + seconds

    def over() -> bool:
        seen.add(path.confirmed())
        return time.monotonic() > end

    wait(over, seconds + 5, "the time is over", every_seconds=0.05)
    return seen
