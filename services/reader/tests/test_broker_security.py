"""TLS and logins of Kafka and Redis, against servers that insist on them. No secret is ever in a message."""

import asyncio
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kit.certificates import authority
from kit.guarded_kafka import Broker, guarded_broker
from kit.raw_topic import inserted
from kit.wait import wait

from tidegate.config.kafka import RawTopic
from tidegate.config.redis import RedisConfig
from tidegate.errors import ExitCode
from tidegate.preflight.findings import Severity
from tidegate.preflight.redis import examine_redis
from tidegate.preflight.topic import examine_topic
from tidegate.stack.server import free_port
from tidegate_reader.publisher import close_producer, open_producer
from tidegate_reader.raw_log import read_raw_log
from tidegate_reader.raw_topic import ensure_raw_topic


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with guarded_broker(tmp_path_factory.mktemp("guarded-kafka")) as broker:
        yield broker


MECHANISMS = [("PLAIN", "plain-secret"), ("SCRAM-SHA-256", "scram-secret"), ("SCRAM-SHA-512", "scram-secret")]


@pytest.mark.parametrize(("mechanism", "secret"), MECHANISMS)
def test_kafka_is_reached_by_tls_and_login(
    broker: Broker, mechanism: str, secret: str, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKA_SECRET", secret)
    kafka, topic = broker.config(mechanism, ca=str(broker.ca.ca)), RawTopic(name=f"tidegate.{prefix}.raw")

    async def use() -> int:
        await ensure_raw_topic(kafka, topic)
        producer = await open_producer(kafka, topic)
        await close_producer(producer)
        return (await read_raw_log(kafka, topic.name, "")).end

    assert asyncio.run(use()) == 0
    assert asyncio.run(examine_topic(kafka, topic)) == []


def test_a_wrong_login_or_authority_is_told_and_holds_no_secret(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKA_SECRET", "canary-wrong")
    [wrong] = asyncio.run(examine_topic(broker.config("PLAIN", ca=str(broker.ca.ca)), RawTopic(name="none")))
    monkeypatch.setenv("KAFKA_SECRET", "plain-secret")
    [foreign] = asyncio.run(examine_topic(broker.config("PLAIN", ca=str(broker.other.ca)), RawTopic(name="none")))
    assert {wrong.code, foreign.code} <= {"KAFKA_REFUSED", "KAFKA_UNAVAILABLE"}
    assert "canary-wrong" not in f"{wrong}{foreign}"


def test_a_redis_user_with_few_rights_is_enough(fleet: Any) -> None:
    user = fleet.name
    rights = (
        "+get",
        "+set",
        "+mset",
        "+hgetall",
        "+subscribe",
        "+unsubscribe",
        "+info",
        "+ping",
        "+client",
        "+select",
        "+hello",
        "+auth",
    )
    with fleet.redis() as client:
        where = ("resetchannels", "&tidegate:*", "~tidegate:*")
        client.execute_command("ACL", "SETUSER", user, "on", ">few-rights", *where, *rights)
        try:
            fleet.settings["redis"] |= {"username": user, "password": "${env:FEW_RIGHTS}"}
            fleet.variables["FEW_RIGHTS"] = "few-rights"
            fleet.reader()
            fleet.sql("INSERT INTO orders (note) VALUES ('a')")
            wait(lambda: inserted(fleet) == ["a"], 10, "the row is in the raw topic")
            last = fleet.records()[-1]
            fleet.ack(last)
            wait(lambda: fleet.confirmed() == last.frame.header.safe_lsn, 10, "the slot follows the ack")
            fleet.variables["FEW_RIGHTS"] = "wrong-password"
            assert fleet.exit_code(fleet.start()) == ExitCode.CONFIGURATION
            assert "REDIS_REFUSED" in fleet.log()
            assert "wrong-password" not in fleet.log()
        finally:
            client.execute_command("ACL", "DELUSER", user)


async def _encrypted(target: tuple[str, int], context: ssl.SSLContext, config: RedisConfig, port: int) -> list[Any]:
    """Redis behind the TLS end that a sidecar gives it: the embedded one is built without TLS."""

    async def pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        while data := await source.read(65_536):
            sink.write(data)
            await sink.drain()
        sink.close()

    async def link(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(*target)
        await asyncio.gather(pump(reader, back), pump(there, writer), return_exceptions=True)

    async with await asyncio.start_server(link, "127.0.0.1", port, ssl=context):
        return await examine_redis(config)


def test_redis_by_tls_is_verified(redis: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ca, other = authority(tmp_path), authority(tmp_path, "other")
    certificate, key = ca.issue("redis", "localhost", "DNS:localhost")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    monkeypatch.setenv("REDIS_SECRET", redis.password)
    port = free_port()
    told = []
    for trusted in (ca, other):
        settings = {
            "url": f"rediss://localhost:{port}/0",
            "password": "${env:REDIS_SECRET}",
            "tls": {"ca": str(trusted.ca)},
        }
        config = RedisConfig.model_validate(settings)
        told.append(asyncio.run(_encrypted((redis.host, redis.port), context, config, port)))
    assert told[0] == []
    assert [each.severity for each in told[1]] == [Severity.UNKNOWN]
