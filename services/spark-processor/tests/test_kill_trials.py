"""Driver, executors and Python workers of a cluster are killed while changes flow, and Spark's checkpoint is broken:
consumers of committed records see every event once, and the versions of a key in their order.

On Spark's own cluster of two executors with a slot each, so that jars, settings and the stage get there as they would
to other machines: one lane in each trigger, or two writers of one lane, who meet across executors.
`TIDEGATE_TESTS_TRIALS=100` kills so often, with all kinds of faults.
"""

import json
import os
import random
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from kit.fed_processor import START_SECONDS, FedProcessor, fed_processor
from kit.frames import ORDERS
from kit.reader_trials import TIMES
from kit.spark_cluster import MASTER, executor_of, executors, spark_home
from kit.topics import Inbox, inbox, make_topic
from kit.wait import wait

from tidegate.contracts.status import State
from tidegate.pgoutput.messages import Update

Lanes = dict[str, dict[str, Any]]
"""Name to settings; the cluster has two slots."""
TRIGGERS: Lanes = {"quick": {"trigger": "realtime"}, "bulk": {"trigger": "batch"}}
WRITERS: Lanes = {"shared": {"trigger": "batch", "writers": 2}}
PARTITIONS, KEYS, FRAMES, ROWS_A_FRAME = 3, 40, 60, 50


@dataclass
class Ground:
    fed: FedProcessor
    folder: Path
    boxes: dict[str, Inbox]
    draw: random.Random
    written: Counter[int] = field(default_factory=Counter)
    """Versions by key."""
    seen: dict[str, Counter[int]] = field(default_factory=dict)
    looked_at: Counter[str] = field(default_factory=Counter)

    def write(self, frames: int = FRAMES) -> None:
        made = [self._frame() for _ in range(frames)]
        self.fed.send(*made, self.fed.log.tick())

    def _frame(self) -> bytes:
        changes = []
        for key in self.draw.choices(range(KEYS), k=ROWS_A_FRAME):
            self.written[key] += 1
            changes.append(Update(ORDERS.relation_id, None, None, (b"%d" % key, b"%d" % self.written[key])))
        return self.fed.log.transaction(*changes)

    def await_some(self) -> None:
        """More than there was, of every lane."""
        for lane, box in self.boxes.items():
            before = len(box.messages)
            box.until(lambda found, before=before: len(found) > before, START_SECONDS, f"events of {lane} go on")

    def await_all(self) -> None:
        total = self.written.total()
        for lane, box in self.boxes.items():
            box.until(lambda found: len(found) >= total, START_SECONDS, f"all {total} events of {lane}")
            self._judge(lane, box)
        assert {lane: len(box.messages) for lane, box in self.boxes.items()} == dict.fromkeys(self.boxes, total)

    def _judge(self, lane: str, box: Inbox) -> None:
        seen = self.seen.setdefault(lane, Counter())
        for message in box.messages[self.looked_at[lane] :]:
            row = json.loads(message.value())["payload"]["row"]
            seen[row["id"]] += 1
            assert (lane, row["id"], int(row["note"])) == (lane, row["id"], seen[row["id"]])
        self.looked_at[lane] = len(box.messages)

    def worker(self, lane: str) -> int:
        def told() -> int:
            status = self.fed.status(lane)
            return status.pid if status is not None and Path(f"/proc/{status.pid}").exists() else 0

        return wait(told, START_SECONDS, f"the worker of {lane}")

    def checkpoints(self) -> Iterator[Path]:
        yield from self.folder.glob("tidegate-lane-*")


def worker_killed(ground: Ground) -> None:
    with suppress(ProcessLookupError):  # a lane that has just been started anew
        os.kill(ground.worker(ground.draw.choice(list(ground.boxes))), signal.SIGKILL)


def executor_killed(ground: Ground) -> None:
    driver = ground.fed.processor.pid
    running = executors(driver)
    victim = executor_of(ground.worker(ground.draw.choice(list(ground.boxes))))
    assert victim in running
    os.kill(victim, signal.SIGKILL)
    wait(lambda: victim not in executors(driver), 10, "the executor is gone")
    wait(lambda: len(executors(driver)) == len(running), START_SECONDS, "another one takes its place")


def driver_killed(ground: Ground) -> None:
    ground.fed.processor.kill()
    ground.fed.processor.start()


def newest_commit_deleted(ground: Ground) -> None:
    """Spark believes its last batch undone, and would do it again."""
    for checkpoint in ground.checkpoints():
        for newest in sorted(checkpoint.glob("commits/[0-9]*"), key=lambda path: int(path.name))[-1:]:
            newest.unlink()
    worker_killed(ground)


def offsets_emptied(ground: Ground) -> None:
    for checkpoint in ground.checkpoints():
        for path in checkpoint.glob("offsets/[0-9]*"):
            path.write_bytes(b"")
    driver_killed(ground)


def of_a_future_version(ground: Ground) -> None:
    for checkpoint in ground.checkpoints():
        for path in _kept(checkpoint):
            path.write_text("v99\n{}")
    worker_killed(ground)


def copied_over_each_other(ground: Ground) -> None:
    """What one lane has left is where another one's was."""
    folders = list(ground.checkpoints())
    for one, other in zip(folders, folders[1:] + folders[:1], strict=True):
        for path in _kept(one):
            (other / path.relative_to(one)).parent.mkdir(exist_ok=True, parents=True)
            (other / path.relative_to(one)).write_bytes(path.read_bytes())
    driver_killed(ground)


def _kept(checkpoint: Path) -> list[Path]:
    """What Spark has written of batches: of offsets, of commits, and where its sources began."""
    return [path for path in checkpoint.glob("*/**/[0-9]*") if path.is_file()]


IN_THE_SUITE = (worker_killed, executor_killed, newest_commit_deleted, driver_killed)
ALL = (*IN_THE_SUITE, offsets_emptied, of_a_future_version, copied_over_each_other)


def chosen(draw: random.Random) -> list[Callable[[Ground], None]]:
    return list(IN_THE_SUITE) if TIMES == 1 else [draw.choice(ALL) for _ in range(TIMES)]


@pytest.fixture
def ground(request: pytest.FixtureRequest, kafka, redis, prefix: str, tmp_path: Path) -> Iterator[Ground]:
    lanes: Lanes = request.param
    names = {lane: f"{prefix}.{lane}" for lane in lanes}
    for topic in names.values():
        make_topic(kafka.bootstrap, topic, partitions=PARTITIONS)
    sinks = [{"name": lane, "options": {"topic": names[lane]}} | settings for lane, settings in lanes.items()]
    servers = {"kafka": kafka.bootstrap, "redis_url": redis.url}
    environ = spark_home(tmp_path) | {"TMPDIR": str(tmp_path)}
    processor = {"master": MASTER, "spark_ui": "127.0.0.1:0"}
    with (
        fed_processor(prefix, tmp_path, **servers, environ=environ, processor=processor, sinks=sinks) as fed,
        ExitStack() as opened,
    ):
        boxes = {lane: opened.enter_context(inbox(kafka.bootstrap, topic, PARTITIONS)) for lane, topic in names.items()}
        yield Ground(fed, tmp_path, boxes, random.Random(prefix))


@pytest.mark.timeout(240 + 60 * TIMES)
@pytest.mark.parametrize("ground", [TRIGGERS, WRITERS], indirect=True, ids=["each trigger", "two writers"])
def test_every_event_comes_once_and_in_order_whatever_is_killed(ground: Ground) -> None:
    """A minute on two cores: a cluster's three JVMs, and the driver's start once more."""
    fed = ground.fed
    fed.processor.start()
    ground.write(2)
    ground.await_all()
    first, *_ = ground.boxes
    status = wait(lambda: fed.status(first), START_SECONDS, "the lane's status")
    with urlopen(status.spark_ui, timeout=10) as page:  # its queries and their executors, for who looks for a cause
        assert b"Spark Jobs" in page.read()
    for fault in chosen(ground.draw):
        ground.write()
        ground.await_some()
        fault(ground)
        ground.write(5)
        ground.await_all()
    wait(lambda: fed.is_acked, START_SECONDS, "the acks say all of it")

    assert fed.processor.stop() == 0
    states = [status.state for status in map(fed.status, ground.boxes) if status is not None]
    assert states == [State.DRAINED] * len(ground.boxes)
