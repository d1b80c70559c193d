"""TLS, passwords and their rotation against servers that insist on them. No secret is ever in a message."""

import asyncio
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
from kit.certificates import Authority, authority
from kit.raw_topic import inserted
from kit.wait import wait

from tidegate.config.source import PostgresSource
from tidegate.errors import ConfigError, ExitCode, TidegateError
from tidegate_reader.sources.postgres_wal.session import SideConnection, replication_conninfo
from tidegate_reader.sources.postgres_wal.stream import ReplicationStream

VERSION = "14"
PASSWORD = "pa ss'w\\ord%@:/?#"
HBA = """\
local all all scram-sha-256
hostssl all certified 127.0.0.1/32 cert
hostssl all all 127.0.0.1/32 scram-sha-256
host all tidegate 127.0.0.1/32 scram-sha-256
"""


@dataclass(frozen=True)
class Guarded:
    """A PostgreSQL that takes two roles by TLS alone: one by SCRAM, one by its certificate."""

    server: Any
    ca: Authority
    other: Authority
    certificate: Path
    key: Path

    def source(self, **settings: Any) -> PostgresSource:
        defaults = {
            "host": "127.0.0.1",
            "port": self.server.port,
            "database": "postgres",
            "user": "guarded",
            "password": "${env:GUARDED_PASSWORD}",
            "publication": {"tables": ["public.orders"]},
        }
        return PostgresSource.model_validate_json(json.dumps(defaults | settings))


@pytest.fixture(scope="module")
def guarded(postgres_versions: Any, tmp_path_factory: pytest.TempPathFactory) -> Guarded:
    server = postgres_versions(VERSION)
    folder = tmp_path_factory.mktemp("certificates")
    ca, other = authority(folder), authority(folder, "other")
    certificate, key = ca.issue("server", "localhost", "DNS:localhost")
    owner = (server.data / "PG_VERSION").stat()
    for source, target in ((certificate, "server.crt"), (key, "server.key"), (ca.ca, "ca.crt")):
        placed = server.data / target
        placed.write_bytes(source.read_bytes())
        placed.chmod(0o600)
        os.chown(placed, owner.st_uid, owner.st_gid)
    (server.data / "pg_hba.conf").write_text(HBA)
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        quoted = psycopg.sql.Literal(PASSWORD)
        connection.execute(psycopg.sql.SQL("CREATE ROLE guarded LOGIN REPLICATION PASSWORD {}").format(quoted))
        connection.execute("CREATE ROLE certified LOGIN REPLICATION")
        for name, value in (("ssl", "on"), ("ssl_ca_file", "ca.crt")):
            connection.execute(f"ALTER SYSTEM SET {name} = '{value}'".encode())
        connection.execute("SELECT pg_reload_conf()")
        wait(lambda: _shows(server, "ssl") == "on", 10, "the server speaks TLS")
    client = ca.issue("client", "certified")
    return Guarded(server, ca, other, *client)


def _shows(server: Any, name: str) -> str:
    with psycopg.connect(server.dsn()) as connection:
        row = connection.execute(f"SHOW {name}".encode()).fetchone()
    return str(row and row[0])


@pytest.fixture(autouse=True)
def _password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GUARDED_PASSWORD", PASSWORD)


def links(source: PostgresSource) -> list[bool]:
    """Whether our two connections are encrypted, as the server sees it."""

    async def connect() -> list[bool]:
        side = await SideConnection.open(source, "side")
        try:
            stream = await ReplicationStream.connect(replication_conninfo(source, "stream"))
            try:
                rows = await side.fetch(
                    "SELECT ssl FROM pg_stat_ssl JOIN pg_stat_activity USING (pid)"
                    " WHERE usename = current_user AND application_name ~ '^(side|stream)' ORDER BY application_name"
                )
                return [row[0] for row in rows]
            finally:
                stream.close()
        finally:
            await side.close()

    return asyncio.run(connect())


@pytest.mark.parametrize("mode", ["prefer", "require"])
def test_unverified_modes_encrypt_both_links(guarded: Guarded, mode: str) -> None:
    assert links(guarded.source(tls={"mode": mode})) == [True, True]


def test_verified_modes_take_the_right_authority(guarded: Guarded) -> None:
    ca = str(guarded.ca.ca)
    assert links(guarded.source(tls={"mode": "verify-ca", "ca": ca})) == [True, True]
    assert links(guarded.source(host="localhost", tls={"ca": ca})) == [True, True]


def test_a_certificate_stands_for_the_password(guarded: Guarded) -> None:
    tls = {"ca": str(guarded.ca.ca), "cert": str(guarded.certificate), "key": str(guarded.key)}
    assert links(guarded.source(host="localhost", user="certified", password=None, tls=tls)) == [True, True]


def refused(source: PostgresSource) -> TidegateError:
    with pytest.raises(ConfigError) as refusal:
        links(source)
    assert PASSWORD not in str(refusal.value)
    return refusal.value


def test_what_does_not_verify_is_refused(guarded: Guarded) -> None:
    ca, other = str(guarded.ca.ca), str(guarded.other.ca)
    for settings in (
        {"tls": {"mode": "disable"}},
        {"tls": {"mode": "verify-ca", "ca": other}},
        {"host": "localhost", "tls": {"ca": other}},
        {"host": "127.0.0.1", "tls": {"mode": "verify-full", "ca": ca}},
        {"user": "certified", "password": None, "tls": {"mode": "require"}},
    ):
        assert refused(guarded.source(**settings)).code == "SOURCE_REFUSED"


def test_a_password_is_read_anew_from_its_file(fleet: Any, tmp_path: Path) -> None:
    role, file = f"{fleet.name}_rotated", tmp_path / "password"
    fleet.sql(f"CREATE ROLE {role} LOGIN REPLICATION SUPERUSER PASSWORD 'first'")
    file.write_text("first\n")
    fleet.settings["source"] |= {"user": role, "password": f"${{file:{file}}}"}
    try:
        reader = fleet.reader()
        fleet.sql(f"ALTER ROLE {role} PASSWORD 'second'")
        fleet.sql(f"SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = '{fleet.slot}'")
        assert fleet.exit_code(reader) == ExitCode.RETRY
        assert fleet.exit_code(fleet.start()) == ExitCode.CONFIGURATION
        assert "SOURCE_REFUSED" in fleet.log()
        file.write_text("second\n")
        reader = fleet.reader()
        fleet.sql("INSERT INTO orders (note) VALUES ('a')")
        wait(lambda: inserted(fleet) == ["a"], 10, "the row is in the raw topic")
        assert fleet.stop(reader) == ExitCode.CLEAN
    finally:
        fleet.sql(f"DROP OWNED BY {role} CASCADE")
        fleet.sql(f"DROP ROLE {role}")
