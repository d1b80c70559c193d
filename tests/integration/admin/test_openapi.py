"""The API against its own description: generated requests and sequences of them, none of which may make it fail."""

import json
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from kit.admin_process import AdminPlace, admin_place
from kit.frames import RawLog, row
from kit.letters import make_letter
from kit.servers import drop_database
from kit.topics import append, make_topic

from tidegate.contracts import names
from tidegate_processor.desk import Desk

EXAMPLES = 15
SEED = 1
CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"
LEFT_OUT = ("streamEvents", "readyz")
"""One that has no end, and one that says 503 when a part is down: each has its own tests."""


@pytest.fixture(scope="module")
def place(postgres, kafka, redis, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AdminPlace]:
    """With rates that get in nobody's way."""
    name = f"t{uuid.uuid4().hex[:12]}"
    dsn, folder = postgres.ensure_database(name), tmp_path_factory.mktemp("openapi")
    log = RawLog()
    log.epoch()
    for number in range(10):
        log.transaction(row(number))
    for topic, records in (("raw", log.frames), ("dlq", [make_letter(n).encode() for n in range(10)])):
        make_topic(kafka.bootstrap, f"tidegate.{name}.{topic}")
        append(kafka.bootstrap, f"tidegate.{name}.{topic}", records)
    rates = ("--reads-a-second", "100000", "--changes-a-second", "100000")
    servers = {"dsn": dsn, "bootstrap": kafka.bootstrap, "redis_url": redis.url}
    try:
        with admin_place(folder, name, **servers, options=rates) as made:
            made.source.execute("CREATE TABLE orders (id int PRIMARY KEY, note text)")
            made.source.execute("CREATE PUBLICATION mine FOR TABLE orders")
            with obeyed(made):
                yield made
    finally:
        drop_database(postgres.dsn(), name)


@contextmanager
def obeyed(place: AdminPlace) -> Iterator[None]:
    """A lane and a reader that do whatever they are asked: with nobody there, requests would be refused with 503."""
    ended, desk = threading.Event(), Desk(place.redis, place.config.pipeline, "events")

    def obey() -> None:
        while not ended.wait(0.02):
            while (request := desk.next()) is not None:
                desk.done(request)
            place.redis.delete(names.snapshot_requests_key(place.config.pipeline))

    thread = threading.Thread(target=obey)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@pytest.fixture
def document(place: AdminPlace, tmp_path: Path) -> Path:
    """With what there is as all there is to name: else nearly every request would be a 404."""
    described = place.client().get("/openapi.json").json()
    there = {
        "name": [place.config.pipeline],
        "slot": [place.config.source.slot.name, "tidegate_none"],
        "publication": ["mine", 'no"ne'],
        "letter": [make_letter(n).id for n in (1, 99)],
        "lane": ["events", "none"],
    }
    for operations in described["paths"].values():
        for operation in operations.values():
            for parameter in operation.get("parameters", []):
                if parameter["in"] == "path" and parameter["name"] in there:
                    parameter["schema"] = {"type": "string", "enum": there[parameter["name"]]}
    path = tmp_path / "openapi.json"
    path.write_text(json.dumps(described))
    return path


def test_the_description_is_openapi_3_1(place: AdminPlace) -> None:
    described = place.client().get("/openapi.json").json()
    operations = [each for methods in described["paths"].values() for each in methods.values()]
    identities = [each["operationId"] for each in operations]
    assert described["openapi"].startswith("3.1")
    assert len(identities) == len(set(identities))
    for operation in operations:
        assert set(operation["responses"]["default"]["content"]) == {"application/problem+json"}


@pytest.mark.timeout(900)
def test_no_request_makes_it_fail(place: AdminPlace, document: Path) -> None:
    """Examples, borders, generated ones and sequences of them; the answers are as described."""
    command = [
        str(Path(sys.executable).with_name("schemathesis")), "run", str(document), "--url", place.url,
        "--header", f"Authorization: Bearer {place.token()}", "--checks", CHECKS, "--max-examples", str(EXAMPLES),
        "--seed", str(SEED), "--no-color", "--request-timeout", "30", "--suppress-health-check", "all",
    ]  # fmt: skip
    for left_out in LEFT_OUT:
        command += ["--exclude-operation-id", left_out]
    place.client()

    said = subprocess.run(command, capture_output=True, text=True, check=False, timeout=880, cwd=document.parent)

    assert said.returncode == 0, said.stdout[-8000:]
    assert "request_failed" not in place.process.log()
