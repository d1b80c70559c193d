"""Rows that a real reader reads while a table is written to, through a lane: what is kept by key ends as the table."""

import random
import threading
from pathlib import Path
from typing import Any

import psycopg
import pytest
from confluent_kafka import Consumer, TopicPartition
from kit.fleet import Service, service
from kit.memory_sink import MemorySink
from kit.pipelines import document, secrets_of, written
from kit.wait import wait

from tidegate.config.kafka import KafkaConfig
from tidegate.config.sinks import SinkConfig, SinkType
from tidegate.contracts.frame import FrameKind, decode_frame
from tidegate.contracts.mark import MarkKind
from tidegate.contracts.snapshot import SnapshotHead, decode_snapshot
from tidegate.events import Operation
from tidegate.pgoutput.messages import UNCHANGED, Delete, Insert, Truncate, Update
from tidegate_processor.commit import Delivery
from tidegate_processor.kafka_clients import look_at

pytestmark = pytest.mark.timeout(400)
SECONDS = 120
ROWS = 4000
SCHEMA = """
CREATE TABLE orders (id int PRIMARY KEY, note text, big text);
ALTER TABLE orders ALTER big SET STORAGE EXTERNAL;
INSERT INTO orders SELECT n, E'old\\t\\\\' || n, repeat(n::text, 1000) FROM generate_series(1, %(rows)s) n;
"""
Kept = dict[bytes, tuple[bytes | None, bytes | None]]


class Pipeline:
    def __init__(self, bootstrap: str, topic: str, file: Path, environ: dict[str, str]) -> None:
        self.bootstrap, self.topic, self._file, self._environ = bootstrap, topic, file, environ

    def reader(self, mode: str) -> Any:
        options = ("--set", f"snapshot.mode={mode}", "--set", "snapshot.transaction=100ms")
        return service("tidegate-reader", self._file, self._environ, options)

    def records(self) -> list[tuple[int, bytes | None]]:
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "test", "enable.auto.commit": False})
        try:
            _, end = consumer.get_watermark_offsets(TopicPartition(self.topic, 0), timeout=10)
            consumer.assign([TopicPartition(self.topic, 0, 0)])
            found: list[tuple[int, bytes | None]] = []

            def are_all() -> bool:
                message = consumer.poll(0.2)
                if message is not None:
                    assert message.error() is None
                    found.append((message.offset(), message.value()))
                return len(found) >= end

            wait(are_all, 60, "all records", every_seconds=0)
            return found
        finally:
            consumer.close()

    def deliver(self) -> MemorySink:
        sink = MemorySink()
        records = self.records()
        view = look_at(KafkaConfig(bootstrap=self.bootstrap), self.topic)
        for stop in (len(records) // 2, len(records)):  # the second lane looks back
            start = sink.cursor.next_offset if sink.cursor else 0
            delivery = Delivery(
                "shop",
                SinkConfig(name="events", type=SinkType.KAFKA_TOPICS),
                sink,
                look=lambda: view,
                acked=lambda _: None,
                lineage=lambda: None,
                config_epoch="c",
                incarnation=1,
                read_back=lambda first, end: [each for each in records if first <= each[0] < end],
            )
            delivery.feed(records[start:stop])
            delivery.commit()
            delivery.close()
        return sink


@pytest.fixture
def pipeline(postgres, kafka, redis, database, prefix: str, tmp_path: Path) -> Pipeline:
    values = document(prefix, kafka=kafka.bootstrap, redis_url=redis.url, postgres=database.dsn)
    file = written(tmp_path, values)
    environ = secrets_of(redis_url=redis.url, postgres=database.dsn)
    with psycopg.connect(database.dsn, autocommit=True) as source:
        source.execute(SCHEMA % {"rows": ROWS})
    return Pipeline(kafka.bootstrap, f"tidegate.{prefix}.raw", file, environ)


def kept_by_key(sink: MemorySink) -> Kept:
    rows: Kept = {}
    for change in sink.delivered:
        message = change.message
        if isinstance(message, Truncate):
            rows.clear()
        elif isinstance(message, Delete):
            rows.pop(message.old[0], None)  # type: ignore[arg-type]
        elif isinstance(message, Insert | Update):
            old = message.old[0] if isinstance(message, Update) and message.old else message.new[0]
            before = rows.pop(old, (None, b"never came"))  # type: ignore[arg-type]
            key, note, big = message.new
            rows[key] = (note, before[1] if big is UNCHANGED else big)  # type: ignore[index, assignment]
    return rows


def table(source: psycopg.Connection[Any]) -> Kept:
    rows = source.execute("SELECT id::text, note, big FROM orders").fetchall()
    return {id_.encode(): (note.encode(), big.encode()) for id_, note, big in rows}


def write(dsn: str, stop: threading.Event, seed: int) -> None:
    """Every kind of change, with and without the value that is stored out of line."""
    choose = random.Random(seed)
    with psycopg.connect(dsn, autocommit=True) as source:
        number = 0
        while not stop.is_set():
            number += 1
            key, new = choose.randint(1, ROWS), ROWS + seed * 1_000_000 + number
            match choose.randint(0, 5):
                case 0:
                    source.execute("DELETE FROM orders WHERE id = %s", [key])
                case 1:
                    source.execute("INSERT INTO orders VALUES (%s, 'new', %s)", [new, "n" * 5000])
                case 2:
                    source.execute("UPDATE orders SET id = %s WHERE id = %s", [new, key])
                case 3:
                    source.execute("UPDATE orders SET big = %s WHERE id = %s", [str(number) * 1000, key])
                case _:
                    source.execute("UPDATE orders SET note = %s WHERE id = %s", [f"at {number}", key])


def is_complete(pipeline: Pipeline) -> bool:
    marks = [mark.kind for mark in pipeline.deliver().marks]
    return MarkKind.SNAPSHOT_COMPLETED in marks


def caught_up(pipeline: Pipeline, sentinel: bytes) -> bool:
    return any(sentinel == getattr(change.message, "new", (b"",))[0] for change in pipeline.deliver().delivered)


@pytest.mark.parametrize("beside_the_stream", [False, True], ids=["before the stream", "beside the stream"])
def test_what_is_kept_by_key_ends_as_the_table(pipeline: Pipeline, database: Any, beside_the_stream: bool) -> None:
    stop = threading.Event()
    writers = [threading.Thread(target=write, args=(database.dsn, stop, seed)) for seed in (1, 2)]
    if beside_the_stream:
        with pipeline.reader("never") as reader:
            reader.start()
            wait(lambda: has_begun(reader), SECONDS, "the slot is made")
            assert reader.stop() == 0
    with pipeline.reader("initial") as reader, psycopg.connect(database.dsn, autocommit=True) as source:
        for writer in writers:
            writer.start()
        try:
            reader.start()
            wait(lambda: has_begun(reader) and is_complete(pipeline), SECONDS, "the table is read", every_seconds=2)
        finally:
            stop.set()
            for writer in writers:
                writer.join(30)
        source.execute("INSERT INTO orders VALUES (-1, 'sentinel', '')")
        wait(lambda: caught_up(pipeline, b"-1"), SECONDS, "the stream has come to the end", every_seconds=2)
        sink = pipeline.deliver()
        truth = table(source)

    rows = [change for change in sink.delivered if change.operation is Operation.SNAPSHOT]
    assert rows
    assert beside_the_stream == any(head.has_window for head in heads(pipeline))
    assert len({(change.transaction.commit_lsn, change.ordinal) for change in rows}) == len(rows)
    assert kept_by_key(sink) == truth


def heads(pipeline: Pipeline) -> list[SnapshotHead]:
    frames = (decode_frame(value or b"") for _, value in pipeline.records())
    whole = (frame for frame in frames if frame.header.kind is FrameKind.SNAPSHOT and not frame.header.parts)
    return [decode_snapshot(frame.body).head for frame in whole]


def has_begun(reader: Service) -> bool:
    return "epoch_begun" in reader.log()
