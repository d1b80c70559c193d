"""The driver's ear and voice: a stage's clock, or one that was set back, changes nothing."""

from collections.abc import Iterator
from types import SimpleNamespace

import pytest
import redis as redis_client

from tidegate.clock import unix_microseconds
from tidegate.contracts import names
from tidegate.contracts.control import Command, LaneControl
from tidegate.contracts.status import LaneStatus, State
from tidegate_processor import heartbeat
from tidegate_processor.heartbeat import Heartbeat

HOUR = 3_600_000_000


@pytest.fixture
def client(redis) -> Iterator[redis_client.Redis]:
    client = redis_client.Redis.from_url(redis.url)
    yield client
    client.close()


def says(client: redis_client.Redis, prefix: str, incarnation: int, time: int) -> None:
    status = LaneStatus(
        pipeline=prefix, sink="events", incarnation=incarnation, state=State.RUNNING, pid=1, time=time, started=0
    )
    client.set(names.lane_status_key(prefix, "events"), status.encode())


@pytest.mark.parametrize("skew", [-HOUR, 0, HOUR])
def test_silence_is_measured_here_whatever_the_stages_clock_says(client, prefix: str, skew: int) -> None:
    heart = Heartbeat(client, prefix, "events")
    incarnation = heart.begin()
    says(client, prefix, incarnation, unix_microseconds() + skew)
    heart.read()
    heard = heart.silent_seconds()
    heart.read()
    again = heart.silent_seconds()

    assert heart.status is not None
    assert 0 <= heard <= again < 10
    assert heart.speak(State.DRAINED)
    assert not heart.speak(State.DRAINED)


def test_an_incarnation_is_above_the_one_that_was_posted_last(client, prefix: str) -> None:
    ahead = unix_microseconds() // 1000 + HOUR
    client.set(names.lane_control_key(prefix, "events"), LaneControl(ahead, Command.RUN).encode())

    assert Heartbeat(client, prefix, "events").begin() == ahead + 1


class Deaf:
    """A Redis that answers, or does not."""

    def __init__(self) -> None:
        self.answers = True
        self._values: dict[str, bytes] = {}

    def get(self, key: str) -> bytes | None:
        self.ping()
        return self._values.get(key)

    def set(self, key: str, value: bytes) -> None:
        self.ping()
        self._values[key] = value

    def ping(self) -> bool:
        if not self.answers:
            raise redis_client.ConnectionError("away")
        return True


@pytest.mark.parametrize("has_spoken", [True, False])
def test_an_outage_of_redis_is_no_silence_of_the_lane(monkeypatch, has_spoken: bool) -> None:
    """All lanes were killed at once when it ended."""
    clock = [1000.0]
    monkeypatch.setattr(heartbeat, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    server = Deaf()
    heart = Heartbeat(server, "shop", "events")  # type: ignore[arg-type]
    incarnation = heart.begin()
    if has_spoken:
        says(server, "shop", incarnation, 1)  # type: ignore[arg-type]
    heart.read()

    for server.answers in [False] * 500 + [True]:
        clock[0] += 0.2
        heart.read()
    assert heart.silent_seconds() < 1
    for _ in range(100):
        clock[0] += 0.2
        heart.read()
    assert 19 < heart.silent_seconds() < 22


def test_a_redis_that_answers_and_takes_nothing_is_no_silence_of_the_lane(client, prefix: str, monkeypatch) -> None:
    """All lanes were killed again and again while it was full."""
    clock = [1000.0]
    monkeypatch.setattr(heartbeat, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    heart = Heartbeat(client, prefix, "events")
    says(client, prefix, heart.begin(), 1)
    heart.read()
    client.config_set("maxmemory", "1")
    try:
        clock[0] += 20
        heart.read()
        silent = heart.silent_seconds()
        assert (silent, heart.may_hear()) == (20, False)
        assert heart.silent_seconds() == 0
    finally:
        client.config_set("maxmemory", "0")
    clock[0] += 20

    assert (heart.silent_seconds(), heart.may_hear()) == (20, True)
