"""Rows that were there before: from the slot's own snapshot to a table's topic, beside changes, once each."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from integration.test_thin_path import COLUMNS, INSERT, SCHEMA, TYPES
from kit.fleet import Service, service, spark_jars
from kit.pipelines import document, secrets_of, written
from kit.topics import inbox

pytestmark = pytest.mark.timeout(400)
START_SECONDS = 240
ROWS = 3000


@pytest.fixture
def source(database) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(database.dsn, autocommit=True) as source:
        source.execute(SCHEMA)
        source.execute(INSERT)
        source.execute("INSERT INTO plain SELECT n, E'old\\t\\\\' || n FROM generate_series(1, %s) n", [ROWS])
        yield source


@pytest.fixture
def fleet(postgres, kafka, redis, database, prefix: str, tmp_path: Path) -> Iterator[tuple[Service, Service]]:
    values = document(prefix, kafka=kafka.bootstrap, redis_url=redis.url, postgres=database.dsn)
    file = written(tmp_path, values | {"snapshot": {"mode": "initial"}})
    environ = secrets_of(redis_url=redis.url, postgres=database.dsn) | spark_jars()
    with (
        service("tidegate-processor", file, environ) as processor,
        service("tidegate-reader", file, environ) as reader,
    ):
        yield processor, reader


def test_rows_of_every_type_come_before_the_changes_and_once(
    source: psycopg.Connection[Any], fleet: tuple[Service, Service], kafka, prefix: str
) -> None:
    processor, reader = fleet
    processor.start()
    reader.start()
    with inbox(kafka.bootstrap, f"{prefix}.public.plain") as box:
        box.until(lambda found: len(found) >= ROWS + 2, START_SECONDS, "the rows that were there")
        processor.kill()
        source.execute("UPDATE plain SET note = 'new' WHERE id <= 10")
        source.execute("DELETE FROM plain WHERE id = 1")
        processor.start()
        box.until(lambda found: len(found) >= ROWS + 13, START_SECONDS, "the changes")
        found = [(message.key(), json.loads(message.value())) for message in box.messages]
    with inbox(kafka.bootstrap, f"{prefix}.public.everything") as box:
        _, message, _ = box.until(lambda found: len(found) == 3, START_SECONDS, "the row of every type")

    operations = [event["operation"] for _, event in found]
    rows_read = ["SNAPSHOT_STARTED", *["SNAPSHOT"] * ROWS, "SNAPSHOT_COMPLETED"]
    assert operations == [*rows_read, *["UPDATE"] * 10, "DELETE"]
    assert len({event["id"] for _, event in found}) == ROWS + 13
    kept = {key: event["payload"]["row"] for key, event in found}
    rows = source.execute("SELECT id, note FROM plain").fetchall()
    assert {key: row for key, row in kept.items() if row is not None} == {
        json.dumps({"id": id_}, separators=(",", ":")).encode(): {"id": id_, "note": note} for id_, note in rows
    }
    everything = json.loads(message.value())
    assert (everything["operation"], everything["source"]["snapshot"]) == ("SNAPSHOT", True)
    row = everything["payload"]["row"]
    assert {name: row[name] for name in COLUMNS} == dict(zip(COLUMNS, (wanted for *_, wanted in TYPES), strict=True))
