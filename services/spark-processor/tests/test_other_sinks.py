"""Sinks that are no topics, in a whole processor: real Spark, a lane each, killed and stopped in order."""

import json
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest
import redis as redis_client
from kit.fleet import Service, service, spark_jars
from kit.frames import RawLog, row
from kit.pipelines import document, secrets_of, written
from kit.topics import append, make_topic
from kit.wait import wait

from tidegate.contracts import names
from tidegate.contracts.status import LaneStatus

pytestmark = pytest.mark.timeout(600)
START_SECONDS = 240
TARGET_PASSWORD = "TIDEGATE_TEST_TARGET_PASSWORD"
SINKS = ("lines", "files", "copies")


@dataclass
class Fleet:
    pipeline: str
    bootstrap: str
    client: redis_client.Redis
    processor: Service
    log: RawLog
    folder: Path
    target: str

    def rows(self, *numbers: int) -> None:
        frames = [self.log.transaction(*(row(number) for number in numbers)), self.log.tick()]
        append(self.bootstrap, names.raw_topic(self.pipeline), frames)

    def worker(self, sink: str) -> int:
        status = LaneStatus.decode(self.client.get(names.lane_status_key(self.pipeline, sink)))
        return status.pid

    def acked(self, sink: str) -> str:
        value = self.client.hget(names.ack_key(self.pipeline, self.log.generation.id), sink)
        return json.loads(value)["safe_lsn"] if value else ""

    def printed(self) -> list[int]:
        return keys(self.processor.log().splitlines())

    def filed(self) -> list[int]:
        paths = sorted((self.folder / "files").glob(f"{self.pipeline}.*"))
        return keys(line for path in paths for line in path.read_text().splitlines())

    def copied(self) -> list[int]:
        with psycopg.connect(self.target) as connection:
            if connection.execute("SELECT to_regclass('public.orders')").fetchone() == (None,):
                return []
            return [key for (key,) in connection.execute("SELECT id FROM public.orders ORDER BY id").fetchall()]

    def await_everywhere(self, expected: list[int], seconds: float = START_SECONDS) -> None:
        for what, found in (("printed", self.printed), ("filed", self.filed), ("copied", self.copied)):
            wait(lambda found=found: found() == expected, seconds, f"{expected} are {what}", 0.5)


def keys(lines) -> list[int]:
    """Of the lines that are events; the processor's log is on the same file as its output here."""
    events = [json.loads(line) for line in lines if line.startswith('{"id":"')]
    return [event["payload"]["row"]["id"] for event in events]


@pytest.fixture
def fleet(kafka, redis, database, prefix: str, tmp_path: Path) -> Iterator[Fleet]:
    raw_topic_id = make_topic(kafka.bootstrap, names.raw_topic(prefix))
    target = urlsplit(database.dsn)
    options = {
        "dsn": f"postgresql://{target.username}@{target.hostname}:{target.port}{target.path}",
        "password": f"${{env:{TARGET_PASSWORD}}}",
    }
    sinks = [
        {"name": "lines", "type": "stdout"},
        {"name": "files", "type": "file", "options": {"path": str(tmp_path / "files")}},
        {"name": "copies", "type": "pg_table", "options": options},
    ]
    file = written(tmp_path, document(prefix, kafka=kafka.bootstrap, redis_url=redis.url, sinks=sinks))
    environ = secrets_of(redis_url=redis.url) | spark_jars() | {TARGET_PASSWORD: target.password or ""}
    with service("tidegate-processor", file, environ) as processor:
        client = redis_client.Redis.from_url(redis.url)
        log = RawLog(topic_id=raw_topic_id)
        fleet = Fleet(prefix, kafka.bootstrap, client, processor, log, tmp_path, database.dsn)
        append(kafka.bootstrap, names.raw_topic(prefix), [log.epoch()])
        yield fleet
        client.close()


def test_each_sink_gets_every_change_once_also_when_its_worker_is_killed(fleet: Fleet) -> None:
    fleet.rows(1, 2)
    fleet.processor.start()
    fleet.await_everywhere([1, 2])

    for sink in SINKS:
        wait(lambda sink=sink: fleet.acked(sink) == f"{fleet.log.safe_lsn:016x}", 30, f"{sink} has acked")
        os.kill(fleet.worker(sink), signal.SIGKILL)
    fleet.rows(3)
    fleet.await_everywhere([1, 2, 3])
    wait(lambda: all(fleet.acked(sink) == f"{fleet.log.safe_lsn:016x}" for sink in SINKS), 30, "all of it is acked")

    assert fleet.processor.stop(60) == 0
    fleet.processor.start()
    fleet.rows(4)
    fleet.await_everywhere([1, 2, 3, 4])
