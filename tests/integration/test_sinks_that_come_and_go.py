"""A fleet that runs, under load: a sink is added to its file, taken out while the slot waits for it, and put back."""

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
import redis as redis_client
import yaml
from kit.exposed import lanes_of, told
from kit.fleet import Service, service, spark_jars
from kit.pipelines import document, secrets_of, written
from kit.topics import inbox
from kit.wait import wait

from tidegate.checkpoint.redis_store import read_ack, read_lineage
from tidegate.clock import unix_microseconds
from tidegate.contracts import names
from tidegate.contracts.ack import Ack
from tidegate.contracts.request import Asked, LaneRequest
from tidegate.contracts.status import LaneStatus, ReaderStatus
from tidegate.lsn import format_lsn, parse_lsn

pytestmark = pytest.mark.timeout(400)
START_SECONDS, SEEN_SECONDS = 120, 60


class Load:
    """Rows by and by, each in a transaction of its own, until it is told to stop."""

    def __init__(self, dsn: str) -> None:
        self.rows = 0
        self._dsn, self._stop = dsn, threading.Event()
        self._thread = threading.Thread(target=self._write)

    def __enter__(self) -> "Load":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def _write(self) -> None:
        with psycopg.connect(self._dsn, autocommit=True) as source:
            while not self._stop.wait(0.02):
                source.execute("INSERT INTO orders VALUES (%s)", [self.rows + 1])
                self.rows += 1


@dataclass
class Running:
    pipeline: str
    bootstrap: str
    client: redis_client.Redis
    source: psycopg.Connection[Any]
    file: Path
    values: dict[str, Any]
    services: dict[str, Service]

    @property
    def copies(self) -> dict[str, Any]:
        options = {"topic": f"{self.pipeline}.copies.{{table}}"}
        return {"name": "copies", "type": "kafka_topics", "options": options}

    def sinks(self, *sinks: dict[str, Any]) -> None:
        self.file.write_text(yaml.safe_dump(self.values | {"sinks": [*self.values["sinks"], *sinks]}))

    def ack(self, sink: str) -> Ack | None:
        lineage = read_lineage(self.client, self.pipeline)
        return read_ack(self.client, self.pipeline, lineage.generation.id, sink) if lineage else None

    def acked(self, sink: str) -> int:
        ack = self.ack(sink)
        return ack.safe_lsn if ack else 0

    def confirmed(self) -> int:
        slot = f"tidegate_{self.pipeline.replace('-', '_')}"
        found = self.source.execute(
            "SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE slot_name = %s", [slot]
        ).fetchone()
        return parse_lsn(found[0]) if found and found[0] else 0

    def required(self) -> tuple[str, ...]:
        lineage = read_lineage(self.client, self.pipeline)
        return lineage.required if lineage else ()

    def holder(self) -> str | None:
        value = self.client.get(names.reader_status_key(self.pipeline))
        return ReaderStatus.decode(value).gate_holder if isinstance(value, bytes) else None

    def status(self, sink: str) -> LaneStatus:
        key = names.lane_status_key(self.pipeline, sink)
        value = wait(lambda: self.client.get(key), SEEN_SECONDS, f"the lane of {sink} tells its state")
        assert isinstance(value, bytes)
        return LaneStatus.decode(value)

    def ask(self, sink: str, asked: Asked) -> None:
        request = LaneRequest(f"{asked}-{sink}", asked, "somebody", unix_microseconds())
        self.client.rpush(names.lane_requests_key(self.pipeline, sink), request.encode())

    def audited(self) -> list[dict[str, Any]]:
        entries: Any = self.client.xrange(names.audit_key(self.pipeline))
        return [json.loads(fields[b"entry"]) for _, fields in entries]

    def http(self, service: str) -> str:
        address: str = self.values[service]["http"]
        return address

    def shown(self) -> set[str]:
        shown = json.loads(told(self.http("admin"), f"/api/v1/pipelines/{self.pipeline}"))
        return {lane["sink"] for lane in shown["lanes"]}


@pytest.fixture
def running(postgres, kafka, redis, database, prefix: str, tmp_path: Path) -> Iterator[Running]:
    values = document(prefix, kafka=kafka.bootstrap, redis_url=redis.url, postgres=database.dsn)
    file = written(tmp_path, values)
    environ = secrets_of(redis_url=redis.url, postgres=database.dsn) | spark_jars()
    with (
        psycopg.connect(database.dsn, autocommit=True) as source,
        service("tidegate-processor", file, environ) as processor,
        service("tidegate-reader", file, environ) as reader,
        service("tidegate-admin", file, environ) as admin,
        redis_client.Redis.from_url(redis.url) as client,
    ):
        source.execute("CREATE TABLE orders (id integer PRIMARY KEY)")
        started = {"processor": processor, "reader": reader, "admin": admin}
        for each in started.values():
            each.start()
        yield Running(prefix, kafka.bootstrap, client, source, file, values, started)


def rows_in(running: Running, topic: str, count: int) -> list[int]:
    with inbox(running.bootstrap, topic) as box:
        messages = box.until(lambda found: len(found) >= count, START_SECONDS, f"{count} rows in {topic}")
    return [json.loads(message.value())["payload"]["row"]["id"] for message in messages]


def test_a_sink_comes_holds_the_slot_goes_and_comes_back_and_the_other_lane_never_notices(
    running: Running, database
) -> None:
    pids = {name: each.pid for name, each in running.services.items()}
    wait(lambda: running.confirmed() > 0, START_SECONDS, "the slot is there")
    with Load(database.dsn) as load:
        wait(lambda: running.acked("events") and running.status("events").events > 20, START_SECONDS, "events flow")
        incarnation = running.status("events").incarnation

        running.sinks(running.copies)
        wait(lambda: running.required() == ("events", "copies"), SEEN_SECONDS, "the gate counts on the new one")
        wait(lambda: running.acked("copies") >= running.confirmed(), START_SECONDS, "it has joined")
        joined = running.confirmed()
        wait(lambda: running.confirmed() > joined, SEEN_SECONDS, "confirmed goes on, with both")
        wait(lambda: running.shown() == {"events", "copies"}, SEEN_SECONDS, "the admin service shows both")
        assert lanes_of(running.http("processor")) == {"events", "copies"}

        running.ask("copies", Asked.PAUSE)
        wait(lambda: running.holder() == "copies" and running.status("copies").state == "paused", 30, "it stands")
        held = running.confirmed()
        wait(lambda: running.acked("events") > running.acked("copies") + 50_000, SEEN_SECONDS, "the other goes on")
        stood = running.confirmed()
        last = running.ack("copies")

        running.sinks()
        wait(lambda: running.confirmed() > stood, SEEN_SECONDS, "the slot is not held any more")
        wait(lambda: running.shown() == {"events"}, SEEN_SECONDS, "the admin service shows it no more")
        wait(lambda: lanes_of(running.http("processor")) == {"events"}, SEEN_SECONDS, "nor do metrics")
        removed = [each for each in running.audited() if each["operation"] == "sinkRemoved"]

        running.sinks(running.copies)
        running.ask("copies", Asked.RESUME)
        wait(lambda: running.required() == ("events", "copies"), SEEN_SECONDS, "it is counted on again")
        load.stop()

    [(written,)] = running.source.execute("SELECT count(*) FROM orders")
    expected = list(range(1, written + 1))
    assert rows_in(running, f"{running.pipeline}.public.orders", written) == expected
    assert rows_in(running, f"{running.pipeline}.copies.orders", written) == expected
    assert last is not None
    assert [(each["path"], each["acked"]) for each in removed] == [("/sinks/copies", format_lsn(last.safe_lsn))]
    assert held <= stood <= last.safe_lsn
    assert running.status("events").incarnation == incarnation
    assert pids == {name: each.pid for name, each in running.services.items()}
