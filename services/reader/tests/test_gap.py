"""When a gap is believed: nobody may be able to know more than Redis says."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
import redis as redis_client
from kit.pipelines import checked, document, secrets_of

from tidegate.clock import unix_microseconds
from tidegate.config.pipeline import ReaderConfig
from tidegate.contracts.ack import Ack
from tidegate.contracts.names import lane_status_key
from tidegate.contracts.status import LaneStatus, State
from tidegate.errors import StreamError, TransientError
from tidegate_reader import gap

SECOND = 1_000_000
GAP = StreamError("a gap", code="GAP_LOST", remedy="")


class Clock:
    """Goes on only while somebody pauses."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def decide(monkeypatch: pytest.MonkeyPatch) -> Any:
    clock = Clock()

    async def pause(seconds: float) -> None:
        clock.now += seconds

    def run(answers: dict[float, str], *, spoken: bool, is_beyond_the_log: bool = False) -> Any:
        """`answers`: what is acked from when on; the plan is found as soon as something is."""

        async def acks(*_: object) -> dict[str, Any]:
            return {"a": max(since for since in answers if since <= clock.now)} if answers else {}

        async def have_spoken(_: object) -> bool:
            return spoken

        def plan(known: dict[str, Ack]) -> Any:
            if known:
                return "a plan"
            raise GAP

        monkeypatch.setattr(gap, "time", clock)
        monkeypatch.setattr(gap, "pause", pause)
        monkeypatch.setattr(gap, "read_acks_now", acks)
        monkeypatch.setattr(gap, "lanes_have_spoken", have_spoken)
        config: Any = SimpleNamespace(reader=ReaderConfig())
        nothing: Any = None
        return asyncio.run(gap.decided(config, nothing, plan, {}, is_beyond_the_log=is_beyond_the_log))

    return run


def test_an_ack_that_is_said_again_is_waited_for(decide: Any) -> None:
    assert decide({0.0: "republished"}, spoken=False)[0] == "a plan"


@pytest.mark.parametrize(("spoken", "beyond"), [(True, False), (False, True)])
def test_a_gap_is_lost_when_nobody_can_know_better(decide: Any, spoken: bool, beyond: bool) -> None:
    with pytest.raises(StreamError) as lost:
        decide({}, spoken=spoken, is_beyond_the_log=beyond)
    assert lost.value.code == "GAP_LOST"


def test_a_gap_is_no_loss_while_a_lane_that_may_know_better_is_down(decide: Any) -> None:
    with pytest.raises(TransientError) as unsure:
        decide({}, spoken=False)
    assert unsure.value.code == "GAP_UNSURE"


@pytest.mark.parametrize(
    ("state", "age_seconds", "ran_seconds", "has_spoken"),
    [
        (State.RUNNING, 0, 60, True),
        (State.RUNNING, 0, 2, False),
        (State.RUNNING, 30, 60, False),
        (State.FAILED, 0, 60, False),
    ],
)
def test_a_lane_has_spoken_when_it_runs_and_has_for_a_while(
    monkeypatch: pytest.MonkeyPatch,
    redis: Any,
    prefix: str,
    state: State,
    age_seconds: int,
    ran_seconds: int,
    has_spoken: bool,
) -> None:
    secrets = secrets_of(redis_url=redis.url)
    for name, value in secrets.items():
        monkeypatch.setenv(name, value)
    config = checked(document(prefix, kafka="127.0.0.1:1", redis_url=redis.url), secrets)
    now = unix_microseconds() - age_seconds * SECOND
    status = LaneStatus(
        pipeline=prefix,
        sink="events",
        state=state,
        pid=1,
        time=now,
        started=now - ran_seconds * SECOND,
        incarnation=1,
    )
    assert asyncio.run(gap.lanes_have_spoken(config)) is False
    with redis_client.Redis.from_url(redis.url) as client:
        client.set(lane_status_key(prefix, config.required_sinks[0]), status.encode())
    assert asyncio.run(gap.lanes_have_spoken(config)) is has_spoken
