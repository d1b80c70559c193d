"""Which trigger a lane with `auto` runs by, and what a change of it costs: nothing is lost, doubled or out of order."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit.contract_examples import LANE
from kit.fed_processor import START_SECONDS, fed_processor, numbers
from kit.topics import inbox
from kit.wait import wait

from tidegate.config.sinks import Trigger
from tidegate_processor.pace import Pace

FAR_BEHIND, YOUNG = 40.0, 0.2


class Lane:
    """One that reports each second, and a clock."""

    def __init__(self, trigger: Trigger = Trigger.AUTO) -> None:
        self.now, self.status = 1000.0, LANE
        self.pace = Pace(trigger, clock=lambda: self.now)

    def changes(self, latency: float, *, events: int = 1, is_idle: bool = False) -> bool:
        self.now += 1
        figures = {"latency_p50_seconds": latency, "events": self.status.events + events}
        self.status = replace(self.status, time=self.status.time + 1_000_000, **figures)  # type: ignore[arg-type]
        if not self.pace.changes(self.status, is_idle=is_idle):
            return False
        self.pace.begin()
        return True

    def changes_within(self, seconds: int, latency: float, *, events: int = 1, is_idle: bool = False) -> bool:
        return any(self.changes(latency, events=events, is_idle=is_idle) for _ in range(seconds))


def in_batch() -> Lane:
    lane = Lane()
    assert lane.changes_within(12, FAR_BEHIND)
    assert lane.pace.trigger is Trigger.BATCH
    return lane


def test_it_is_real_time_until_it_has_been_far_behind_for_a_while() -> None:
    lane = Lane()
    assert lane.pace.trigger is Trigger.REALTIME
    assert not lane.changes_within(9, FAR_BEHIND)
    assert not lane.changes(YOUNG)
    assert not lane.changes_within(10, FAR_BEHIND)
    assert lane.changes(FAR_BEHIND)
    assert lane.pace.trigger is Trigger.BATCH


@pytest.mark.parametrize("comes", [{"latency": YOUNG}, {"latency": FAR_BEHIND, "events": 0, "is_idle": True}])
def test_it_is_real_time_again_when_what_comes_is_young_or_nothing_comes(comes: dict[str, Any]) -> None:
    lane = in_batch()
    assert not lane.changes_within(120, FAR_BEHIND)
    assert not lane.changes_within(10, **comes)
    assert lane.changes_within(2, **comes)
    assert lane.pace.trigger is Trigger.REALTIME


def test_a_sink_that_takes_nothing_changes_nothing() -> None:
    assert not Lane().changes_within(300, FAR_BEHIND, events=0)
    assert not in_batch().changes_within(300, FAR_BEHIND, events=0)


@pytest.mark.parametrize("trigger", [Trigger.REALTIME, Trigger.BATCH])
def test_what_a_person_has_chosen_stays(trigger: Trigger) -> None:
    lane = Lane(trigger)
    assert not lane.changes_within(100, FAR_BEHIND)
    assert not lane.changes_within(100, YOUNG)
    assert lane.pace.trigger is trigger


@given(st.lists(st.tuples(st.sampled_from([FAR_BEHIND, YOUNG]), st.integers(0, 1), st.booleans()), max_size=300))
def test_it_changes_once_a_minute_at_most(said: list[tuple[float, int, bool]]) -> None:
    lane = Lane()
    changes = [lane.now for latency, events, is_idle in said if lane.changes(latency, events=events, is_idle=is_idle)]
    assert all(later - sooner >= 60 for sooner, later in pairwise(changes))


@pytest.mark.timeout(240)
def test_each_change_comes_once_and_in_order_while_the_trigger_changes(
    kafka, redis, prefix: str, tmp_path: Path
) -> None:
    """The rows' transactions were committed long ago, so a lane that delivers them is far behind."""
    servers = {"kafka": kafka.bootstrap, "redis_url": redis.url}
    with fed_processor(prefix, tmp_path, **servers, sinks=[{"trigger": "auto"}]) as fleet:
        fleet.processor.start()
        fleet.rows(1)
        sent = 1
        with inbox(fleet.bootstrap, fleet.orders) as box:
            numbers(box, 1)
            assert fleet.status().trigger == Trigger.REALTIME

            def has_changed() -> bool:
                nonlocal sent
                sent += 1
                fleet.rows(sent)
                status = fleet.status()
                return status is not None and status.trigger == Trigger.BATCH and status.events > 3

            wait(has_changed, START_SECONDS, "it delivers in micro-batches", every_seconds=0.2)
            assert numbers(box, sent, 30) == list(range(1, sent + 1))
        assert fleet.processor.stop() == 0
