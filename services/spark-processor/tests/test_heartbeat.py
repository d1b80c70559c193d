"""The driver's ear and voice: a stage's clock, or one that was set back, changes nothing."""

from collections.abc import Iterator

import pytest
import redis as redis_client

from tidegate.clock import unix_microseconds
from tidegate.contracts import names
from tidegate.contracts.control import Command, LaneControl
from tidegate.contracts.status import LaneStatus, State
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
    assert heart.age_seconds() is None

    says(client, prefix, incarnation, unix_microseconds() + skew)
    heart.read()
    heard = heart.age_seconds()
    heart.read()
    again = heart.age_seconds()

    assert heard is not None
    assert again is not None
    assert 0 <= heard <= again < 10
    assert heart.speak(State.DRAINED)
    assert not heart.speak(State.DRAINED)


def test_an_incarnation_is_above_the_one_that_was_posted_last(client, prefix: str) -> None:
    ahead = unix_microseconds() // 1000 + HOUR
    client.set(names.lane_control_key(prefix, "events"), LaneControl(ahead, Command.RUN).encode())

    assert Heartbeat(client, prefix, "events").begin() == ahead + 1
