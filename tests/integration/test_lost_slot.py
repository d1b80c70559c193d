"""docs/operations/slot-lost.md as an operator walks it, by its own commands: to a pipeline that has begun anew."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Message
from kit.admin_process import AdminPlace, admin_place
from kit.fleet import Service, service, spark_jars
from kit.topics import inbox
from kit.wait import wait

from tidegate.errors import ExitCode

pytestmark = pytest.mark.timeout(600)
START_SECONDS = 240
SILENT_SECONDS = 30
"""A service that was stopped counts as running for five."""


@pytest.fixture
def place(kafka, redis, database, prefix: str, tmp_path: Path) -> Iterator[AdminPlace]:
    servers = {"dsn": database.dsn, "bootstrap": kafka.bootstrap, "redis_url": redis.url}
    with admin_place(tmp_path, prefix, **servers) as place:
        place.source.execute("CREATE TABLE orders (id int PRIMARY KEY, note text)")
        yield place


@pytest.fixture
def fleet(place: AdminPlace) -> Iterator[tuple[Service, Service]]:
    environ = place.environ | spark_jars()
    with (
        service("tidegate-reader", place.file, environ) as reader,
        service("tidegate-processor", place.file, environ) as processor,
    ):
        reader.start()
        processor.start()
        yield reader, processor


def test_a_lost_slot_is_begun_anew_by_the_runbook(place: AdminPlace, fleet: tuple[Service, Service]) -> None:
    reader, processor = fleet
    name, slot = place.config.pipeline, place.config.source.slot.name
    with inbox(place.bootstrap, f"{name}.public.orders") as box:
        begun(reader, 1)
        place_rows(place, "before", range(1, 6))
        box.until(lambda found: len(found) >= 5, START_SECONDS, "what came before")

        # The slot is given up on purpose, and what is written then is in no WAL that anybody keeps.
        assert reader.stop() == 0
        assert place.command("slot", "drop", slot, "--yes").returncode == 0
        place_rows(place, "in the gap", range(6, 7))
        reader.start()
        assert reader.wait(60) == ExitCode.LOST
        assert "SLOT_MISSING" in reader.log()
        assert "tidegate pipelines forget" in reader.log()

        # Step 1: the lanes finish, and show how far they are. A processor that runs on would meet another generation.
        wait(lambda: is_refused(place, "PIPELINE_RUNNING"), 60, "the lane has all of the raw topic")
        wait(lambda: shown(place)["lanes"][0]["acked_lsn"], 10, "how far it is, which the reader does not say any more")

        # Step 3: stopped, forgotten, started.
        assert processor.stop(60) == 0
        forgotten = until_done(lambda: place.command("pipelines", "forget", name, "--yes", "--json"))
        assert json.loads(forgotten)["topics"][0] == place.config.raw_topic.name
        reader.start()
        processor.start()
        begun(reader, 2)
        place_rows(place, "after", range(7, 8))
        after = box.until(lambda found: notes(found)[-1:] == ["after"], START_SECONDS, "the stream goes on")
        assert notes(after) == ["before"] * 5 + ["after"], "what was in the gap is in no stream"

        # Step 4: level with the tables.
        done = place.command("snapshot", "start", "--follow", "--wait", "90")
        assert done.returncode == 0, done.stderr
        levelled = box.until(lambda found: ids(found, "SNAPSHOT") >= set(range(1, 8)), 60, "every row as it is")
        assert "in the gap" in notes(levelled)

    wait(lambda: shown(place)["state"] == "up", 60, "every part is up")
    assert len(generations(reader)) == 2
    assert "GENERATION_CHANGED" not in processor.log()
    told = json.loads(place.command("pipelines", "changes", "--json").stdout)["items"]
    assert {"dropSlot", "forgetPipeline"} <= {each["operation"] for each in told if each["status"] == 200}


def begun(reader: Service, epochs: int) -> None:
    """Then the slot is made: what is written from here on is in the stream."""
    wait(lambda: reader.log().count("epoch_begun") >= epochs, 60, "the reader has begun")


def generations(reader: Service) -> set[str]:
    said = [json.loads(line) for line in reader.log().splitlines() if '"epoch_begun"' in line]
    return {each["generation"] for each in said}


def place_rows(place: AdminPlace, note: str, numbers: range) -> None:
    for number in numbers:
        place.source.execute("INSERT INTO orders VALUES (%s, %s)", [number, note])


def shown(place: AdminPlace) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(place.command("pipelines", "show", "--json").stdout)
    return found


def is_refused(place: AdminPlace, code: str) -> bool:
    """It is one or the other; nothing is deleted."""
    done = place.command("pipelines", "forget", place.config.pipeline, "--yes")
    assert done.returncode == ExitCode.LOST, done.stderr
    return code in done.stderr


def until_done(command: Callable[[], Any]) -> str:
    """What it says once it is not refused for those who were stopped a moment ago."""

    def said() -> str:
        done = command()
        assert done.returncode == 0 or "PIPELINE_RUNNING" in done.stderr, done.stderr
        return str(done.stdout)

    return wait(said, SILENT_SECONDS, "nobody is said to run", every_seconds=0.5)


def events(messages: list[Message]) -> list[dict[str, Any]]:
    return [json.loads(message.value()) for message in messages]


def notes(messages: list[Message]) -> list[str]:
    return [event["payload"]["row"]["note"] for event in events(messages) if event["payload"].get("row")]


def ids(messages: list[Message], operation: str) -> set[int]:
    found = [event for event in events(messages) if event["operation"] == operation]
    return {int(event["payload"]["row"]["id"]) for event in found}
