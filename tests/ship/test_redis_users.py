"""The Redis users of compose.yaml and the security guide, on a real server: each may do its part, and no other's."""

import runpy
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
import redis as client
from redis.exceptions import NoPermissionError

from ship.queries import ROOT
from tidegate.contracts import names

SCRIPT = "redis.call('HSET', KEYS[1], 'events', ARGV[1]); redis.call('PUBLISH', ARGV[2], 'events'); return 'ok'"

OLDEST = 7

Redis = Any  # the client's own types hold each command's answer to be awaitable


@pytest.fixture(scope="module")
def users() -> dict[str, str]:
    return dict(runpy.run_path(str(ROOT / "docker/compose/secrets.py"))["REDIS_USERS"])


@pytest.fixture
def logins(redis, users: dict[str, str], prefix: str) -> Iterator[dict[str, Redis]]:
    made, address = {}, urlsplit(redis.url)
    with client.Redis.from_url(redis.url) as owner:
        if int(owner.info("server")["redis_version"].split(".")[0]) < OLDEST:
            pytest.skip(f"compose.yaml has Redis {OLDEST} or newer: rules that only read keys came with it")
        for user, rules in users.items():
            owner.execute_command("ACL", "SETUSER", f"{prefix}-{user}", "reset", "on", ">x", *rules.split())
            # By host and port: what a URL says of a password is stronger than an argument.
            made[user] = client.Redis(address.hostname, address.port, username=f"{prefix}-{user}", password="x")
        yield made
        for user, login in made.items():
            login.close()
            owner.execute_command("ACL", "DELUSER", f"{prefix}-{user}")


def test_the_reader_tells_where_it_is_and_serves_what_is_asked_of_snapshots(logins: Any, prefix: str) -> None:
    reader, asked = logins["reader"], names.snapshot_requests_key(prefix)
    logins["admin"].rpush(asked, "request")
    assert reader.set(names.reader_status_key(prefix), "x")
    assert reader.set(names.lineage_key(prefix), "x")
    assert reader.hgetall(names.ack_key(prefix, "1")) == {}
    assert reader.lindex(asked, 0) == b"request"
    with reader.pipeline(transaction=True) as together:
        together.set(names.snapshot_outcome_key(prefix, "1"), "x", ex=60)
        together.lrem(asked, 1, "request")
        assert together.execute() == [True, 1]
    reader.hset(names.snapshots_key(prefix), "1", "x")
    tables = names.snapshot_tables_key(prefix, "1")
    reader.hset(tables, "public.orders", "x")
    assert reader.expire(tables, 60)
    assert reader.xadd(names.audit_key(prefix), {"entry": "a sink that is not required any more"}, maxlen=10)
    assert reader.info("persistence")
    with reader.pubsub() as listening:
        listening.subscribe(names.ack_channel(prefix, "1"))


def test_the_processor_acks_and_serves_its_lanes(logins: Any, prefix: str) -> None:
    processor, asked = logins["processor"], names.lane_requests_key(prefix, "events")
    logins["admin"].rpush(asked, "request")
    acks = (names.ack_key(prefix, "1"), "x", names.ack_channel(prefix, "1"))
    assert processor.eval(SCRIPT, 1, *acks) == b"ok"
    for key in (names.lane_status_key, names.lane_control_key, names.lane_pause_key):
        assert processor.set(key(prefix, "events"), "x")
    with processor.pipeline(transaction=True) as together:
        together.set(names.lane_outcome_key(prefix, "events", "1"), "x", ex=60)
        together.lrem(asked, 1, "request")
        assert together.execute() == [True, 1]


def test_the_admin_service_asks_reads_and_keeps_a_record(logins: Any, prefix: str) -> None:
    admin = logins["admin"]
    with admin.pipeline(transaction=True) as together:
        together.rpush(names.lane_requests_key(prefix, "events"), "x")
        together.xadd(names.audit_key(prefix), {"who": "x"}, maxlen=10)
        together.execute()
    assert admin.xlen(names.audit_key(prefix)) == 1
    assert admin.mget([names.reader_status_key(prefix)]) == [None]


def test_the_admin_service_forgets_a_pipeline(logins: Any, prefix: str) -> None:
    admin = logins["admin"]
    logins["reader"].set(names.lineage_key(prefix), "x")
    assert set(admin.scan_iter(match=names.every_key(prefix))) == {names.lineage_key(prefix).encode()}
    assert admin.unlink(names.lineage_key(prefix)) == 1


@pytest.mark.parametrize(
    ("user", "command"),
    [
        ("reader", ("HSET", "tidegate:{}:1:ack", "events", "x")),
        ("reader", ("SET", "tidegate:{}:lane:events:control", "x")),
        ("processor", ("SET", "tidegate:{}:reader", "x")),
        ("processor", ("SET", "tidegate:{}:lineage", "x")),
        ("processor", ("LPUSH", "tidegate:{}:snapshot:requests", "x")),
        ("admin", ("SET", "elsewhere:{}", "x")),
        ("reader", ("FLUSHALL",)),
        ("processor", ("KEYS", "*")),
        ("admin", ("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")),
        ("admin", ("ACL", "LIST")),
    ],
)
def test_none_of_them_may_do_more(logins: Any, prefix: str, user: str, command: tuple[str, ...]) -> None:
    with pytest.raises(NoPermissionError):
        logins[user].execute_command(*(part.format(prefix) for part in command))
