"""Runs what a lane runs, in Spark's JVM and with a broker of its own, and keeps the classes that were loaded for that.

python tools/archive_spark.py        prints where the archive is; class_archive.py says what it is good for
"""

import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tidegate.config.load import pipeline_from
from tidegate.config.pipeline import PipelineConfig
from tidegate.contracts import names
from tidegate.stack.jars import ensure
from tidegate.stack.kafka import Kafka
from tidegate_processor.spark import class_archive
from tidegate_processor.spark.query import start_query
from tidegate_processor.spark.session import JARS_VARIABLE, open_session, warm_up
from tidegate_processor.stage import StageSettings

RECORDS = 100
DEADLINE_SECONDS = 120.0
TRIGGERS = ("realtime", "batch")
NOBODY = "127.0.0.1:1"


def main() -> int:
    place = class_archive.place()
    place.parent.mkdir(parents=True, exist_ok=True)
    part = place.with_name(f"{place.name}.{os.getpid()}")
    if not any("spark-sql-kafka" in jar for jar in class_archive.class_path(())):  # an image has it among Spark's own
        os.environ.setdefault(JARS_VARIABLE, os.pathsep.join(str(jar) for jar in ensure("spark")))
    try:
        with tempfile.TemporaryDirectory(prefix="tidegate-archive-") as folder:
            made = _make(part, Path(folder))
        if not made:
            print("this Java has written no archive: starts go without one", file=sys.stderr)
            return 0
        part.replace(place)
    finally:
        part.unlink(missing_ok=True)
    print(place)
    return 0


def _make(part: Path, folder: Path) -> bool:
    kafka = Kafka(folder / "kafka")
    try:
        kafka.start()
        config = _config(kafka.bootstrap)
        _fill(config)
        session = open_session(config, archive_to=part)
        warm_up(session)
        for trigger in TRIGGERS:
            _run(session, config, trigger, folder)
        _end(session)
    finally:
        kafka.stop()
    return part.is_file()


def _config(bootstrap: str) -> PipelineConfig:
    values = {
        "pipeline": "archive",
        "source": {
            "type": "postgres",
            "dsn": f"postgresql://nobody@{NOBODY}/none",
            "publication": {"manage": False, "names": ["none"]},
        },
        "kafka": {"bootstrap": bootstrap},
        "redis": {"url": f"redis://{NOBODY}/0"},
        "sinks": [{"name": trigger, "type": "kafka_topics", "trigger": trigger} for trigger in TRIGGERS],
    }
    return pipeline_from(values)


def _fill(config: PipelineConfig) -> None:
    topics = [config.raw_topic.name, names.scratch_topic(config.pipeline)]
    admin = AdminClient({"bootstrap.servers": config.kafka.bootstrap})
    for made in admin.create_topics([NewTopic(topic, 1, 1) for topic in topics]).values():
        made.result(DEADLINE_SECONDS)
    producer = Producer({"bootstrap.servers": config.kafka.bootstrap})
    for _ in range(RECORDS):
        producer.produce(config.raw_topic.name, bytes(4096))
    producer.flush(DEADLINE_SECONDS)


def _run(session: Any, config: PipelineConfig, trigger: str, folder: Path) -> None:
    seen = folder / trigger

    def stage(_: StageSettings, batches: Iterator[Any]) -> Iterator[Any]:
        for _batch in batches:
            seen.touch()
        return iter(())

    settings = StageSettings(config, trigger, "", 1)
    query = start_query(
        session, config, settings, starting="earliest", checkpoint=folder / f"{trigger}-checkpoint", stage=stage
    )
    _await(seen)
    query.stop()


def _await(file: Path) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not file.exists():
        if time.monotonic() > deadline:
            raise SystemExit("Spark did not read what was written for it")
        time.sleep(0.05)


def _end(session: Any) -> None:
    """The JVM writes the archive when it ends, and it ends with its input."""
    java = session.sparkContext._gateway.proc
    session.stop()
    java.stdin.close()
    java.wait(DEADLINE_SECONDS)


if __name__ == "__main__":
    sys.exit(main())
