"""The compose stack on a real engine: it comes up, changes go through, every container may die, nothing is left.

Not part of `make test`: `make test-compose` builds the images first. Needs to be root beside the engine, because a
crash is a signal from outside: `docker kill` counts as an operator's wish, and is not answered by a restart.
"""

import json
import os
import re
import signal
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import yaml
from confluent_kafka import Consumer
from kit.wait import DeadlinePassedError, wait

from ship.queries import (
    ROOT,
    Asked,
    asked_by_alerts,
    asked_by_annotations,
    asked_by_dashboards,
    asked_by_panels,
    asked_by_variables,
)
from ship.stack import PROFILES, compose, container, services, state, within

HEALTHY = {"kafka", "redis", "postgres", "reader", "processor", "admin", "prometheus"}
KILLED = ("reader", "processor", "admin", "redis", "kafka", "postgres", "shop", "tail", "prometheus")
UP_SECONDS = 240.0
ARRIVE_SECONDS = 120.0
FIRST_EVENT_SECONDS = 120.0
"""What `docker compose up` promises, once the images are there."""

pytestmark = pytest.mark.timeout(900)


def is_healthy(service: str) -> bool:
    found = state(service)
    health = found.get("Health", {"Status": "none"})["Status"]  # type: ignore[index]
    return bool(found["Running"]) and health == ("healthy" if service in HEALTHY else "none")


@pytest.fixture(scope="module")
def stack() -> Iterator[None]:
    compose("--profile", "*", "down", "-v", "--remove-orphans")
    begun = time.monotonic()
    compose("up", "-d", "--no-build", *services())
    try:
        wait(lambda: "after its commit" in compose("logs", "tail"), FIRST_EVENT_SECONDS, "an event is shown")
        print(f"first event shown after {time.monotonic() - begun:.0f} s")
        wait(lambda: all(is_healthy(service) for service in HEALTHY), UP_SECONDS, "the stack is healthy")
        yield
    finally:
        compose("--profile", "*", "down", "-v", "--remove-orphans")


@pytest.fixture
def topic(stack: None) -> Iterator[Consumer]:
    settings = {"bootstrap.servers": "127.0.0.1:19092", "group.id": f"check-{uuid.uuid4()}"}
    consumer = Consumer(settings | {"auto.offset.reset": "earliest", "isolation.level": "read_committed"})
    consumer.subscribe(["shop.public.customers"])
    yield consumer
    consumer.close()


def psql(statement: str, database: str = "shop") -> str:
    command = ("psql", "-XAtqU", "postgres", "-d", database, "-c", statement)
    return compose("exec", "-T", "postgres", *command, check=False).strip()


def insert(name: str) -> None:
    psql(f"INSERT INTO customers (name) VALUES ('{name}')")


def arrives(consumer: Consumer, name: str) -> bool:
    record = consumer.poll(1.0)
    return record is not None and record.error() is None and name.encode() in (record.value() or b"")


def test_a_change_arrives(topic: Consumer) -> None:
    name = f"first-{uuid.uuid4()}"
    insert(name)
    wait(lambda: arrives(topic, name), ARRIVE_SECONDS, "the change is on its topic")


def test_every_panel_and_every_variable_has_series(stack: None) -> None:
    """Against the Prometheus that scrapes the running fleet."""

    def empty() -> list[str]:
        asked = (*asked_by_panels(), *asked_by_variables())
        return [each.where for each in asked if not _result(each.filled("shop"))]

    becomes_none(empty)


@pytest.mark.parametrize("asked", list(asked_by_annotations()), ids=lambda asked: asked.where)
def test_every_annotation_is_answered(stack: None, asked: Asked) -> None:
    """With nothing, while no alert fires; what Prometheus does not understand is an error."""
    assert isinstance(_result(asked.filled("shop")), list)


def test_every_metric_is_emitted(stack: None) -> None:
    """By name: a panel or an alert that asks for one thing or else another hides that nobody emits the first."""
    names = {metric for asked in (*asked_by_dashboards(), *asked_by_alerts()) for metric in asked.metrics}
    becomes_none(lambda: sorted(name for name in names if not _result(name)))


def becomes_none(look: Callable[[], list[str]]) -> None:
    with suppress(DeadlinePassedError):
        wait(lambda: not look(), 180.0, "none is left", every_seconds=5.0)
    assert look() == []


def _result(expression: str) -> list[object]:
    url = f"http://127.0.0.1:9090/api/v1/query?{urllib.parse.urlencode({'query': expression})}"
    with urllib.request.urlopen(url, timeout=10) as answer:
        found: list[object] = json.load(answer)["data"]["result"]
    return found


@pytest.mark.parametrize("service", KILLED)
def test_a_killed_container_comes_back_and_nothing_is_lost(service: str, topic: Consumer) -> None:
    """No hand is laid on: the restart policy starts it, and a change that was made meanwhile arrives."""
    before = str(state(service)["StartedAt"])
    pid = int(state(service)["Pid"])  # type: ignore[call-overload]
    name = f"{service}-{uuid.uuid4()}"
    if service != "postgres":
        insert(name)
    os.kill(pid, signal.SIGKILL)
    wait(lambda: state(service)["StartedAt"] != before, 60.0, f"{service} is started again")
    wait(lambda: all(is_healthy(each) for each in HEALTHY), UP_SECONDS, "the stack is healthy again", every_seconds=1.0)
    if service == "postgres":
        insert(name)
    wait(lambda: arrives(topic, name), ARRIVE_SECONDS, "the change is on its topic")


def test_a_wrong_configuration_is_not_started_again_and_again(stack: None, tmp_path: Path) -> None:
    """Exit code 2: the reader is held, unhealthy, until a person has mended the file."""
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text((ROOT / "docker/compose/pipeline.yaml").read_text().replace("pipeline: shop", "pipline: shop"))
    compose("up", "-d", "--no-build", "--no-deps", "reader", TIDEGATE_PIPELINE=str(wrong))
    wait(lambda: "held: tidegate-reader ended with 2" in compose("logs", "reader"), 60.0, "the reader is held")
    held = container("reader")
    assert held["RestartCount"] == 0
    assert state("reader")["Running"]
    compose("up", "-d", "--no-build", "--no-deps", "reader")
    wait(lambda: is_healthy("reader"), UP_SECONDS, "the reader runs again")


SINKS = [
    {"name": "events", "type": "kafka_topics", "options": {"partitions": 2}},
    {"name": "lines", "type": "stdout"},
    {"name": "archive", "type": "file", "options": {"path": "/tmp/archive"}},
    {
        "name": "copy",
        "type": "pg_table",
        "options": {
            "dsn": "postgresql://copier@postgres:5432/copies",
            "password": "${file:/run/tidegate/copy.password}",
            "schema": "copied",
        },
    },
]
READ = "import pathlib; print(*(p.read_text() for p in sorted(pathlib.Path('{}').rglob('*')) if p.is_file()))"
WRITES = """
try:
    open("/app/x", "w")
    print("written")
except OSError:
    print("refused")
"""
AGAIN = ("up", "-d", "--no-build", "--no-deps", "reader", "processor", "admin")
SUM = "SELECT count(*), coalesce(sum(id), 0) FROM {}.customers"


@pytest.fixture
def all_sinks(stack: None, tmp_path: Path) -> Iterator[None]:
    """The shop's pipeline with a lane for every kind of sink, one of them into another database."""
    pipeline = yaml.safe_load((ROOT / "docker/compose/pipeline.yaml").read_text()) | {"sinks": SINKS}
    (tmp_path / "all.yaml").write_text(yaml.safe_dump(pipeline))
    psql("CREATE ROLE copier LOGIN PASSWORD 'copied'")
    psql("CREATE DATABASE copies OWNER copier")
    compose("run", "--rm", "-T", "secrets", "copy.password", "processor", given="copied")
    compose(*AGAIN, TIDEGATE_PIPELINE=str(tmp_path / "all.yaml"))
    yield
    compose(*AGAIN)


def test_every_sink_delivers_and_a_snapshot_brings_the_rows_that_were_there(all_sinks: None) -> None:
    """What each of them imports is in the image, and each writes where a read-only container lets it."""
    wait(lambda: all(is_healthy(service) for service in HEALTHY), UP_SECONDS, "all lanes are up")
    compose("exec", "-T", "admin", "tidegate", "snapshot", "start", "public.customers", "--follow")
    wait(lambda: psql(SUM.format("copied"), "copies") == psql(SUM.format("public")), ARRIVE_SECONDS, "rows are equal")
    told = within("processor", READ.format("/tmp/archive"))
    assert '"operation":"SNAPSHOT"' in told.replace(": ", ":")
    assert '"channel":"public.customers"' in compose("logs", "--no-log-prefix", "processor").replace(": ", ":")


def test_sinks_that_are_taken_out_are_written_down_and_the_reader_goes_on(topic: Consumer) -> None:
    """The fixture above has taken three out again."""
    wait(lambda: all(is_healthy(service) for service in HEALTHY), UP_SECONDS, "the stack is healthy again")
    told = compose("exec", "-T", "admin", "tidegate", "pipelines", "changes", "--json")
    assert told.count("sinkRemoved") == len(SINKS) - 1
    name = f"after-{uuid.uuid4()}"
    insert(name)
    wait(lambda: arrives(topic, name), ARRIVE_SECONDS, "the change is on its topic")


def test_a_second_run_draws_no_secret_anew(stack: None) -> None:
    before = within("admin", READ.format("/run/tidegate"))
    compose("run", "--rm", "-T", "secrets")
    assert before == within("admin", READ.format("/run/tidegate"))
    assert "tokens" in before


def test_the_lake_has_a_server_that_comes_back(stack: None) -> None:
    image = re.findall(r"^IMAGE_S3=(.*)$", (ROOT / ".env").read_text(), re.MULTILINE)[0]
    if subprocess.run(["docker", "image", "inspect", image], capture_output=True).returncode != 0:
        pytest.skip(f"{image} is not here: docker pull, or tests/ship/stand_ins/build.sh s3")
    compose("up", "-d", "--no-build", "s3", COMPOSE_PROFILES=f"{PROFILES},lake")
    wait(serves_the_lake, 60.0, "the S3 server is healthy")
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen("http://127.0.0.1:17070/", timeout=10)
    with refused.value:  # an answer that is still open
        assert refused.value.code == 403
    before = str(state("s3")["StartedAt"])
    os.kill(int(state("s3")["Pid"]), signal.SIGKILL)  # type: ignore[call-overload]
    wait(lambda: state("s3")["StartedAt"] != before and serves_the_lake(), 60.0, "it serves again")


def serves_the_lake() -> bool:
    return bool(state("s3")["Health"]["Status"] == "healthy")  # type: ignore[index]


def test_services_see_only_their_own_secrets(stack: None) -> None:
    seen = {
        service: set(within(service, "import os; print(*os.listdir('/run/tidegate'))").split())
        for service in ("reader", "processor")
    }
    assert {"postgres.password", "redis.password"} == seen["reader"]
    assert {"redis.password"} == seen["processor"] - {"copy.password"}


@pytest.mark.parametrize(
    ("user", "command"),
    [
        ("reader", "HSET tidegate:shop:1:ack events x"),
        ("reader", "SET tidegate:shop:events:lane:control x"),
        ("processor", "SET tidegate:shop:reader x"),
        ("processor", "FLUSHALL"),
        ("admin", "CONFIG SET maxmemory-policy allkeys-lru"),
        ("admin", "SET elsewhere x"),
    ],
)
def test_a_service_may_do_nothing_in_redis_that_is_not_its_own(stack: None, user: str, command: str) -> None:
    password = within(user, "print(open('/run/tidegate/redis.password').read())").strip()
    login = ("redis-cli", "--no-auth-warning", "--user", user, "--pass", password)
    assert "NOPERM" in compose("exec", "-T", "redis", *login, *command.split())


def test_services_cannot_write_where_they_run(stack: None) -> None:
    for service in ("reader", "processor", "admin"):
        assert within(service, "import os; print(os.getuid(), os.getgid())").split() == ["10001", "10001"]
        assert within(service, WRITES).strip() == "refused"


def test_ports_are_on_loopback_only(stack: None) -> None:
    described = json.loads(compose("config", "--format", "json"))
    ports = [port for service in described["services"].values() for port in service.get("ports", ())]
    assert ports
    assert {"127.0.0.1"} == {port.get("host_ip") for port in ports}


def test_down_leaves_nothing(stack: None) -> None:
    """The last test of the file: `down -v` takes containers, volumes and the network."""
    print(compose("logs", "--tail", "50", "reader", "processor", "admin"))
    compose("--profile", "*", "down", "-v")
    for kind in ("container", "volume", "network"):
        label = "label=com.docker.compose.project=tidegate"
        listed = ["docker", kind, "ls", "-q", "--filter", label, *(["-a"] if kind == "container" else [])]
        assert subprocess.run(listed, capture_output=True, text=True, check=True).stdout == ""
