"""A service is ready when none of its parts is down."""

from datetime import UTC, datetime, timedelta

from tidegate.observability.health import Health, State

START = datetime(2026, 1, 1, tzinfo=UTC)


class Clock:
    def __init__(self) -> None:
        self.time = START

    def __call__(self) -> datetime:
        return self.time


def test_a_part_is_down_until_it_says_otherwise() -> None:
    health = Health(["kafka", "redis"])

    health.up("kafka")

    assert not health.is_ready
    assert health.components["redis"].reason == "starting"


def test_degraded_is_ready_and_says_why() -> None:
    health = Health(["kafka", "redis"])

    health.up("kafka")
    health.degraded("redis", "acks are late")

    assert health.is_ready
    assert health.state is State.DEGRADED


def test_since_is_when_the_state_changed_not_the_reason() -> None:
    clock = Clock()
    health = Health(["kafka"], clock)
    clock.time += timedelta(seconds=10)
    health.down("kafka", "no route")
    clock.time += timedelta(seconds=10)
    health.up("kafka")
    clock.time += timedelta(seconds=10)
    health.up("kafka", "three brokers")

    assert health.report() == {
        "state": "up",
        "components": {"kafka": {"state": "up", "reason": "three brokers", "since": "2026-01-01T00:00:20Z"}},
    }


def test_parts_that_come_are_down_and_parts_that_go_are_not_asked_for() -> None:
    health = Health(["kafka", "redis"])
    health.up("kafka")

    health.know(["kafka", "lane"])

    assert {name: part.state for name, part in health.components.items()} == {"kafka": State.UP, "lane": State.DOWN}
