"""The whole way, PostgreSQL to a consumer of committed events: how many, how fast, at what price.

Backlog: rows of ten columns are inserted in one statement, and a consumer waits for the last event. The limit is
`pg_recvlogical` on the same WAL. Live: 200 transactions a second of one row each, from the commit's time in the event
to the consumer's clock; a round before these is not counted, because the servers are still compiling.
Everything is counted first: a run that lost or doubled an event has no speed and fails.
"""

import json
import os
import subprocess
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import psutil
import psycopg
import yaml
from confluent_kafka import Consumer, Message, TopicPartition
from kit.fleet import Service, service, spark_jars
from kit.pipelines import document, secrets_of
from kit.wait import wait

from bench.figures import QUICK, Figure, report
from tidegate.stack.up import Stack

ROWS = 50_000 if QUICK else 300_000
ROUNDS = 1 if QUICK else 3
LIVE_ROWS = 1_000 if QUICK else 6_000
LIVE_EACH_SECONDS = 1 / 200
DEADLINE_SECONDS = 300

TABLE = """
CREATE TABLE wide (
  id bigint PRIMARY KEY, a text, b text, n numeric, t timestamptz, f float8, i int, s text, j text, k text
)
"""
INSERT = """
INSERT INTO wide SELECT g, 'abc', 'defghij' || g, 12.5, now(), 1.5, g, repeat('x', 60), repeat('y', 40), 'z'
FROM generate_series(%s::bigint, %s::bigint) g
"""


@dataclass
class Bench:
    stack: Stack
    source: psycopg.Connection[Any]
    consumer: Consumer
    reader: Service
    processor: Service
    seen: int = 0

    def receive(self, count: int) -> Iterator[Message]:
        """Each id once and in order, or the run is worth nothing."""
        end, deadline = self.seen + count, time.monotonic() + DEADLINE_SECONDS
        while self.seen < end:
            found = self.consumer.consume(10_000, 0) or [self.consumer.poll(0.1)]
            for message in filter(None, found):
                assert message.error() is None, message.error()
                assert message.key() == b'{"id":%d}' % self.seen, "an event was lost, doubled or out of order"
                self.seen += 1
                yield message
            assert time.monotonic() < deadline, f"{end - self.seen} events have not arrived"

    def insert(self, count: int) -> None:
        first = self.seen
        self.source.execute(INSERT, [first, first + count - 1])


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder, running(Path(folder)) as (bench, start):
        backlog = [measure_backlog(bench) for _ in range(ROUNDS)]
        measure_live(bench)  # the broker's and Spark's compilers are still at work
        live = [measure_live(bench) for _ in range(ROUNDS)]
        memory = {name: rss_mb(each.pid) for name, each in (("reader", bench.reader), ("processor", bench.processor))}
    per_million = 1e6 / ROWS
    figures = [
        Figure("start of all services to the first event", "s", [start], goal=30),
        Figure("backlog, events/s", "/s", [ROWS / run["seconds"] for run in backlog]),
        Figure("backlog, share of pg_recvlogical", "x", [run["limit"] / run["seconds"] for run in backlog]),
        Figure("reader, CPU a million", "s", [run["reader"] * per_million for run in backlog], goal=3),
        Figure("processor, CPU a million", "s", [run["processor"] * per_million for run in backlog], goal=13.5),
        Figure("commit to consumer at 200/s, p50", "ms", [run[0] for run in live], goal=20),
        Figure("commit to consumer at 200/s, p99", "ms", [run[1] for run in live], goal=60),
        Figure("reader, RSS", "MB", [memory["reader"]], goal=96),
        Figure("processor with JVM and workers, RSS", "MB", [memory["processor"]], goal=1300),
    ]
    notes = {"rows": str(ROWS), "live rows": str(LIVE_ROWS)}
    report("pipeline", figures, ("tidegate", "pyspark", "confluent-kafka", "aiokafka", "psycopg"), notes)


def measure_backlog(bench: Bench) -> dict[str, float]:
    slot = "bench_limit"
    bench.source.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", [slot])
    before = cpu_seconds(bench.reader.pid), cpu_seconds(bench.processor.pid)
    begun = time.monotonic()
    bench.insert(ROWS)
    consume(bench, ROWS)
    seconds = time.monotonic() - begun
    after = cpu_seconds(bench.reader.pid), cpu_seconds(bench.processor.pid)
    limit = limit_seconds(bench, slot)
    return {
        "seconds": seconds,
        "limit": limit,
        "reader": after[0] - before[0],
        "processor": after[1] - before[1],
    }


def consume(bench: Bench, count: int) -> None:
    deque(bench.receive(count), maxlen=0)


def limit_seconds(bench: Bench, slot: str) -> float:
    """pg_recvlogical to /dev/null over the WAL of the round just measured."""
    postgres = bench.stack.postgres
    (end,) = bench.source.execute("SELECT pg_current_wal_lsn()::text").fetchone() or ("",)
    (names,) = bench.source.execute("SELECT string_agg(pubname, ',') FROM pg_publication").fetchone() or ("",)
    command = [str(postgres.binaries / "pg_recvlogical"), "--slot", slot, "--start", "--no-loop", "--endpos", end]
    options = ["-o", "proto_version=1", "-o", f"publication_names={names}", "-f", "/dev/null"]
    begun = time.monotonic()
    subprocess.run([*command, *options, "-d", postgres.dsn("bench")], check=True, capture_output=True)
    seconds = time.monotonic() - begun
    subprocess.run([str(postgres.binaries / "pg_recvlogical"), "--slot", slot, "--drop-slot", "-d",
                    postgres.dsn("bench")], check=True, capture_output=True)  # fmt: skip
    return seconds


def measure_live(bench: Bench) -> tuple[float, float]:
    writer = threading.Thread(target=write_live, args=(bench.source, bench.seen), name="writer")
    writer.start()
    took = sorted((time.time() - committed_at(message)) * 1000 for message in bench.receive(LIVE_ROWS))
    writer.join()
    return took[len(took) // 2], took[len(took) * 99 // 100]


def write_live(source: psycopg.Connection[Any], first: int) -> None:
    """By the clock, whatever the pipeline does: who is slow once must not be asked less often for it."""
    begun = time.monotonic()
    for at in range(LIVE_ROWS):
        time.sleep(max(0.0, begun + at * LIVE_EACH_SECONDS - time.monotonic()))
        source.execute(INSERT, [first + at, first + at])


def committed_at(message: Message) -> float:
    return datetime.fromisoformat(json.loads(message.value())["created_at"]).timestamp()


def cpu_seconds(pid: int) -> float:
    root = psutil.Process(pid)
    times = [process.cpu_times() for process in (root, *root.children(recursive=True))]
    return sum(each.user + each.system for each in times)


def rss_mb(pid: int) -> float:
    root = psutil.Process(pid)
    return sum(process.memory_info().rss for process in (root, *root.children(recursive=True))) / 2**20


@contextmanager
def running(folder: Path) -> Iterator[tuple[Bench, float]]:
    folder.chmod(0o755)
    with Stack(folder, databases=["bench"]) as stack:
        dsn, file = stack.postgres.dsn("bench"), folder / "pipeline.yaml"
        file.write_text(
            yaml.safe_dump(document("bench", kafka=stack.kafka.bootstrap, redis_url=stack.redis.url, postgres=dsn))
        )
        environ = {**os.environ, **secrets_of(redis_url=stack.redis.url, postgres=dsn), **spark_jars()}
        with (
            psycopg.connect(dsn, autocommit=True) as source,
            service("tidegate-processor", file, environ) as processor,
            service("tidegate-reader", file, environ) as reader,
        ):
            source.execute(TABLE)
            begun = time.monotonic()
            processor.start()
            reader.start()
            slot = "SELECT 1 FROM pg_replication_slots WHERE active"
            wait(lambda: source.execute(slot).fetchone(), 60, "the reader has its slot")
            source.execute(INSERT, [0, 0])
            bench = Bench(stack, source, consumer_of(stack, "bench.public.wide"), reader, processor)
            consume(bench, 1)
            yield bench, time.monotonic() - begun
            bench.consumer.close()


def consumer_of(stack: Stack, topic: str) -> Consumer:
    settings = {"bootstrap.servers": stack.kafka.bootstrap, "group.id": "bench", "isolation.level": "read_committed"}
    consumer = Consumer({**settings, "fetch.wait.max.ms": 5, "queued.min.messages": 100_000})
    wait(lambda: topic in consumer.list_topics(timeout=5).topics, DEADLINE_SECONDS, "the first event has its topic")
    consumer.assign([TopicPartition(topic, 0, 0)])
    return consumer


if __name__ == "__main__":
    main()
