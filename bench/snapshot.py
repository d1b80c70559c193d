"""Rows that were there before, beside psql's `COPY … TO STDOUT` of the same table, and what the stream feels of it.

Before the stream: a new pipeline reads one table, and the clock runs from its plan to the acknowledgement of its last
frame by Kafka, as the reader itself tells. Beside the stream: pgbench commits at a fixed rate, once in calm and once
while a snapshot is taken over and over, and a consumer of the raw topic compares each commit's time with its own clock.
Rows and commits are counted: a run that lost one fails.

The whole way, to events in a topic, is measured beside Debezium's initial snapshot of the same table (`bench.initial`),
session by session, every second round backwards. One that can't be had is named and left out. `QUICK=1` takes few rows,
of which starting is the most: its ratios are provisional. `ROWS=n` takes as many as that.
"""

import logging
import os
import subprocess
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import redis
import yaml
from confluent_kafka import Consumer, TopicPartition
from kit.fleet import Service, service
from kit.pipelines import document, secrets_of
from kit.wait import wait

from bench import initial
from bench.contestants.base import PUBLICATION, ContestantError, Rig
from bench.figures import QUICK, Figure, report
from bench.initial import Arrived, Kind
from bench.machine import CORES, ENOUGH_CORES
from bench.reader import DEADLINE_SECONDS, INSERT, LIVE_RATE, Arrivals, cpu_seconds, late, peak_mb
from tidegate.clock import unix_microseconds
from tidegate.contracts import names
from tidegate.contracts.snapshot_request import SnapshotAsked, SnapshotRequest
from tidegate.contracts.snapshot_status import SnapshotState, SnapshotStatus, decode_snapshot_status
from tidegate.stack.up import Stack

DATABASE = "bench"
ROWS = int(os.environ.get("ROWS") or (300_000 if QUICK else 5_000_000))
INITIAL_ROUNDS = 1 if QUICK else 2
ROUNDS = 1 if QUICK else 3
LIVE_SECONDS = 6 if QUICK else 30
TWO = 1.5 * 0.8 if CORES >= ENOUGH_CORES else None
"""On fewer cores one connection has server, reader and broker busy."""
TABLES = """
CREATE TABLE wide (id bigint PRIMARY KEY, a text, b text, n numeric, t timestamptz, f float8, i int, s text, j text,
  k text);
CREATE TABLE live (id bigserial PRIMARY KEY, note text);
"""

log = logging.getLogger("bench")


@dataclass
class Bench:
    stack: Stack
    source: psycopg.Connection[Any]
    folder: Path
    redis: redis.Redis
    pipelines: int = 0

    @contextmanager
    def reader(self, settings: dict[str, object]) -> Iterator[tuple[str, Service]]:
        """Of a new pipeline, running; afterwards its slot is gone."""
        self.pipelines += 1
        name = f"bench{self.pipelines}"
        dsn, file = self.stack.postgres.dsn(DATABASE), self.folder / name / "pipeline.yaml"
        file.parent.mkdir()
        values = document(name, kafka=self.stack.kafka.bootstrap, redis_url=self.stack.redis.url, postgres=dsn)
        values["sinks"] = [{"name": "events", "type": "kafka_topics", "required": False}]
        file.write_text(yaml.safe_dump(values | {"snapshot": settings}))
        environ = {**os.environ, **secrets_of(redis_url=self.stack.redis.url, postgres=dsn)}
        slot = f"tidegate_{name}"
        with service("tidegate-reader", file, environ) as reader:
            reader.start()
            wait(lambda: self._is_active(slot), 30, "the reader has its slot")
            yield name, reader
            assert reader.stop(10) == 0
        wait(lambda: not self._is_active(slot), 10, "the slot is let go")
        self.source.execute("SELECT pg_drop_replication_slot(%s)", [slot])

    def statuses(self, pipeline: str) -> list[SnapshotStatus]:
        values: Any = self.redis.hvals(names.snapshots_key(pipeline))
        return [decode_snapshot_status(value) for value in values]

    def _is_active(self, slot: str) -> bool:
        query = "SELECT 1 FROM pg_replication_slots WHERE slot_name = %s AND active AND confirmed_flush_lsn IS NOT NULL"
        return self.source.execute(query, [slot]).fetchone() is not None


@dataclass
class Reading:
    seconds: float
    cpu: float
    peak_mb: float


@dataclass
class Live:
    p50: float = 0.0
    p99: float = 0.0
    rows: int = 0
    took: list[float] = field(default_factory=list)


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder, running(Path(folder)) as bench:
        measure_copy(bench)  # the table's pages are in memory from here on, and the broker's code is warm
        measure_reading(bench, 1)
        rounds = [(measure_copy(bench), measure_reading(bench, 1), measure_reading(bench, 2)) for _ in range(ROUNDS)]
        calm, beside = measure_live(bench)
        ways = measure_whole_ways(bench)
    copy = [seconds for seconds, _, _ in rounds]
    one, two = [each for _, each, _ in rounds], [each for _, _, each in rounds]
    limits = list(zip(copy, one, two, strict=True))
    figures = [
        Figure("psql COPY to /dev/null, rows a second", "/s", [ROWS / seconds for seconds in copy]),
        Figure("one connection, rows a second", "/s", [ROWS / each.seconds for each in one]),
        Figure("one connection, share of psql", "x", [limit / each.seconds for limit, each, _ in limits], 0.8, True),
        Figure("two connections, share of psql", "x", [limit / each.seconds for limit, _, each in limits], TWO, True),
        Figure("two connections, of one", "x", [a.seconds / b.seconds for _, a, b in limits]),
        Figure("one connection, reader's CPU a million rows", "s", [each.cpu * 1e6 / ROWS for each in one]),
        Figure("reader, highest RSS", "MB", [each.peak_mb for each in (*one, *two)], 64),
        Figure(f"{LIVE_RATE:,} tx/s in calm, commit to frame, p99", "ms", [calm.p99]),
        Figure(f"{LIVE_RATE:,} tx/s beside a snapshot, commit to frame, p99", "ms", [beside.p99]),
        Figure("p99 beside a snapshot, of that in calm", "x", [beside.p99 / calm.p99], 2),
        Figure("beside a stream, rows a second", "/s", [beside.rows / LIVE_SECONDS]),
        *initial.figures_of(ways, ROWS),
    ]
    notes = {"rows": str(ROWS), "live transactions": f"{len(calm.took)}, {len(beside.took)}"}
    notes |= {kind.label: kind.settings for kind in ways}
    report("snapshot", figures, ("tidegate", "tidegate-reader", "aiokafka", "psycopg", "redis"), notes)
    if QUICK:
        print(f"The whole way is provisional: of {ROWS:,} rows, starting is the most.")


def measure_copy(bench: Bench) -> float:
    postgres = bench.stack.postgres
    command = [str(postgres.binaries / "psql"), "-X", "-q", "-c", "COPY wide TO STDOUT", postgres.dsn(DATABASE)]
    begun = time.monotonic()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - begun


def measure_reading(bench: Bench, connections: int) -> Reading:
    with bench.reader({"mode": "initial", "connections": connections}) as (pipeline, reader):
        before = cpu_seconds(reader.pid)

        def done() -> SnapshotStatus | None:
            found = bench.statuses(pipeline)
            return found[0] if found and found[0].state is SnapshotState.DONE else None

        status = wait(done, DEADLINE_SECONDS, "the table is read", every_seconds=0.05)
        spent, peak = cpu_seconds(reader.pid) - before, peak_mb(reader.pid)
    assert status.rows == ROWS, f"{status.rows} of {ROWS} rows were read"
    return Reading((status.finished - status.started) / 1e6, spent, peak)


def measure_whole_ways(bench: Bench) -> dict[Kind, list[Arrived]]:
    """As many of each."""
    found: dict[Kind, list[Arrived]] = {}
    kinds = initial.kinds()
    for turn in range(INITIAL_ROUNDS):
        for kind in kinds if turn % 2 == 0 else kinds[::-1]:
            name = f"r{turn}-{kind.name}"
            rig = Rig(bench.folder / name, name, bench.stack.postgres, DATABASE, bench.stack.kafka, bench.stack.redis)
            try:
                found.setdefault(kind, []).append(initial.measure(rig, kind, ROWS))
            except ContestantError as error:
                if kind.contestant in initial.OURS:
                    raise
                log.warning("%s is left out: %s", kind.label, error)
    return {kind: found[kind] for kind in kinds if len(found.get(kind, ())) == INITIAL_ROUNDS}


def measure_live(bench: Bench) -> tuple[Live, Live]:
    with bench.reader({"mode": "never"}) as (pipeline, _):
        calm = live(bench, pipeline)
        ending = threading.Event()
        asking = threading.Thread(target=ask_again_and_again, args=(bench, pipeline, ending), name="asking")
        asking.start()
        try:
            wait(lambda: any(each.rows for each in bench.statuses(pipeline)), 30, "rows are read")
            before = sum(each.rows for each in bench.statuses(pipeline))
            beside = live(bench, pipeline)
            beside.rows = sum(each.rows for each in bench.statuses(pipeline)) - before
        finally:
            ending.set()
            asking.join(DEADLINE_SECONDS)
    return calm, beside


def ask_again_and_again(bench: Bench, pipeline: str, ending: threading.Event) -> None:
    """The next one is asked for before the last one ends."""
    while not ending.wait(0.2):
        if all(each.state.is_over or each.percent > 50 for each in bench.statuses(pipeline)):
            request = SnapshotRequest(
                uuid.uuid4().hex, SnapshotAsked.START, "bench", unix_microseconds(), tables=("public.wide",)
            )
            bench.redis.rpush(names.snapshot_requests_key(pipeline), request.encode())
            known = len(bench.statuses(pipeline))
            wait(lambda known=known: len(bench.statuses(pipeline)) > known, 30, "it is taken")  # type: ignore[misc]


def live(bench: Bench, pipeline: str) -> Live:
    """As `make bench-reader` measures it."""
    consumer = consumer_at_end(bench, pipeline)
    script = bench.folder / "live.sql"
    script.write_text("INSERT INTO live (note) VALUES ('some text of a usual length');\n")
    dsn = bench.stack.postgres.dsn(DATABASE)
    pgbench = [str(bench.stack.postgres.binaries / "pgbench"), "-n", "-M", "prepared", "-f", str(script), "-c", "8"]
    [(before,)] = bench.source.execute("SELECT count(*) FROM live")
    writing = subprocess.Popen(
        [*pgbench, "-R", str(LIVE_RATE), "-T", str(LIVE_SECONDS), dsn],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    took: list[float] = []
    arrivals = Arrivals()
    while writing.poll() is None:
        took += late(consumer, arrivals)
    [(after,)] = bench.source.execute("SELECT count(*) FROM live")
    deadline = time.monotonic() + DEADLINE_SECONDS
    while len(took) < after - before and time.monotonic() < deadline:
        took += late(consumer, arrivals)
    assert len(took) == after - before, f"{after - before} transactions were written, {len(took)} arrived"
    consumer.close()
    took.sort()
    return Live(took[len(took) // 2], took[len(took) * 99 // 100], took=took)


def consumer_at_end(bench: Bench, pipeline: str) -> Consumer:
    settings = {"bootstrap.servers": bench.stack.kafka.bootstrap, "group.id": "bench", "fetch.wait.max.ms": 2}
    consumer = Consumer(settings)
    topic = names.raw_topic(pipeline)
    end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=10)[1]
    consumer.assign([TopicPartition(topic, 0, end)])
    return consumer


@contextmanager
def running(folder: Path) -> Iterator[Bench]:
    folder.chmod(0o755)
    with Stack(folder, databases=[DATABASE]) as stack:
        client = redis.Redis.from_url(stack.redis.url)
        with psycopg.connect(stack.postgres.dsn(DATABASE), autocommit=True) as source, client:
            source.execute(TABLES)
            source.execute(INSERT, [ROWS])
            source.execute("VACUUM ANALYZE wide")
            source.execute(f"CREATE PUBLICATION {PUBLICATION} FOR TABLE {initial.TABLE}".encode())
            yield Bench(stack, source, folder, client)


if __name__ == "__main__":
    main()
