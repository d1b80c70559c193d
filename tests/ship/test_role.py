"""The least-privilege role of the security guide, made by its script on a real server."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from kit.servers import Database
from psycopg import errors, sql

from ship.queries import ROOT
from tidegate.config.snapshot import MOST_CONNECTIONS
from tidegate.preflight.capacity import READER_SESSIONS
from tidegate.stack.postgres import Postgres

SCRIPT = ROOT / "docs" / "operations" / "role.sql"
PASSWORD = 'it\'s a "pass" word $HOME \\n'
TABLES = "CREATE TABLE orders (id int PRIMARY KEY)"


@pytest.fixture
def role(postgres: Postgres, database: Database, in_docker: bool) -> Iterator[str]:
    if in_docker:
        pytest.skip("psql is not known where the server is a container")
    name = f"least {database.name}"
    with psycopg.connect(database.dsn, autocommit=True) as connection:
        connection.execute(TABLES)
        done = psql(postgres.binaries / "psql", database.dsn, name, postgres.user)
        assert done.returncode == 0, done.stderr
        connection.execute("CREATE TABLE later (id int PRIMARY KEY)")
        yield psycopg.conninfo.make_conninfo(database.dsn, user=name, password=PASSWORD)
        connection.execute(sql.SQL("DROP OWNED BY {0}; DROP ROLE {0}").format(sql.Identifier(name)))


def psql(binary: Path, dsn: str, role: str, owner: str, password: str = PASSWORD) -> "subprocess.CompletedProcess[str]":
    settings = {"role": role, "schema": "public", "owner": owner}
    given = [part for name, value in settings.items() for part in ("-v", f"{name}={value}")]
    command = [str(binary), "-X", "-q", *given, "-d", dsn, "-f", str(SCRIPT)]
    environ = {**os.environ, "ROLE_PASSWORD": password}
    return subprocess.run(command, capture_output=True, text=True, env=environ)


def test_it_may_replicate_read_and_write_a_heartbeat(role: str) -> None:
    with psycopg.connect(role, autocommit=True) as connection:
        assert connection.execute("SELECT rolreplication FROM pg_roles WHERE rolname = current_user").fetchone() == (
            True,
        )
        for table in ("orders", "later"):
            assert connection.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,)
        connection.execute("SELECT pg_logical_emit_message(true, 'tidegate', 'beat')")
        connection.execute("SELECT pg_create_logical_replication_slot('least', 'pgoutput')")
        connection.execute("SELECT pg_drop_replication_slot('least')")


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO orders VALUES (1)",
        "CREATE TABLE mine (id int)",
        "CREATE PUBLICATION mine FOR TABLE orders",
        "CREATE ROLE another",
        "CREATE DATABASE another",
        "SELECT * FROM pg_authid",
        "ALTER SYSTEM SET wal_level = 'minimal'",
    ],
)
def test_it_may_do_nothing_else(role: str, statement: str) -> None:
    with psycopg.connect(role, autocommit=True) as connection, pytest.raises(errors.InsufficientPrivilege):
        connection.execute(statement)


def test_it_never_stands_in_a_migrations_way_for_long(role: str) -> None:
    with psycopg.connect(role, autocommit=True) as connection:
        assert connection.execute("SHOW lock_timeout").fetchone() == ("10s",)
        assert connection.execute("SHOW idle_in_transaction_session_timeout").fetchone() == ("10min",)


def test_it_has_sessions_for_as_many_connections_as_a_snapshot_may_take(role: str) -> None:
    with psycopg.connect(role) as connection:
        [(limit,)] = connection.execute("SELECT rolconnlimit FROM pg_roles WHERE rolname = current_user").fetchall()
    assert limit >= MOST_CONNECTIONS + 2 * READER_SESSIONS


def test_without_a_password_there_is_no_role(postgres: Postgres, database: Database, in_docker: bool) -> None:
    if in_docker:
        pytest.skip("psql is not known where the server is a container")
    done = psql(postgres.binaries / "psql", database.dsn, f"none {database.name}", postgres.user, password="")
    assert done.returncode != 0
    assert "ROLE_PASSWORD" in done.stderr
