"""A lane with transforms between real servers: what a sink gets, and what nobody gets."""

import json
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
import yaml
from kit.fleet import Service, service, spark_jars
from kit.pipelines import document, secrets_of, written
from kit.topics import inbox
from kit.wait import wait

from tidegate.pgoutput.rewrite import hashed, token

pytestmark = pytest.mark.timeout(300)
START_SECONDS = 120
CANARY = "canary-7f3a"
SALT = "b7e151628aed2a6abf7158809cf4f3c7"
SCHEMA = """
CREATE TABLE people (mail text PRIMARY KEY, id integer, phone text, note text, amount numeric);
CREATE TABLE audit (id integer PRIMARY KEY, what text);
"""
MASKS = [
    {"type": "mask", "options": {"columns": ["mail"], "how": "hash", "salt": "${env:TIDEGATE_TEST_SALT}"}},
    {
        "type": "mask",
        "options": {
            "columns": ["id"],
            "tables": ["public.people"],
            "how": "tokenise",
            "salt": "${env:TIDEGATE_TEST_SALT}",
        },
    },
]
OWN = [
    {"type": "mask", "options": {"columns": ["not*"], "how": "redact", "replacement": "gone"}},
    {"type": "drop_columns", "options": {"tables": ["public.people"], "columns": ["phone"]}},
    {"type": "rename_fields", "options": {"tables": ["public.people"], "fields": {"mail": "person"}}},
    {"type": "filter", "options": {"tables": ["public.audit"], "operations": ["INSERT"]}},
    {"type": "compute", "options": {"tables": ["public.people"], "columns": {"label": "note || ' ' || amount * 2"}}},
]


@dataclass
class Masked:
    pipeline: str
    bootstrap: str
    source: psycopg.Connection[Any]
    reader: Service
    processor: Service
    file: Path


@pytest.fixture
def masked(postgres, kafka, redis, database, prefix: str, tmp_path: Path) -> Iterator[Masked]:
    values = document(prefix, kafka=kafka.bootstrap, redis_url=redis.url, postgres=database.dsn, transforms=MASKS)
    values["sinks"][0]["transforms"] = OWN
    file = written(tmp_path, values)
    environ = secrets_of(redis_url=redis.url, postgres=database.dsn) | spark_jars() | {"TIDEGATE_TEST_SALT": SALT}
    with (
        psycopg.connect(database.dsn, autocommit=True) as source,
        service("tidegate-processor", file, environ) as processor,
        service("tidegate-reader", file, environ) as reader,
    ):
        source.execute(SCHEMA)
        processor.start()
        reader.start()
        yield Masked(prefix, kafka.bootstrap, source, reader, processor, file)


def test_of_what_is_masked_nothing_leaves_the_lane(masked: Masked) -> None:
    wait(lambda: slot_exists(masked), 60, "the reader has made its slot")
    mail = f"{CANARY}@example.com"
    masked.source.execute("INSERT INTO people VALUES (%s, 7, %s, %s, 1.50)", [mail, CANARY, CANARY])
    masked.source.execute("UPDATE people SET amount = 2 WHERE mail = %s", [mail])
    masked.source.execute("UPDATE people SET mail = %s WHERE mail = %s", [CANARY, mail])
    masked.source.execute("DELETE FROM people WHERE mail = %s", [CANARY])

    with inbox(masked.bootstrap, f"{masked.pipeline}.public.people") as box:
        messages = box.until(lambda found: len(found) >= 4, START_SECONDS, "four events")

    first, second = hashed(mail.encode(), SALT.encode()).decode(), hashed(CANARY.encode(), SALT.encode()).decode()
    payloads = [json.loads(message.value())["payload"] for message in messages]
    assert [json.loads(message.key()) for message in messages] == [
        {"person": each} for each in (first, first, second, second)
    ]
    row = {"person": first, "id": token(b"7", SALT.encode()).decode(), "note": "gone", "amount": "1.50"}
    assert row | {"label": "gone 3"} == payloads[0]["row"]
    assert row | {"amount": "2", "label": "gone 4"} == payloads[1]["row"]
    assert ({"person": first}, second) == (payloads[2]["old"], payloads[2]["row"]["person"])
    assert (None, {"person": second}) == (payloads[3]["row"], payloads[3]["old"])
    assert not any(CANARY.encode() in message.value() + message.key() for message in messages)
    assert CANARY not in masked.processor.log() + masked.reader.log()


def test_a_filter_leaves_out_and_the_rest_goes_on(masked: Masked) -> None:
    wait(lambda: slot_exists(masked), 60, "the reader has made its slot")
    masked.source.execute("INSERT INTO audit VALUES (1, 'kept')")
    masked.source.execute("UPDATE audit SET what = 'left out'")
    masked.source.execute("TRUNCATE audit")
    masked.source.execute("INSERT INTO audit VALUES (2, 'kept too')")

    with inbox(masked.bootstrap, f"{masked.pipeline}.public.audit") as box:
        messages = box.until(lambda found: len(found) >= 2, START_SECONDS, "two events")

    assert [json.loads(message.value())["operation"] for message in messages] == ["INSERT", "INSERT"]
    assert [json.loads(message.value())["payload"]["row"]["id"] for message in messages] == [1, 2]


def test_masks_are_taken_over_while_the_lane_runs_and_a_broken_file_changes_nothing(masked: Masked) -> None:
    wait(lambda: slot_exists(masked), 60, "the reader has made its slot")
    with inbox(masked.bootstrap, f"{masked.pipeline}.public.people") as box:
        masked.source.execute("INSERT INTO people VALUES ('a', 1, '', 'open', 1)")
        box.until(lambda found: len(found) >= 1, START_SECONDS, "the first event")
        values = yaml.safe_load(masked.file.read_text())
        values["sinks"][0]["transforms"].append(
            {"type": "mask", "options": {"columns": ["amount"], "tables": ["public.people"], "how": "zero"}}
        )
        masked.file.write_text(yaml.safe_dump(values))
        os.kill(masked.processor.pid, signal.SIGHUP)
        wait(lambda: "lane_reconfigured" in masked.processor.log(), 60, "the lane goes by the new file")
        masked.source.execute("INSERT INTO people VALUES ('b', 2, '', 'open', 2)")
        box.until(lambda found: len(found) >= 2, START_SECONDS, "the second event")
        masked.file.write_text("transforms: [{type: mask}]")
        wait(lambda: "config_refused" in masked.processor.log(), 30, "the broken file is refused")
        masked.source.execute("INSERT INTO people VALUES ('c', 3, '', 'open', 3)")
        messages = box.until(lambda found: len(found) >= 3, START_SECONDS, "the third event")

    assert [json.loads(message.value())["payload"]["row"]["amount"] for message in messages] == ["1", "0", "0"]


def test_a_lane_stands_where_a_transform_does_not_fit_a_table_and_goes_on_when_the_file_is_mended(
    masked: Masked,
) -> None:
    wait(lambda: slot_exists(masked), 60, "the reader has made its slot")
    mended = masked.file.read_text()
    values = yaml.safe_load(mended)
    values["sinks"][0]["transforms"].insert(0, {"type": "drop_columns", "options": {"columns": ["mail"]}})
    with inbox(masked.bootstrap, f"{masked.pipeline}.public.people") as box:
        masked.source.execute("INSERT INTO people VALUES ('a', 1, '', 'open', 1)")
        box.until(lambda found: len(found) >= 1, START_SECONDS, "the first event")
        masked.file.write_text(yaml.safe_dump(values))
        wait(lambda: "lane_reconfigured" in masked.processor.log(), 60, "the changed file is seen")
        masked.source.execute("INSERT INTO people VALUES ('b', 2, '', 'open', 2)")
        wait(lambda: "TRANSFORM_KEY_DROPPED" in masked.processor.log(), START_SECONDS, "the lane says why it stands")
        assert len(box.until(bool, 1, "the first event")) == 1
        masked.file.write_text(mended)
        messages = box.until(lambda found: len(found) >= 2, START_SECONDS, "the second event")

    assert [json.loads(message.value())["payload"]["row"]["amount"] for message in messages] == ["1", "2"]


def slot_exists(masked: Masked) -> bool:
    found = masked.source.execute(
        "SELECT confirmed_flush_lsn IS NOT NULL FROM pg_replication_slots WHERE slot_name = %s",
        [f"tidegate_{masked.pipeline.replace('-', '_')}"],
    ).fetchone()
    return bool(found and found[0])
