"""A lost slot, from source to topics: nothing by default; else a gap that all are told of, and every row as it is."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from confluent_kafka import Message
from kit.fleet import Service, service, spark_jars
from kit.pipelines import document, secrets_of, written
from kit.topics import inbox
from kit.wait import wait

from tidegate.errors import ExitCode

pytestmark = pytest.mark.timeout(400)
START_SECONDS = 240
OPTIONS = ("--set", "source.slot.on_lost=resnapshot")


@pytest.fixture
def source(database) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(database.dsn, autocommit=True) as source:
        source.execute("CREATE TABLE orders (id int PRIMARY KEY, note text)")
        yield source


@pytest.fixture
def config(postgres, kafka, redis, database, prefix: str, tmp_path: Path) -> Path:
    values = document(prefix, kafka=kafka.bootstrap, redis_url=redis.url, postgres=database.dsn)
    return written(tmp_path, values)


@pytest.fixture
def environ(redis, database) -> dict[str, str]:
    return secrets_of(redis_url=redis.url, postgres=database.dsn) | spark_jars()


@pytest.fixture
def processor(config: Path, environ: dict[str, str]) -> Iterator[Service]:
    with service("tidegate-processor", config, environ) as processor:
        yield processor


def drop_slot(source: psycopg.Connection[Any]) -> None:
    """Behind a pipeline that runs: as soon as the server lets it go."""
    source.execute(
        "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots"
        " WHERE active AND database = current_database()"
    )

    def is_dropped() -> bool:
        try:
            source.execute(
                "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots"
                " WHERE database = current_database()"
            )
        except psycopg.errors.ObjectInUse:
            return False
        return True

    wait(is_dropped, 20, "the slot is dropped")


def test_a_slot_that_is_dropped_behind_a_running_pipeline(
    source: psycopg.Connection[Any],
    config: Path,
    environ: dict[str, str],
    processor: Service,
    kafka,
    prefix: str,
) -> None:
    processor.start()
    with (
        service("tidegate-reader", config, environ) as reader,
        inbox(kafka.bootstrap, f"{prefix}.public.orders") as box,
    ):
        reader.start()
        wait(lambda: "epoch_begun" in reader.log(), START_SECONDS, "the slot is made")
        source.execute("INSERT INTO orders SELECT n, 'before' FROM generate_series(1, 5) n")
        box.until(lambda found: len(found) >= 5, START_SECONDS, "what came before")
        drop_slot(source)
        assert reader.wait(60) in (ExitCode.RETRY, ExitCode.LOST)
        source.execute("UPDATE orders SET note = 'in the gap' WHERE id = 2")
        source.execute("DELETE FROM orders WHERE id = 3")
        source.execute("INSERT INTO orders VALUES (6, 'in the gap')")
        reader.start()
        assert reader.wait(60) == ExitCode.LOST, "by default a person is asked"

        with service("tidegate-reader", config, environ, OPTIONS) as repairing:
            repairing.start()
            box.until(lambda found: operations(found).count("SNAPSHOT_COMPLETED") == 1, 60, "the rows are read again")
            source.execute("UPDATE orders SET note = 'after' WHERE id = 1")
            source.execute("DELETE FROM orders WHERE id = 4")
            messages = box.until(lambda found: operations(found)[-1] == "DELETE", 60, "the stream goes on")
            assert repairing.stop() == 0

    expected = ["INSERT"] * 5 + ["SNAPSHOT_STARTED"] + ["SNAPSHOT"] * 5 + ["SNAPSHOT_COMPLETED", "UPDATE", "DELETE"]
    assert expected == operations(messages)
    events = [json.loads(message.value()) for message in messages]
    told = [event["payload"]["snapshot"] for event in events if event["operation"].startswith("SNAPSHOT_")]
    assert [(each["reason"], each.get("outcome")) for each in told] == [
        ("slot_missing", None),
        ("slot_missing", "done"),
    ]
    assert len({event["id"] for event in events}) == len(events)
    kept = {}
    for event in events:
        if (row := event["payload"]["row"]) is not None:
            kept[row["id"]] = row["note"]
        elif event["operation"] == "DELETE":
            kept.pop(event["payload"]["old"]["id"])
    assert kept.pop(3) == "before", "deleted in the gap: no event names it"
    assert dict(source.execute("SELECT id, note FROM orders").fetchall()) == kept
    assert "gap_passed" in processor.log()
    assert "lane_lost" not in processor.log()


def operations(messages: list[Message]) -> list[str]:
    return [json.loads(message.value())["operation"] for message in messages]
