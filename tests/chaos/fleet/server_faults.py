"""Faults of the three servers: killed, stopped, frozen, emptied, set back. Each is up again when the fault is over.

Invariant: a fault that empties Redis says so to the field, for then a sample may not show what was confirmed on.
"""

import os
import random
import shutil
import time
from contextlib import suppress
from signal import SIGCONT, SIGSTOP
from typing import Any

import psycopg
from chaos.fleet.faults import FLOW_SECONDS, REACH_SECONDS, flow, pause
from chaos.fleet.field import Fault, Field
from chaos.fleet.kills import Kind, kill, kill_and_start
from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, OffsetSpec
from kit.topics import configure
from kit.wait import DeadlinePassedError, wait

from tidegate.contracts import names
from tidegate.stack.server import Server

_FAST_STOP_SECONDS = 10.0
_CALL_SECONDS = 20.0


def killed(kind: Kind) -> Fault:
    def fault(field: Field, draw: random.Random) -> None:
        flow(field, draw)
        kill_and_start(field, kind, lambda: pause(draw.uniform(0, 2)))

    return fault


def frozen(name: str) -> Fault:
    def fault(field: Field, draw: random.Random) -> None:
        flow(field, draw)
        server: Server = getattr(field.servers, name)
        pid = server.pid or 0
        with suppress(ProcessLookupError):
            os.kill(pid, SIGSTOP)
        pause(draw.uniform(1, 8))
        with suppress(ProcessLookupError):
            os.kill(pid, SIGCONT)

    return fault


def postgres_crashed_after_acks(field: Field, draw: random.Random) -> None:
    """What was confirmed since the checkpoint is forgotten by the slot."""
    field.rig.sql("CHECKPOINT")
    field.load.wait_for(draw.randint(50, 150), FLOW_SECONDS)
    kill_and_start(field, Kind.POSTGRES)


def postgres_stopped_fast(field: Field, draw: random.Random) -> None:
    """With the sink's ack held back, so that the walsender has something to wait for."""
    held = draw.random() < 0.5
    if held:
        field.processor.freeze()
    flow(field, draw)
    begun = time.monotonic()
    field.servers.postgres.stop()
    lasted = time.monotonic() - begun
    field.servers.postgres.start()
    if held:
        field.processor.thaw()
    assert lasted < _FAST_STOP_SECONDS, f"I9: the server took {lasted:.0f} s to stop"


def redis_emptied(field: Field, draw: random.Random) -> None:
    flow(field, draw)
    field.acks_may_vanish = True
    for _ in range(draw.randint(1, 3)):
        field.redis.flushall()
        flow(field, draw)
    if draw.random() < 0.5:
        kill(field, Kind.READER)


def redis_set_back(field: Field, draw: random.Random) -> None:
    """To a copy of its files: acks go back, to what they were some transactions ago."""
    field.acks_may_vanish = True
    server = field.servers.redis
    data, copy = server.folder / "data", server.folder / "copy"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(data, copy)
    field.load.wait_for(draw.randint(20, 80), FLOW_SECONDS)
    kill(field, Kind.REDIS)
    shutil.rmtree(data)
    copy.rename(data)
    server.start()


def redis_full(field: Field, draw: random.Random) -> None:
    """It takes nothing any more: acks come late, nothing else."""
    flow(field, draw)
    field.redis.config_set("maxmemory", "1")
    pause(draw.uniform(2, 5))
    field.redis.config_set("maxmemory", "0")


def log_trimmed(field: Field, draw: random.Random) -> None:
    """Retention beats the lane: what the reader knows to be in the raw topic is not there any more."""
    field.may_repeat = True
    raw = names.raw_topic(field.pipeline)
    held = draw.random() < 0.5
    if held:
        field.processor.freeze()
    flow(field, draw)
    admin = AdminClient({"bootstrap.servers": field.servers.kafka.bootstrap})
    answers = admin.delete_records([TopicPartition(raw, 0, -1)])
    for answer in answers.values():
        answer.result(_CALL_SECONDS)
    if held:
        field.processor.thaw()
    flow(field, draw)


def log_deleted(field: Field, draw: random.Random) -> None:
    field.may_repeat = True
    flow(field, draw)
    admin = AdminClient({"bootstrap.servers": field.servers.kafka.bootstrap})
    for answer in admin.delete_topics([names.raw_topic(field.pipeline)]).values():
        answer.result(_CALL_SECONDS)
    flow(field, draw)


def log_made_again(field: Field, draw: random.Random) -> None:
    """And it has more records than the lane has seen of the one before, when the lane looks."""
    field.may_repeat = True
    flow(field, draw)
    raw = names.raw_topic(field.pipeline)
    admin = AdminClient({"bootstrap.servers": field.servers.kafka.bootstrap})
    field.processor.freeze()
    before = _end(admin, raw)
    for answer in admin.delete_topics([raw]).values():
        answer.result(_CALL_SECONDS)
    with suppress(DeadlinePassedError):  # a long log is not overtaken in a trial
        wait(lambda: _end(admin, raw) > before, draw.uniform(5, 20), "the new log is longer", 0.2)
    field.processor.thaw()
    flow(field, draw)


def _end(admin: AdminClient, topic: str) -> int:
    """-1: it is not there."""
    place = TopicPartition(topic, 0)
    try:
        return int(admin.list_offsets({place: OffsetSpec.latest()})[place].result(_CALL_SECONDS).offset)
    except (KafkaException, TimeoutError):
        return -1


def log_compacted(field: Field, draw: random.Random) -> None:
    """Somebody sets the raw topic to be compacted: the brokers then refuse records without a key."""
    flow(field, draw)
    bootstrap, raw = field.servers.kafka.bootstrap, names.raw_topic(field.pipeline)
    configure(bootstrap, raw, "cleanup.policy", "compact")
    pause(draw.uniform(1, 4))
    configure(bootstrap, raw, "cleanup.policy", "delete")


def foreign_wal(field: Field, draw: random.Random) -> None:
    """A busy neighbour, and nobody writes into what is published."""
    field.load.pause()
    with psycopg.connect(field.servers.postgres.dsn(), autocommit=True) as link:
        link.execute("CREATE TABLE IF NOT EXISTS elsewhere (filler text)")
        for _ in range(draw.randint(2, 5)):
            link.execute("INSERT INTO elsewhere SELECT repeat(md5(random()::text), 100) FROM generate_series(1, 5000)")
        link.execute("TRUNCATE elsewhere")

    def released() -> Any:
        rows = field.rig.sql(
            "SELECT (pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn) < 2 * 16777216)::text"
            " FROM pg_replication_slots WHERE slot_name = %s",
            field.rig.slot,
        )
        if rows != [("true",)]:
            field.rig.sql("CHECKPOINT")
        return rows == [("true",)]

    wait(released, REACH_SECONDS, "I9: the source lets its WAL go", 1.0)
    field.load.resume()


def log_refuses(field: Field, draw: random.Random) -> None:
    """The brokers answer a frame with an error at once: too large, as somebody has set it. A reader that looks at the
    topic meanwhile ends until a person has mended it, who then starts it."""
    bootstrap, raw = field.servers.kafka.bootstrap, names.raw_topic(field.pipeline)
    largest = _setting(bootstrap, raw, "max.message.bytes")
    flow(field, draw)
    configure(bootstrap, raw, "max.message.bytes", "2500")
    pause(draw.uniform(1, 3))
    configure(bootstrap, raw, "max.message.bytes", largest)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    before = _end(admin, raw)
    wait(lambda: field.reader.is_down or _end(admin, raw) > before, 60, "the reader writes, or waits for a person", 0.1)
    if field.reader.is_down:
        field.reader.start()


def redis_emptied_while_the_lane_stands(field: Field, draw: random.Random) -> None:
    """A missing ack is none: the reader goes on writing frames, and may confirm nothing."""
    flow(field, draw)
    field.acks_may_vanish = True
    field.processor.freeze()
    field.redis.flushall()
    field.load.wait_for(20, FLOW_SECONDS)
    pause(3.0)
    field.processor.thaw()


def _setting(bootstrap: str, topic: str, name: str) -> str:
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    [answer] = admin.describe_configs([resource]).values()
    return str(answer.result(_CALL_SECONDS)[name].value)
