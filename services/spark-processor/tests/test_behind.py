"""How late a lane is, from what the reader and its ack say in Redis; and what its metrics show meanwhile."""

import math
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
import redis as redis_client
from kit.frames import GENERATION

from tidegate.checkpoint.redis_store import write_ack
from tidegate.clock import unix_microseconds
from tidegate.contracts import names
from tidegate.contracts.ack import Ack
from tidegate.contracts.status import LaneStatus, ReaderStatus, State
from tidegate.lsn import Lsn
from tidegate.position import Position
from tidegate_processor.behind import Behind
from tidegate_processor.metrics import ProcessorMetrics
from tidegate_processor.table import LaneState

MINUTE = 60_000_000


@pytest.fixture
def client(redis) -> Iterator[redis_client.Redis]:
    client = redis_client.Redis.from_url(redis.url)
    yield client
    client.close()


class Fleet:
    """A reader and an ack in Redis, and a clock; every tick looks."""

    def __init__(self, client: redis_client.Redis, pipeline: str) -> None:
        self.now = 1000.0
        self._client, self._pipeline = client, pipeline
        self.behind = Behind(client, pipeline, ["events"], clock=lambda: self.now)

    def produced(self, lsn: int, generation: str = GENERATION.id) -> None:
        told = {"pipeline": self._pipeline, "generation": generation, "pid": 1, "time": 1, "started": 1}
        status = ReaderStatus(state=State.RUNNING, produced_lsn=lsn, **told)  # type: ignore[arg-type]
        self._client.set(names.reader_status_key(self._pipeline), status.encode())

    def acked(self, lsn: int, sink: str = "events") -> None:
        ack = Ack(sink, GENERATION.id, 1, "topic", lsn, Position(Lsn(lsn), 0), Lsn(lsn), 1)
        write_ack(self._client, self._pipeline, ack)

    def after(self, seconds: float, status: LaneStatus | None = None) -> float:
        self.now += seconds
        self.behind.look()
        return self.behind.seconds("events", status)


@pytest.fixture
def fleet(client: redis_client.Redis, prefix: str) -> Fleet:
    return Fleet(client, prefix)


def lane(**fields: object) -> LaneStatus:
    told = {"pipeline": "p", "sink": "events", "incarnation": 1, "pid": 1, "time": unix_microseconds(), "started": 1}
    return LaneStatus(state=State.RUNNING, **told | fields)  # type: ignore[arg-type]


def test_a_lane_that_stands_is_later_with_every_second_whatever_it_says(fleet: Fleet) -> None:
    fleet.produced(100)
    fleet.acked(100)
    assert fleet.after(0) == 0
    fleet.produced(200)
    fleet.after(3600)

    assert [fleet.after(1), fleet.after(30, lane())] == [1, 31]
    fleet.produced(300)
    assert fleet.after(30) == 61


def test_a_lane_at_the_tail_has_no_lag_however_long_nothing_has_happened(fleet: Fleet) -> None:
    fleet.produced(100)
    fleet.acked(100)
    assert [fleet.after(0), fleet.after(3600)] == [0, 0]


def test_what_is_delivered_since_makes_it_less_late(fleet: Fleet) -> None:
    for lsn in (100, 200, 300):
        fleet.produced(lsn)
        fleet.after(10)
    fleet.acked(200)
    assert fleet.after(10) == 10
    fleet.acked(300)
    assert fleet.after(10) == 0


def test_a_lane_that_never_acked_is_late_since_the_log_was_first_seen(fleet: Fleet) -> None:
    fleet.produced(100)
    assert [fleet.after(0), fleet.after(90)] == [0, 90]


def test_an_ack_of_another_generation_does_not_count(fleet: Fleet) -> None:
    fleet.produced(100)
    fleet.acked(1000)
    fleet.after(0)
    fleet.produced(50, generation="another")
    fleet.after(1)

    assert fleet.after(9) == 9


def test_while_redis_is_away_what_was_late_gets_later(fleet: Fleet, client: redis_client.Redis) -> None:
    fleet.produced(100)
    fleet.acked(50)
    fleet.after(0)
    fleet.behind._redis = redis_client.Redis(port=1, retry=None)

    assert fleet.after(60) == 60


def shown(metrics: ProcessorMetrics, name: str) -> float:
    lines = metrics.all.exposition().splitlines()
    (value,) = (line.split()[1] for line in lines if line.startswith(f"tidegate_processor_{name}{{"))
    return float(value)


@pytest.mark.parametrize(
    ("age", "expected"), [(MINUTE // 2, 0.02), (2 * MINUTE, math.nan)], ids=["it delivers", "it has long not delivered"]
)
def test_a_latency_is_shown_only_while_it_is_one_of_now(fleet: Fleet, age: int, expected: float) -> None:
    """An operator saw 20 ms while nothing moved."""
    fleet.produced(100)
    fleet.after(0)
    fleet.now += 600
    told = lane(latency_p50_seconds=0.02, latency_p99_seconds=0.02, latency_time=unix_microseconds() - age)
    stub = SimpleNamespace(sink="events", status=told, state=LaneState.RUNNING, restarts=0)
    metrics = ProcessorMetrics(["events"])
    metrics.observe([stub], fleet.behind, is_refused=False)  # type: ignore[list-item]

    assert shown(metrics, "lane_lag_seconds") == 600
    assert [shown(metrics, f"lane_latency_{each}_seconds") for each in ("p50", "p99")] == pytest.approx(
        [expected] * 2, nan_ok=True
    )


def test_a_lane_that_is_being_started_again_shows_no_latency_of_before(fleet: Fleet) -> None:
    stub = SimpleNamespace(sink="events", status=lane(latency_time=unix_microseconds()), restarts=0)
    stub.state = LaneState.RUNNING
    metrics = ProcessorMetrics(["events"])
    metrics.observe([stub], fleet.behind, is_refused=False)  # type: ignore[list-item]
    before = shown(metrics, "lane_latency_p99_seconds")
    stub.status = None
    metrics.observe([stub], fleet.behind, is_refused=False)  # type: ignore[list-item]

    assert not math.isnan(before)
    assert math.isnan(shown(metrics, "lane_latency_p99_seconds"))
