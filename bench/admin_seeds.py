"""What the bench of the admin service finds: pipelines with their statuses every second, a raw topic, dead letters.

Everything is written by the contracts' own encoders, as the reader and the lanes write it.
"""

import multiprocessing
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

import psycopg
import redis
import yaml
from confluent_kafka import Producer
from kit.frames import RawLog, row
from kit.letters import make_letter
from kit.pipelines import document
from kit.topics import append, make_topic

from bench.figures import QUICK
from tidegate.clock import unix_microseconds
from tidegate.contracts import names
from tidegate.contracts.ack import Ack
from tidegate.contracts.dead_letter import DeadLetter
from tidegate.contracts.status import LaneStatus, ReaderStatus, State
from tidegate.lsn import Lsn
from tidegate.position import BEGINNING
from tidegate.stack.up import Stack

PIPELINES = 20
LANES = 50
"""Of each pipeline: a thousand in all."""
LETTERS = 20_000 if QUICK else 1_000_000
"""Of the first pipeline."""
NAME = "bench00"
FRAMES = 20_000
FIRST_XID = 700
HEARTBEAT_BYTES = 0x40
TABLES = "".join(f"CREATE TABLE orders_{n} (id int PRIMARY KEY, note text, made timestamptz);" for n in range(50))


def configurations(folder: Path, stack: Stack, dsn: str) -> list[Path]:
    made = []
    for number in range(PIPELINES):
        values = document(f"bench{number:02}", kafka=stack.kafka.bootstrap, redis_url=stack.redis.url, postgres=dsn)
        values["source"]["publication"] = {"manage": False, "names": ["mine"]}
        values["sinks"] = [
            {"name": f"lane_{lane}", "type": "kafka_topics", "required": lane % 2 == 0} for lane in range(LANES)
        ]
        made.append(folder / f"bench{number:02}.yaml")
        made[-1].write_text(yaml.safe_dump(values))
    return made


def fill_source(source: psycopg.Connection[Any]) -> None:
    source.execute(TABLES.encode())
    source.execute("CREATE PUBLICATION mine FOR ALL TABLES")
    for number in range(PIPELINES):
        source.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", [f"tidegate_bench{number:02}"])


def fill_topics(bootstrap: str, log: RawLog) -> None:
    make_topic(bootstrap, names.raw_topic(NAME))
    make_topic(bootstrap, names.dead_letter_topic(NAME))
    log.epoch()
    for number in range(FRAMES):
        log.transaction(row(number, f"note {number}"), xid=FIRST_XID + number)
    append(bootstrap, names.raw_topic(NAME), log.frames)
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, "enable.idempotence": True})
    for number in range(LETTERS):
        producer.produce(names.dead_letter_topic(NAME), _letter(number).encode(), partition=0)
        if number % 1_000 == 0 and len(producer) > 50_000:
            producer.flush(30)
    if producer.flush(60):
        raise SystemExit("the broker did not take the dead letters")


def _letter(number: int) -> DeadLetter:
    """Nine of ten are one lane's, as when its sink refuses everything; the oldest of it are of a table of their own."""
    lane = "lane_0" if number % 10 else f"lane_{number // 10 % LANES}"
    channel = "public.rare" if number < 50 else f"public.orders_{number // 3 % 50}"
    return make_letter(number, pipeline=NAME, lane=lane, code=f"CODE_{number % 7}", channel=channel)


@contextmanager
def playing(redis_url: str, log: RawLog) -> Iterator[None]:
    """In a process of its own: what it spends would else be told as the service's time."""
    spawn = multiprocessing.get_context("spawn")
    ended = spawn.Event()
    what = (log.generation.id, int(log.safe_lsn), len(log.frames) - 1)
    player = spawn.Process(target=_play, args=(redis_url, ended, what), daemon=True)
    player.start()
    try:
        yield
    finally:
        ended.set()
        player.join(10)


def _play(redis_url: str, ended: Event, what: tuple[str, int, int]) -> None:
    """Every second a heartbeat has come through: else the lanes would be called down after half a minute.

    Each pipeline says so in its own part of the second, as processes of their own do."""
    generation, lsn, offset = what
    turns = 0
    with redis.Redis.from_url(redis_url) as client:
        while not ended.wait(1.0 / PIPELINES):
            beats, number = divmod(turns, PIPELINES)
            _say(client, f"bench{number:02}", generation, lsn + HEARTBEAT_BYTES * (beats + 1), offset)
            turns += 1


def _say(client: redis.Redis, pipeline: str, generation: str, lsn: int, offset: int) -> None:
    now = unix_microseconds()
    common: dict[str, Any] = {"pipeline": pipeline, "state": State.RUNNING, "pid": 1, "time": now, "started": now}
    place: dict[str, Any] = {"generation": generation, "epoch": 1, "raw_offset": offset}
    reader = ReaderStatus(**common, **place, server_lsn=lsn, produced_lsn=lsn, confirmed_lsn=lsn, changes=offset)
    statuses = {names.reader_status_key(pipeline): reader.encode()}
    acks: dict[Any, Any] = {}
    for lane in (f"lane_{at}" for at in range(LANES)):
        status = LaneStatus(**common, **place, sink=lane, incarnation=1, safe_lsn=lsn, events=offset)
        statuses[names.lane_status_key(pipeline, lane)] = status.encode()
        acks[lane] = Ack(lane, generation, 1, "topic", offset, BEGINNING, Lsn(lsn), now).encode()
    client.mset(statuses)
    client.hset(names.ack_key(pipeline, generation), mapping=acks)
