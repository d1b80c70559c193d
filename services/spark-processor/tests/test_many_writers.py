"""A batch lane of several writers on real Spark, Kafka and Redis: killed where it hurts, its number changed."""

import json
import os
import random
import signal
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from kit.fed_processor import START_SECONDS, FedProcessor, fed_processor
from kit.frames import ORDERS
from kit.topics import Inbox, inbox
from kit.wait import wait

from tidegate.clock import unix_microseconds
from tidegate.contracts import names
from tidegate.contracts.request import Asked, LaneOutcome, LaneRequest, Result, decode_outcome
from tidegate.contracts.status import LaneStatus
from tidegate.pgoutput.messages import Delete, Insert, OldKind, Truncate, Update
from tidegate.position import before

pytestmark = pytest.mark.timeout(300)

KEYS, ROWS_A_FRAME = 200, 500
LONG = 250
"""Frames, so that what is killed at the first of their events is in the middle of them: a commit has 10,000."""


@pytest.fixture
def fleet(kafka, redis, prefix: str, tmp_path: Path) -> Iterator[FedProcessor]:
    servers = {"kafka": kafka.bootstrap, "redis_url": redis.url}
    with fed_processor(prefix, tmp_path, **servers, sinks=[{"trigger": "batch", "writers": 2}]) as fed:
        yield fed


class Changes:
    """Versions of a few keys, and what is about all of them now and then."""

    def __init__(self, fed: FedProcessor) -> None:
        self.fed, self.draw = fed, random.Random(7)
        self.written: Counter[str] = Counter()
        """Events by operation."""
        self._versions: Counter[int] = Counter()

    def rows(self, frames: int) -> list[bytes]:
        return [self._frame() for _ in range(frames)]

    def for_all(self) -> list[bytes]:
        """A row moves to another key, and its old key is taken anew; then all rows go."""
        table = ORDERS.relation_id
        moved = Update(table, OldKind.KEY, (b"1", None), (b"1000", b"0"))
        self.written.update({"UPDATE": 1, "INSERT": 1, "DELETE": 1, "TRUNCATE": 1})
        self._versions[1] += 1
        version = b"%d" % self._versions[1]
        anew = [moved, Insert(table, (b"1", version)), Delete(table, OldKind.KEY, (b"1000", None))]
        return [self.fed.log.transaction(*anew), self.fed.log.transaction(Truncate((table,), 0))]

    def send(self, *frames: bytes) -> None:
        self.fed.send(*frames, self.fed.log.tick())

    def _frame(self) -> bytes:
        changes = []
        for key in self.draw.choices(range(KEYS), k=ROWS_A_FRAME):
            self._versions[key] += 1
            changes.append(Update(ORDERS.relation_id, None, None, (b"%d" % key, b"%d" % self._versions[key])))
        self.written["UPDATE"] += ROWS_A_FRAME
        return self.fed.log.transaction(*changes)


@contextmanager
def consumed(changes: Changes) -> Iterator[Inbox]:
    with inbox(changes.fed.bootstrap, changes.fed.orders) as box:
        yield box


def judge(changes: Changes, box: Inbox) -> None:
    """Each event once, each key's in the order of commits, and what is about all keys behind what was before it."""
    total = changes.written.total()
    found = box.until(lambda found: len(found) >= total, START_SECONDS, f"{total} events")
    events = [json.loads(message.value()) for message in found]
    assert changes.written == Counter(event["operation"] for event in events)
    assert total == len({event["id"] for event in events})
    newest: dict[Any, tuple[int, int]] = {}
    of_all = (0, 0)
    for event in events:
        high, low = event["position"]["commit_lsn"].split("/")
        place = (int(high, 16) << 32 | int(low, 16), event["position"]["ordinal"])
        payload = event["payload"]
        assert place > of_all
        if event["operation"] == "TRUNCATE":
            assert place > max(newest.values())
            of_all = place
        for key in {row["id"] for row in (payload["row"], payload["old"]) if row}:
            assert place > newest.get(key, (0, 0)), f"key {key}"
            newest[key] = place
    assert len(box.messages) == total


def statuses(fed: FedProcessor, writers: int) -> list[LaneStatus]:
    keys = [names.lane_writer_status_key(fed.pipeline, "events", writer) for writer in range(writers)]
    values: Any = fed.client.mget(keys)
    return [LaneStatus.decode(value) for value in values if value is not None]


def work_side_by_side(fed: FedProcessor, writers: int) -> list[LaneStatus]:
    """Of one incarnation, each in a worker of its own. A stage runs where there is a frame."""

    def told() -> list[LaneStatus]:
        fed.send(fed.log.tick())
        found = statuses(fed, writers)
        lane = fed.status()
        are_new = lane is not None and all(status.incarnation == lane.incarnation for status in found)
        return found if are_new and len({status.pid for status in found}) == writers else []

    return wait(told, START_SECONDS, f"{writers} writers", 0.5)


def set_writers(fed: FedProcessor, folder: Path, writers: int) -> None:
    file = folder / "pipeline.yaml"
    values = yaml.safe_load(file.read_text())
    values["sinks"][0]["writers"] = writers
    file.write_text(yaml.safe_dump(values))


def test_a_writer_is_killed_in_the_middle_and_each_event_is_there_once_and_in_order(fleet: FedProcessor) -> None:
    changes = Changes(fleet)
    changes.send(*changes.rows(2))
    fleet.processor.start()
    with consumed(changes) as box:
        killed = work_side_by_side(fleet, 2)
        seen = len(box.until(lambda found: len(found) >= 2 * ROWS_A_FRAME, START_SECONDS, "what one writer began with"))
        changes.send(*changes.rows(LONG), *changes.for_all(), *changes.rows(30))
        box.until(lambda found: len(found) > seen, START_SECONDS, "some of it")
        os.kill(killed[1].pid, signal.SIGKILL)
        changes.send(*changes.rows(5), *changes.for_all(), *changes.rows(5))

        judge(changes, box)
        wait(lambda: fleet.is_acked, 20, "the ack says all of it")
        assert all(status.events > 0 for status in statuses(fleet, 2))
        assert killed[0].incarnation < work_side_by_side(fleet, 2)[0].incarnation
    assert fleet.processor.stop() == 0


def _is_acked_behind_a_tick(fleet: FedProcessor) -> bool:
    """A lane that was killed between its commit and its ack says it at its next frame."""
    fleet.send(fleet.log.tick())
    return fleet.is_acked


def test_their_number_changes_where_all_agree_whoever_was_killed_before(fleet: FedProcessor, tmp_path: Path) -> None:
    changes = Changes(fleet)
    changes.send(*changes.rows(2))
    fleet.processor.start()
    with consumed(changes) as box:
        work_side_by_side(fleet, 2)
        for writers in (3, 1, 2):
            seen = len(box.messages)
            changes.send(*changes.rows(LONG), *changes.for_all(), *changes.rows(30))
            box.until(lambda found, seen=seen: len(found) > seen, START_SECONDS, "some of it")
            fleet.processor.kill()
            set_writers(fleet, tmp_path, writers)
            fleet.processor.start()
            judge(changes, box)
            wait(lambda: _is_acked_behind_a_tick(fleet), 20, "the ack says all of it", 0.5)
            if writers > 1:
                work_side_by_side(fleet, writers)
    assert fleet.processor.log().count("lane_writers_changed") == 4  # from one to two at the very beginning


def asked(fleet: FedProcessor, what: Asked, **more: Any) -> LaneOutcome:
    request = LaneRequest(uuid.uuid4().hex, what, "a test", unix_microseconds(), **more)
    fleet.client.rpush(names.lane_requests_key(fleet.pipeline, "events"), request.encode())
    key = names.lane_outcome_key(fleet.pipeline, "events", request.id)
    return decode_outcome(wait(lambda: fleet.client.get(key), START_SECONDS, f"the outcome of {what}"))


def test_a_rewound_lane_delivers_again_by_all_writers_and_a_paused_one_keeps_its_places(fleet: FedProcessor) -> None:
    changes = Changes(fleet)
    changes.send(*changes.rows(2))
    fleet.processor.start()
    with consumed(changes) as box:
        work_side_by_side(fleet, 2)
        place = fleet.log.safe_lsn
        changes.send(*changes.rows(3))
        judge(changes, box)
        wait(lambda: fleet.is_acked, 20, "the ack says all of it")
        acked = fleet.acked()["position"]

        assert asked(fleet, Asked.REWIND, position=before(place)).result is Result.DONE
        changes.written["UPDATE"] += 3 * ROWS_A_FRAME
        total = changes.written.total()
        box.until(lambda found: len(found) >= total, START_SECONDS, "the same again")
        ids = Counter(json.loads(message.value())["id"] for message in box.messages)
        assert Counter({1: 2 * ROWS_A_FRAME, 2: 3 * ROWS_A_FRAME}) == Counter(ids.values())
        assert acked == fleet.acked()["position"]

        assert asked(fleet, Asked.PAUSE).result is Result.DONE
        changes.send(*changes.rows(2))
        assert asked(fleet, Asked.RESUME).result is Result.DONE
        box.until(lambda found: len(found) >= changes.written.total(), START_SECONDS, "the rest")
        wait(lambda: fleet.is_acked, 20, "the ack grows again")
        assert len(box.messages) == changes.written.total()
