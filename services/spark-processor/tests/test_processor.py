"""The whole processor as a process: real Spark, real Kafka, real Redis; killed where it hurts, nothing is lost."""

import json
import os
import signal
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import redis as redis_client
import yaml
from confluent_kafka import Message
from kit.fleet import Service, service, spark_jars
from kit.frames import ORDERS, RawLog, row
from kit.pipelines import document, secrets_of
from kit.topics import Inbox, append, inbox, limit_records, make_topic
from kit.wait import wait

from tidegate.clock import unix_microseconds
from tidegate.contracts import names
from tidegate.contracts.dead_letter import DeadLetter
from tidegate.contracts.lineage import Lineage
from tidegate.contracts.request import Asked, Fate, LaneOutcome, LaneRequest, Result, decode_outcome
from tidegate.contracts.resolution import decode_record
from tidegate.contracts.status import LaneStatus, State
from tidegate.lsn import Lsn
from tidegate.pgoutput.messages import Update
from tidegate.position import before

pytestmark = pytest.mark.timeout(240)
START_SECONDS = 90


@dataclass
class Fleet:
    pipeline: str
    bootstrap: str
    client: redis_client.Redis
    processor: Service
    log: RawLog

    def send(self, *frames: bytes) -> None:
        append(self.bootstrap, names.raw_topic(self.pipeline), frames)

    def rows(self, *numbers: int) -> None:
        self.send(self.log.transaction(*(row(number) for number in numbers)), self.log.tick())

    def status(self) -> LaneStatus | None:
        value = self.client.get(names.lane_status_key(self.pipeline, "events"))
        return LaneStatus.decode(value) if isinstance(value, bytes) else None

    def acked(self) -> dict[str, Any]:
        value = self.client.hget(names.ack_key(self.pipeline, self.log.generation.id), "events")
        return json.loads(value) if isinstance(value, bytes) else {}


@pytest.fixture(params=["realtime", "batch"])
def trigger(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def fleet(kafka, redis, prefix: str, tmp_path: Path, trigger: str) -> Iterator[Fleet]:
    raw_topic_id = make_topic(kafka.bootstrap, names.raw_topic(prefix))
    sinks = [{"name": "events", "type": "kafka_topics", "trigger": trigger}]
    file = tmp_path / "pipeline.yaml"
    file.write_text(yaml.safe_dump(document(prefix, kafka=kafka.bootstrap, redis_url=redis.url, sinks=sinks)))
    environ = secrets_of(redis_url=redis.url) | spark_jars()
    with service("tidegate-processor", file, environ) as processor:
        client = redis_client.Redis.from_url(redis.url)
        fleet = Fleet(prefix, kafka.bootstrap, client, processor, RawLog(topic_id=raw_topic_id))
        fleet.send(fleet.log.epoch())
        yield fleet
        client.close()


def received(fleet: Fleet, box: Inbox, count: int, seconds: float = START_SECONDS) -> list[int]:
    messages: list[Message] = box.until(lambda found: len(found) >= count, seconds, f"{count} events")
    return [json.loads(message.key())["id"] for message in messages]


def test_events_arrive_and_are_acked_and_it_drains_on_sigterm(fleet: Fleet) -> None:
    fleet.rows(1, 2)
    fleet.processor.start()
    with inbox(fleet.bootstrap, f"{fleet.pipeline}.public.orders") as box:
        assert received(fleet, box, 2) == [1, 2]
        fleet.rows(3)
        assert received(fleet, box, 3, 20) == [1, 2, 3]
    wait(lambda: fleet.acked().get("safe_lsn") == f"{fleet.log.safe_lsn:016x}", 10, "the ack says all of it")

    assert fleet.processor.stop() == 0
    status = fleet.status()
    assert status is not None
    assert status.state is State.DRAINED


@pytest.mark.parametrize("victim", ["driver", "worker"])
def test_killed_it_comes_back_and_delivers_each_change_once(fleet: Fleet, victim: str) -> None:
    fleet.processor.start()
    fleet.rows(1)
    with inbox(fleet.bootstrap, f"{fleet.pipeline}.public.orders") as box:
        received(fleet, box, 1)
        fleet.rows(2, 3)

        if victim == "driver":
            fleet.processor.kill()
            fleet.rows(4)
            fleet.processor.start()
        else:
            status = wait(fleet.status, 10, "the lane's status")
            os.kill(status.pid, signal.SIGKILL)
            fleet.rows(4)

        assert received(fleet, box, 4) == [1, 2, 3, 4]
        fleet.rows(5)
        assert received(fleet, box, 5, 30) == [1, 2, 3, 4, 5]


def test_killed_in_the_middle_of_a_backlog_it_delivers_each_change_once_and_in_order(fleet: Fleet) -> None:
    """More than one Kafka transaction's worth, so that one is open when the worker dies."""
    fleet.processor.start()
    fleet.rows(0)
    numbers = range(1, 60_001)
    with inbox(fleet.bootstrap, f"{fleet.pipeline}.public.orders") as box:
        received(fleet, box, 1)
        status = wait(fleet.status, 10, "the lane's status")
        frames = (numbers[at : at + 1500] for at in range(0, len(numbers), 1500))
        fleet.send(*(fleet.log.transaction(*map(row, each)) for each in frames), fleet.log.tick())
        received(fleet, box, 2)
        os.kill(status.pid, signal.SIGKILL)

        assert received(fleet, box, len(numbers) + 1) == [0, *numbers]


def test_a_damaged_frame_stops_the_lane_loudly(fleet: Fleet) -> None:
    fleet.processor.start()
    fleet.rows(1)
    damaged = bytearray(fleet.log.transaction(row(2)))
    damaged[-1] ^= 1

    fleet.send(bytes(damaged), fleet.log.tick())

    assert fleet.processor.wait(START_SECONDS) == 3
    status = fleet.status()
    assert status is not None
    assert status.failure is not None
    assert (status.failure.code, status.events) == ("FRAME_CRC", 1)


def asked(fleet: Fleet, what: Asked, **more: Any) -> LaneOutcome:
    """Asked of the lane, and answered."""
    request = LaneRequest(uuid.uuid4().hex, what, "a test", unix_microseconds(), **more)
    fleet.client.rpush(names.lane_requests_key(fleet.pipeline, "events"), request.encode())
    outcome = answered(fleet, request)
    assert fleet.client.llen(names.lane_requests_key(fleet.pipeline, "events")) == 0
    return outcome


def answered(fleet: Fleet, request: LaneRequest) -> LaneOutcome:
    key = names.lane_outcome_key(fleet.pipeline, "events", request.id)
    return decode_outcome(wait(lambda: fleet.client.get(key), START_SECONDS, f"the outcome of {request.asked}"))


def is_paused(fleet: Fleet) -> bool:
    status = fleet.status()
    fresh = status is not None and not status.is_stale(unix_microseconds())
    return fresh and status is not None and status.state is State.PAUSED


def test_a_paused_lane_stands_whatever_is_restarted_and_goes_on_where_it_was(fleet: Fleet) -> None:
    fleet.processor.start()
    fleet.rows(1)
    with inbox(fleet.bootstrap, f"{fleet.pipeline}.public.orders") as box:
        received(fleet, box, 1)
        assert asked(fleet, Asked.PAUSE).result is Result.DONE
        wait(lambda: is_paused(fleet), 10, "the lane says that it stands")
        acked = fleet.acked()
        fleet.rows(2, 3)
        fleet.processor.kill()
        fleet.processor.start()
        wait(lambda: is_paused(fleet), START_SECONDS, "the lane still says so")
        fleet.rows(4)

        assert asked(fleet, Asked.PAUSE).result is Result.DONE
        assert (received(fleet, box, 1), fleet.acked()) == ([1], acked)
        assert asked(fleet, Asked.RESUME).result is Result.DONE
        assert received(fleet, box, 4) == [1, 2, 3, 4]


def test_a_rewound_lane_delivers_the_same_events_again_and_its_ack_stays(fleet: Fleet) -> None:
    fleet.processor.start()
    places = []
    for number in (1, 2, 3):
        fleet.rows(number)
        places.append(fleet.log.position.commit_lsn)
    with inbox(fleet.bootstrap, f"{fleet.pipeline}.public.orders") as box:
        received(fleet, box, 3)
        end = f"{fleet.log.safe_lsn:016x}"
        wait(lambda: fleet.acked().get("safe_lsn") == end, 10, "the ack says all of it")
        acked = fleet.acked()
        assert asked(fleet, Asked.REWIND, position=before(places[1])).result is Result.DONE
        assert received(fleet, box, 5) == [1, 2, 3, 2, 3]
        ids = [json.loads(message.value())["id"] for message in box.messages]
        assert ids[3:] == ids[1:3]
        assert (fleet.acked()["position"], fleet.acked()["safe_lsn"]) == (acked["position"], acked["safe_lsn"])

        ahead = asked(fleet, Asked.REWIND, position=before(Lsn(places[2] + 0x10000)))
        fleet.rows(4)
        assert (ahead.result, ahead.code) == (Result.REFUSED, "REWIND_AHEAD")
        assert received(fleet, box, 6) == [1, 2, 3, 2, 3, 4]
        wait(lambda: fleet.acked().get("safe_lsn") == f"{fleet.log.safe_lsn:016x}", 10, "the ack grows again")


def letters(fleet: Fleet, box: Inbox, count: int) -> list[DeadLetter]:
    found = [decode_record(m.value()) for m in box.until(lambda m: len(m) >= count, START_SECONDS, f"{count} records")]
    return [each for each in found if isinstance(each, DeadLetter)]


def test_a_letter_is_delivered_once_when_its_cause_is_mended(fleet: Fleet) -> None:
    """Asked for twice at once; and one that something newer of its key has overtaken is not."""
    orders, largest = f"{fleet.pipeline}.public.orders", 600_000
    make_topic(fleet.bootstrap, orders, largest_bytes=largest)
    lineage = Lineage(fleet.log.generation, 1, "topic", fleet.log.safe_lsn, ("events",), ())
    fleet.client.set(names.lineage_key(fleet.pipeline), lineage.encode())
    fleet.processor.start()
    for number in (1, 2):
        fleet.send(fleet.log.transaction(row(number, "x" * 700_000)))
    newer = Update(ORDERS.relation_id, None, None, (b"2", b"newer"))
    fleet.send(fleet.log.transaction(newer), fleet.log.tick())
    with inbox(fleet.bootstrap, orders) as box, inbox(fleet.bootstrap, names.dead_letter_topic(fleet.pipeline)) as dead:
        received(fleet, box, 1)
        ids = tuple(letter.id for letter in letters(fleet, dead, 2))
        limit_records(fleet.bootstrap, orders, 2_000_000)
        looked = asked(fleet, Asked.REPLAY, ids=ids, is_dry_run=True)
        tried = [asked(fleet, what).result for what in (Asked.PING, Asked.TRIAL)]
        requests = [
            LaneRequest(uuid.uuid4().hex, Asked.REPLAY, "a test", unix_microseconds(), ids=ids) for _ in range(2)
        ]
        fleet.client.rpush(names.lane_requests_key(fleet.pipeline, "events"), *(each.encode() for each in requests))
        first, second = (answered(fleet, each) for each in requests)
        fleet.rows(3)

        assert received(fleet, box, 3) == [2, 1, 3]
        assert tried == [Result.DONE, Result.DONE]
        assert looked.letters() == {Fate.DELIVERABLE: ids[:1], Fate.NEWER: ids[1:]}
        assert first.letters() == {Fate.DELIVERED: ids[:1], Fate.NEWER: ids[1:]}
        assert second.letters() == {Fate.RESOLVED: ids[:1], Fate.NEWER: ids[1:]}
        assert b"x" * 700_000 in (box.messages[1].value() or b"")
