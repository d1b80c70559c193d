"""Real servers for the tests, each started when the first test asks for it and kept for the session.

By testcontainers when a Docker engine answers, else the embedded stack; `TIDEGATE_TESTS_SERVERS=embedded|docker`
decides otherwise. Both kinds have the same attributes: `postgres.dsn(database)`, `.ensure_database(name)`, `.host`,
`.port`, `.user`, `.password`; `kafka.bootstrap`; `redis.url`; and each `.start()`, `.stop()`, `.kill()`, `.restart()`.
A test that uses one of them is marked `integration` by itself.
"""

import importlib
import os
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from kit.wait import wait

if TYPE_CHECKING:
    from kit.containers import ContainerKafka, ContainerPostgres, ContainerRedis

    from tidegate.stack.kafka import Kafka
    from tidegate.stack.postgres import Postgres
    from tidegate.stack.redis import Redis

SERVERS = {"postgres", "kafka", "redis"}
DOCKER_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Database:
    """A database of one test's own."""

    name: str
    dsn: str


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if SERVERS & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.integration)


@pytest.fixture(scope="session")
def in_docker() -> bool:
    """Whether the servers of this session are containers."""
    wanted = os.environ.get("TIDEGATE_TESTS_SERVERS", "")
    if wanted in ("embedded", "docker"):
        return wanted == "docker"
    return _docker_answers()


@pytest.fixture(scope="session")
def servers_dir() -> Iterator[Path]:
    """One state directory for the session; open to the account that PostgreSQL runs as when the tests run as root."""
    folder = Path(tempfile.mkdtemp(prefix="tidegate-tests-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres(in_docker: bool, servers_dir: Path) -> "Iterator[Postgres | ContainerPostgres]":
    yield from _served(_container("ContainerPostgres") if in_docker else _embedded_postgres(servers_dir))


@pytest.fixture(scope="session")
def kafka(in_docker: bool, servers_dir: Path) -> "Iterator[Kafka | ContainerKafka]":
    yield from _served(_container("ContainerKafka") if in_docker else _embedded_kafka(servers_dir))


@pytest.fixture(scope="session")
def redis(in_docker: bool, servers_dir: Path) -> "Iterator[Redis | ContainerRedis]":
    yield from _served(_container("ContainerRedis") if in_docker else _embedded_redis(servers_dir))


@pytest.fixture
def prefix() -> str:
    """A name nobody has used: good in a topic, a pipeline, a slot, a publication and a Redis key."""
    return f"t{uuid.uuid4().hex[:12]}"


@pytest.fixture
def database(postgres: "Postgres | ContainerPostgres", prefix: str) -> Iterator[Database]:
    """Empty, and dropped after the test together with the slots in it."""
    dsn = postgres.ensure_database(prefix)
    yield Database(prefix, dsn)
    drop_database(postgres.dsn(), prefix)


def drop_database(dsn: str, name: str) -> None:
    import psycopg
    from psycopg import sql

    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE database = %s AND active", [name]
        )
        active = "SELECT count(*) = 0 FROM pg_replication_slots WHERE database = %s AND active"
        wait(lambda: connection.execute(active, [name]).fetchone() == (True,), 10, f"slots of {name} are let go")
        connection.execute(
            "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = %s", [name]
        )
        connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


def _served(server: Any) -> Iterator[Any]:
    server.start()
    try:
        yield server
    finally:
        server.stop()


def _container(kind: str) -> Any:
    return getattr(importlib.import_module("kit.containers"), kind)()


def _embedded_postgres(folder: Path) -> "Postgres":
    from tidegate.stack.postgres import Postgres

    return Postgres(folder / "postgres", fsync=False, settings={"max_prepared_transactions": "10"})


def _embedded_kafka(folder: Path) -> "Kafka":
    from tidegate.stack.kafka import Kafka

    return Kafka(folder / "kafka")


def _embedded_redis(folder: Path) -> "Redis":
    from tidegate.stack.redis import Redis

    return Redis(folder / "redis", fsync=False)


def _docker_answers() -> bool:
    docker = shutil.which("docker")
    if docker is None:
        return False
    try:
        asked = subprocess.run([docker, "info"], capture_output=True, timeout=DOCKER_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return False
    return asked.returncode == 0 and b"Server Version" in asked.stdout
