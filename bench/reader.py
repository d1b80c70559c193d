"""The reader alone, beside `pg_recvlogical` on the same WAL: how fast, at what CPU and memory, how late, how soon back.

Backlog: rows wait in the slot, and the clock runs from the slot being taken to the last frame acknowledged by Kafka
(the slot's confirmed LSN follows it, for no sink is required here). Live: after some warm seconds pgbench commits at a
fixed rate, and a consumer of the raw topic compares each commit's time with its own clock. Commits are counted: a run
that lost one fails.
"""

import os
import struct
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import psycopg
import yaml
from confluent_kafka import Consumer, TopicPartition
from kit.fleet import Service, service
from kit.pipelines import document, secrets_of
from kit.wait import wait

from bench.figures import QUICK, Figure, report
from bench.source import flushed_end
from tidegate.contracts.frame import Frame, FrameKind, body_messages, decode_frame
from tidegate.contracts.names import raw_topic
from tidegate.lsn import Lsn, parse_lsn
from tidegate.pgoutput.decode import decode_message
from tidegate.pgoutput.messages import Relation
from tidegate.stack.up import Stack

NAME = "bench"
SLOT = f"tidegate_{NAME}"
ROWS = 200_000 if QUICK else 1_000_000
LARGE_TRANSACTION = 200_000 if QUICK else 10_000_000
ROUNDS = 2 if QUICK else 4
TRANSACTIONS = 100
IDLE_SECONDS = 5.0 if QUICK else 20.0
LIVE_SECONDS, WARM_SECONDS = (5, 3) if QUICK else (10, 5)
LIVE_RATE = 1_000
DEADLINE_SECONDS = 300.0
# The server's clock starts in the year 2000.
POSTGRES_EPOCH_SECONDS = 946_684_800
_COMMIT = struct.Struct(">cBQQq")
_RELATION_ID = struct.Struct(">cI")

TABLES = """
CREATE TABLE wide (id bigint, a text, b text, n numeric, t timestamptz, f float8, i int, s text, j text, k text);
ALTER TABLE wide REPLICA IDENTITY FULL;
CREATE TABLE live (id bigserial PRIMARY KEY, note text);
"""
INSERT = """
INSERT INTO wide SELECT g, 'abc', 'defghij' || g, 12.5, now(), 1.5, g, repeat('x', 60), repeat('y', 40), 'z'
FROM generate_series(1, %s) g
"""


@dataclass
class Bench:
    stack: Stack
    source: psycopg.Connection[Any]
    reader: Service

    def value(self, query: str, *parameters: object) -> Any:
        row = self.source.execute(query.encode(), parameters or None).fetchone()
        return row and row[0]

    def wal_end(self) -> Lsn:
        return parse_lsn(flushed_end(self.source))

    def confirmed(self) -> Lsn:
        return parse_lsn(
            self.value("SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE slot_name = %s", SLOT) or "0/0"
        )

    def is_active(self) -> bool:
        return bool(self.value("SELECT active FROM pg_replication_slots WHERE slot_name = %s", SLOT))

    def start(self) -> float:
        """When the reader had its slot."""
        self.reader.start()
        wait(self.is_active, 30, "the reader has its slot", every_seconds=0.005)
        return time.monotonic()

    def stop(self) -> None:
        assert self.reader.stop(10) == 0
        wait(lambda: not self.is_active(), 10, "the slot is let go")

    def caught_up(self) -> float:
        end = self.wal_end()
        wait(lambda: self.confirmed() >= end, DEADLINE_SECONDS, "the reader has caught up", every_seconds=0.02)
        return time.monotonic()


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder, running(Path(folder)) as bench:
        idle = measure_idle(bench)
        backlog = [measure_backlog(bench, ROWS, TRANSACTIONS, limit_first=turn % 2 == 0) for turn in range(ROUNDS)]
        one = measure_backlog(bench, LARGE_TRANSACTION, 1, limit_first=True)
        bench.source.execute("CHECKPOINT")
        measure_live(bench, WARM_SECONDS)
        live = [measure_live(bench, LIVE_SECONDS) for _ in range(ROUNDS)]
        back = [measure_restart(bench) for _ in range(ROUNDS)]
    per_million = 1e6 / ROWS
    figures = [
        Figure("idle, RSS", "MB", [idle[0]], goal=64),
        Figure("idle, CPU", "%", [idle[1]], goal=0.5),
        Figure("backlog, changes a second", "/s", [ROWS / run["seconds"] for run in backlog]),
        Figure("backlog, share of pg_recvlogical", "x", [run["limit"] / run["seconds"] for run in backlog], 0.95, True),
        Figure("backlog, CPU a million", "s", [run["cpu"] * per_million for run in backlog], goal=3),
        Figure("backlog, highest RSS", "MB", [run["peak"] for run in backlog], goal=96),
        Figure(f"one transaction of {LARGE_TRANSACTION:,} rows, highest RSS", "MB", [one["peak"]], goal=96),
        Figure(f"{LIVE_RATE:,} tx/s, commit to frame in Kafka, p50", "ms", [run[0] for run in live], goal=5),
        Figure(f"{LIVE_RATE:,} tx/s, commit to frame in Kafka, p99", "ms", [run[1] for run in live], goal=15),
        Figure(f"{LIVE_RATE:,} tx/s, CPU", "%", [run[2] for run in live]),
        Figure("kill -9 and restart to the first new frame", "s", back, goal=3),
    ]
    notes = {
        "rows": str(ROWS),
        "transactions": str(TRANSACTIONS),
        "live transactions": str(sum(run[3] for run in live)),
    }
    report("reader", figures, ("tidegate", "tidegate-reader", "aiokafka", "psycopg", "redis"), notes)


def measure_idle(bench: Bench) -> tuple[float, float]:
    bench.start()
    bench.caught_up()
    before, begun = cpu_seconds(bench.reader.pid), time.monotonic()
    threading.Event().wait(IDLE_SECONDS)  # What is measured is that nothing happens.
    spent = (cpu_seconds(bench.reader.pid) - before) / (time.monotonic() - begun)
    rss = psutil.Process(bench.reader.pid).memory_info().rss / 2**20
    bench.stop()
    return rss, spent * 100


def measure_backlog(bench: Bench, rows: int, transactions: int, *, limit_first: bool) -> dict[str, float]:
    """The walsender decodes the same WAL for both, one after the other: whoever comes second finds it warm."""
    bench.source.execute("SELECT pg_create_logical_replication_slot('bench_limit', 'pgoutput')")
    with bench.source.cursor() as cursor:
        for _ in range(transactions):
            cursor.execute(INSERT, [rows // transactions])
    limit = limit_seconds(bench) if limit_first else None
    begun = bench.start()
    cpu = cpu_seconds(bench.reader.pid)
    seconds = bench.caught_up() - begun
    spent, peak = cpu_seconds(bench.reader.pid) - cpu, peak_mb(bench.reader.pid)
    bench.stop()
    return {"seconds": seconds, "limit": limit or limit_seconds(bench), "cpu": spent, "peak": peak}


def limit_seconds(bench: Bench) -> float:
    dsn = bench.stack.postgres.dsn(NAME)
    program = str(bench.stack.postgres.binaries / "pg_recvlogical")
    end = flushed_end(bench.source)
    command = [program, "--slot", "bench_limit", "-d", dsn]
    options = ["-o", "proto_version=4", "-o", f"publication_names={SLOT}", "-f", "/dev/null"]
    begun = time.monotonic()
    subprocess.run([*command, "--start", "--no-loop", "--endpos", end, *options], check=True, capture_output=True)
    seconds = time.monotonic() - begun
    subprocess.run([*command, "--drop-slot"], check=True, capture_output=True)
    return seconds


def measure_live(bench: Bench, seconds: int) -> tuple[float, float, float, int]:
    bench.start()
    bench.caught_up()
    consumer = consumer_at_end(bench)
    script = Path(tempfile.mkstemp(suffix=".sql")[1])
    script.write_text("INSERT INTO live (note) VALUES ('some text of a usual length');\n")
    pgbench = [str(bench.stack.postgres.binaries / "pgbench"), "-n", "-M", "prepared", "-f", str(script), "-c", "8"]
    rate = ["-R", str(LIVE_RATE), "-T", str(seconds), bench.stack.postgres.dsn(NAME)]
    before, begun = cpu_seconds(bench.reader.pid), time.monotonic()
    writing = subprocess.Popen([*pgbench, *rate], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    took: list[float] = []
    arrivals = Arrivals()
    while writing.poll() is None:
        took += late(consumer, arrivals)
    share = (cpu_seconds(bench.reader.pid) - before) / (time.monotonic() - begun) * 100
    written = bench.value("SELECT count(*) FROM live")
    deadline = time.monotonic() + 10
    while len(took) < written and time.monotonic() < deadline:
        took += late(consumer, arrivals)
    assert len(took) == written, f"{written} transactions were written, {len(took)} arrived"
    script.unlink()
    consumer.close()
    bench.source.execute("TRUNCATE live")
    bench.stop()
    took.sort()
    return took[len(took) // 2], took[len(took) * 99 // 100], share, written


class Arrivals:
    """Of transactions with an insert into `live`: snapshots commit too, and would hide as many losses."""

    def __init__(self) -> None:
        self._relations: set[int] = set()
        self._is_live = False

    def of(self, frame: Frame) -> list[int]:
        """Commit times of those that this frame completes, microseconds since 2000."""
        self._learn(frame)
        found = []
        for _, body in body_messages(frame):
            message = bytes(body)
            if message[:1] == b"I":
                self._is_live |= _RELATION_ID.unpack_from(message)[1] in self._relations
            elif message[:1] == b"C":
                found += [_COMMIT.unpack_from(message)[4]] if self._is_live else []
                self._is_live = False
        return found

    def _learn(self, frame: Frame) -> None:
        for entry in frame.schema:
            described = decode_message(entry.message) if entry.message[:1] == b"R" else None
            if isinstance(described, Relation) and described.name == "live":
                self._relations.add(described.relation_id)


def late(consumer: Consumer, arrivals: Arrivals) -> list[float]:
    """Milliseconds from each commit to now, of what has arrived."""
    message = consumer.poll(0.05)
    if message is None:
        return []
    assert message.error() is None, message.error()
    now = (time.time() - POSTGRES_EPOCH_SECONDS) * 1000
    frame = decode_frame(message.value())
    if frame.header.kind is not FrameKind.WAL:
        return []
    return [now - committed / 1000 for committed in arrivals.of(frame)]


def measure_restart(bench: Bench) -> float:
    bench.start()
    bench.caught_up()
    bench.source.execute("INSERT INTO live (note) VALUES ('before')")
    bench.caught_up()
    bench.reader.kill()
    begun = time.monotonic()
    bench.source.execute("INSERT INTO live (note) VALUES ('new')")
    bench.reader.start()
    seconds = bench.caught_up() - begun
    bench.stop()
    return seconds


def consumer_at_end(bench: Bench) -> Consumer:
    settings = {"bootstrap.servers": bench.stack.kafka.bootstrap, "group.id": "bench", "fetch.wait.max.ms": 2}
    consumer = Consumer(settings)
    topic = raw_topic(NAME)
    end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=10)[1]
    consumer.assign([TopicPartition(topic, 0, end)])
    return consumer


def cpu_seconds(pid: int) -> float:
    times = psutil.Process(pid).cpu_times()
    return times.user + times.system


def peak_mb(pid: int) -> float:
    """The kernel's own high-water mark (proc(5), VmHWM)."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    [found] = [line for line in lines if line.startswith("VmHWM:")]
    return int(found.split()[1]) / 1024


@contextmanager
def running(folder: Path) -> Iterator[Bench]:
    folder.chmod(0o755)
    with Stack(folder, databases=[NAME]) as stack:
        dsn, file = stack.postgres.dsn(NAME), folder / "pipeline.yaml"
        values = document(NAME, kafka=stack.kafka.bootstrap, redis_url=stack.redis.url, postgres=dsn)
        values["sinks"] = [{"name": "events", "type": "kafka_topics", "required": False}]
        file.write_text(yaml.safe_dump(values))
        environ = {**os.environ, **secrets_of(redis_url=stack.redis.url, postgres=dsn)}
        with psycopg.connect(dsn, autocommit=True) as source, service("tidegate-reader", file, environ) as reader:
            source.execute(TABLES)
            yield Bench(stack, source, reader)


if __name__ == "__main__":
    main()
