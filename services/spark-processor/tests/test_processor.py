"""The whole processor as a process: real Spark, real Kafka, real Redis; killed where it hurts, nothing is lost."""

import json
import os
import signal
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kit.fed_processor import START_SECONDS, FedProcessor, fed_processor, numbers
from kit.frames import ORDERS, row
from kit.topics import Inbox, inbox, limit_records, make_topic
from kit.wait import wait

from tidegate.clock import unix_microseconds
from tidegate.contracts import names
from tidegate.contracts.dead_letter import DeadLetter
from tidegate.contracts.lineage import Lineage
from tidegate.contracts.request import Asked, Fate, LaneOutcome, LaneRequest, Result, decode_outcome
from tidegate.contracts.resolution import decode_record
from tidegate.contracts.status import State
from tidegate.lsn import Lsn
from tidegate.pgoutput.messages import Update
from tidegate.position import before

pytestmark = pytest.mark.timeout(240)

_BEFORE_SPARK_IS_CONFIGURED = (
    "WARNING: Using incubator modules",
    "Setting default log level",
    "To adjust logging level",
)


@pytest.fixture(params=["realtime", "batch"])
def trigger(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def fleet(kafka, redis, prefix: str, tmp_path: Path, trigger: str) -> Iterator[FedProcessor]:
    servers = {"kafka": kafka.bootstrap, "redis_url": redis.url}
    with fed_processor(prefix, tmp_path, **servers, sinks=[{"trigger": trigger}]) as fed:
        yield fed


def test_events_arrive_and_are_acked_and_it_drains_on_sigterm(fleet: FedProcessor) -> None:
    fleet.rows(1, 2)
    fleet.processor.start()
    with inbox(fleet.bootstrap, fleet.orders) as box:
        assert numbers(box, 2) == [1, 2]
        fleet.rows(3)
        assert numbers(box, 3, 20) == [1, 2, 3]
        # Also in a real-time batch, which ends in an hour: figures come by the heartbeat, not by Spark.
        wait(lambda: fleet.figure("lane_events") == 3, 10, "the metrics say so")
        assert fleet.figure("lane_frames") >= 2
        assert fleet.figure("lane_write_seconds") > 0
        assert fleet.figure("lane_commit_seconds") > 0
        assert fleet.figure("lane_latency_p99_seconds") > 0
    wait(lambda: fleet.is_acked, 10, "the ack says all of it")

    assert fleet.processor.stop() == 0
    status = fleet.status()
    assert status is not None
    assert status.state is State.DRAINED
    spoken = [line for line in fleet.processor.log().splitlines() if not line.startswith(_BEFORE_SPARK_IS_CONFIGURED)]
    assert [line for line in spoken if not line.startswith('{"time": ')] == []
    assert [json.loads(line)["level"] for line in spoken if '"level": "error"' in line] == []


@pytest.mark.parametrize("victim", ["driver", "worker"])
def test_killed_it_comes_back_and_delivers_each_change_once(fleet: FedProcessor, victim: str) -> None:
    fleet.processor.start()
    fleet.rows(1)
    with inbox(fleet.bootstrap, fleet.orders) as box:
        numbers(box, 1)
        fleet.rows(2, 3)

        if victim == "driver":
            fleet.processor.kill()
            fleet.rows(4)
            fleet.processor.start()
        else:
            status = wait(fleet.status, 10, "the lane's status")
            os.kill(status.pid, signal.SIGKILL)
            fleet.rows(4)

        assert numbers(box, 4) == [1, 2, 3, 4]
        fleet.rows(5)
        assert numbers(box, 5, 30) == [1, 2, 3, 4, 5]


def test_killed_in_the_middle_of_a_backlog_it_delivers_each_change_once_and_in_order(fleet: FedProcessor) -> None:
    """More than one Kafka transaction's worth, so that one is open when the worker dies."""
    fleet.processor.start()
    fleet.rows(0)
    ids = range(1, 60_001)
    with inbox(fleet.bootstrap, fleet.orders) as box:
        numbers(box, 1)
        status = wait(fleet.status, 10, "the lane's status")
        frames = (ids[at : at + 1500] for at in range(0, len(ids), 1500))
        fleet.send(*(fleet.log.transaction(*map(row, each)) for each in frames), fleet.log.tick())
        numbers(box, 2)
        os.kill(status.pid, signal.SIGKILL)

        assert numbers(box, len(ids) + 1) == [0, *ids]


def test_a_damaged_frame_stops_the_lane_loudly(fleet: FedProcessor) -> None:
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


def asked(fleet: FedProcessor, what: Asked, **more: Any) -> LaneOutcome:
    """Asked of the lane, and answered."""
    request = LaneRequest(uuid.uuid4().hex, what, "a test", unix_microseconds(), **more)
    fleet.client.rpush(names.lane_requests_key(fleet.pipeline, "events"), request.encode())
    outcome = answered(fleet, request)
    assert fleet.client.llen(names.lane_requests_key(fleet.pipeline, "events")) == 0
    return outcome


def answered(fleet: FedProcessor, request: LaneRequest) -> LaneOutcome:
    key = names.lane_outcome_key(fleet.pipeline, "events", request.id)
    return decode_outcome(wait(lambda: fleet.client.get(key), START_SECONDS, f"the outcome of {request.asked}"))


def is_paused(fleet: FedProcessor) -> bool:
    status = fleet.status()
    fresh = status is not None and not status.is_stale(unix_microseconds())
    return fresh and status is not None and status.state is State.PAUSED


def test_a_paused_lane_stands_whatever_is_restarted_and_goes_on_where_it_was(fleet: FedProcessor) -> None:
    fleet.processor.start()
    fleet.rows(1)
    with inbox(fleet.bootstrap, fleet.orders) as box:
        numbers(box, 1)
        assert asked(fleet, Asked.PAUSE).result is Result.DONE
        wait(lambda: is_paused(fleet), 10, "the lane says that it stands")
        acked = fleet.acked()
        fleet.rows(2, 3)
        fleet.processor.kill()
        fleet.processor.start()
        wait(lambda: is_paused(fleet), START_SECONDS, "the lane still says so")
        fleet.rows(4)

        assert asked(fleet, Asked.PAUSE).result is Result.DONE
        assert (numbers(box, 1), fleet.acked()) == ([1], acked)
        assert asked(fleet, Asked.RESUME).result is Result.DONE
        assert numbers(box, 4) == [1, 2, 3, 4]


def test_a_redis_that_is_set_back_to_when_the_lane_was_paused_does_not_stop_it(fleet: FedProcessor) -> None:
    """It drained, and stood for ever: it said each second that it did."""
    control = names.lane_control_key(fleet.pipeline, "events")
    fleet.processor.start()
    fleet.rows(1)
    with inbox(fleet.bootstrap, fleet.orders) as box:
        numbers(box, 1)
        assert asked(fleet, Asked.PAUSE).result is Result.DONE
        copied = fleet.client.get(control)
        assert asked(fleet, Asked.RESUME).result is Result.DONE
        fleet.rows(2)
        numbers(box, 2)

        fleet.client.set(control, copied)
        fleet.rows(3)
        numbers(box, 3)
        heard = fleet.status()
        wait(lambda: fleet.status() != heard, 10, "it has looked at what it is told")
        fleet.rows(4)

        assert numbers(box, 4) == [1, 2, 3, 4]
    assert fleet.figure("lane_restarts") == 0


def test_a_lane_that_begins_while_redis_takes_nothing_does_not_stand(fleet: FedProcessor) -> None:
    """What it is told then is what stopped the one before."""
    fleet.processor.start()
    fleet.rows(1)
    with inbox(fleet.bootstrap, fleet.orders) as box:
        numbers(box, 1)
        assert fleet.processor.stop() == 0
        fleet.client.config_set("maxmemory", "1")
        try:
            fleet.processor.start()
            fleet.rows(2)
            numbers(box, 2)
            fleet.rows(3)

            assert numbers(box, 3) == [1, 2, 3]
        finally:
            fleet.client.config_set("maxmemory", "0")


def test_a_rewound_lane_delivers_the_same_events_again_and_its_ack_stays(fleet: FedProcessor) -> None:
    fleet.processor.start()
    places = []
    for number in (1, 2, 3):
        fleet.rows(number)
        places.append(fleet.log.position.commit_lsn)
    with inbox(fleet.bootstrap, fleet.orders) as box:
        numbers(box, 3)
        wait(lambda: fleet.is_acked, 10, "the ack says all of it")
        acked = fleet.acked()
        assert asked(fleet, Asked.REWIND, position=before(places[1])).result is Result.DONE
        assert numbers(box, 5) == [1, 2, 3, 2, 3]
        ids = [json.loads(message.value())["id"] for message in box.messages]
        assert ids[3:] == ids[1:3]
        assert (fleet.acked()["position"], fleet.acked()["safe_lsn"]) == (acked["position"], acked["safe_lsn"])

        ahead = asked(fleet, Asked.REWIND, position=before(Lsn(places[2] + 0x10000)))
        fleet.rows(4)
        assert (ahead.result, ahead.code) == (Result.REFUSED, "REWIND_AHEAD")
        assert numbers(box, 6) == [1, 2, 3, 2, 3, 4]
        wait(lambda: fleet.is_acked, 10, "the ack grows again")


def test_a_lane_is_rewound_to_its_beginning_and_to_a_time(fleet: FedProcessor) -> None:
    fleet.processor.start()
    fleet.rows(1, 2)
    with inbox(fleet.bootstrap, fleet.orders) as box:
        numbers(box, 2)
        since = unix_microseconds()
        fleet.rows(3)
        numbers(box, 3)
        wait(lambda: fleet.is_acked, 10, "the ack says all of it")
        assert asked(fleet, Asked.REWIND).result is Result.DONE
        assert numbers(box, 6) == [1, 2, 3, 1, 2, 3]
        assert asked(fleet, Asked.REWIND, since=since).result is Result.DONE
        assert numbers(box, 7) == [1, 2, 3, 1, 2, 3, 3]


def letters(fleet: FedProcessor, box: Inbox, count: int) -> list[DeadLetter]:
    found = [decode_record(m.value()) for m in box.until(lambda m: len(m) >= count, START_SECONDS, f"{count} records")]
    return [each for each in found if isinstance(each, DeadLetter)]


def test_a_letter_is_delivered_once_when_its_cause_is_mended(fleet: FedProcessor) -> None:
    """Asked for twice at once; and one that something newer of its key has overtaken is not."""
    orders, largest = fleet.orders, 600_000
    make_topic(fleet.bootstrap, orders, largest_bytes=largest)
    lineage = Lineage(fleet.log.generation, 1, "topic", fleet.log.safe_lsn, ("events",), ())
    fleet.client.set(names.lineage_key(fleet.pipeline), lineage.encode())
    fleet.processor.start()
    for number in (1, 2):
        fleet.send(fleet.log.transaction(row(number, "x" * 700_000)))
    newer = Update(ORDERS.relation_id, None, None, (b"2", b"newer"))
    fleet.send(fleet.log.transaction(newer), fleet.log.tick())
    with inbox(fleet.bootstrap, orders) as box, inbox(fleet.bootstrap, names.dead_letter_topic(fleet.pipeline)) as dead:
        numbers(box, 1)
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

        assert numbers(box, 3) == [2, 1, 3]
        assert tried == [Result.DONE, Result.DONE]
        assert looked.letters() == {Fate.DELIVERABLE: ids[:1], Fate.NEWER: ids[1:]}
        assert first.letters() == {Fate.DELIVERED: ids[:1], Fate.NEWER: ids[1:]}
        assert second.letters() == {Fate.RESOLVED: ids[:1], Fate.NEWER: ids[1:]}
        assert b"x" * 700_000 in (box.messages[1].value() or b"")
