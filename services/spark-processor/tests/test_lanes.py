"""Which lanes there are while the configuration changes: whoever is not concerned is not touched."""

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import pytest
from kit.pipelines import checked, document, secrets_of

from tidegate.config.pipeline import PipelineConfig
from tidegate.contracts.request import Asked, LaneRequest
from tidegate.errors import TransientError
from tidegate_processor.lane import Lane
from tidegate_processor.lanes import Lanes
from tidegate_processor.table import LaneState

REDIS = "redis://:secret@127.0.0.1:6379"
MASK = {"type": "mask", "options": {"columns": ["note"], "how": "zero"}}


def config(*sinks: str, masked: Iterable[str] = ()) -> PipelineConfig:
    listed = [{"name": sink, "type": "kafka_topics", "transforms": [MASK] if sink in masked else []} for sink in sinks]
    return checked(
        document("shop", kafka="127.0.0.1:9", redis_url=REDIS) | {"sinks": listed}, secrets_of(redis_url=REDIS)
    )


class StandIn:
    """What `Lanes` asks of a lane; it leaves when it is allowed to."""

    def __init__(self, config: PipelineConfig, sink: str) -> None:
        self.config, self.sink, self.state = config, sink, LaneState.RUNNING
        self.may_leave = False
        self.restarts = 0

    def begin_stop(self) -> None:
        self.state = LaneState.WAITING

    def finish_stop(self) -> None:
        self.state = LaneState.STOPPED

    def leave(self) -> bool:
        return self.may_leave


def made(*sinks: str) -> Lanes:
    return Lanes(config(*sinks), StandIn)  # type: ignore[arg-type]


def by_name(lanes: Lanes) -> dict[str, Any]:
    return {lane.sink: lane for lane in lanes}


def test_one_that_comes_is_made_and_the_others_go_on() -> None:
    lanes = made("a", "b")
    before = by_name(lanes)
    lanes.follow(config("a", "b", "c"))
    lanes.settle()

    assert by_name(lanes).keys() == {"a", "b", "c"}
    assert all(by_name(lanes)[name] is before[name] for name in before)


def test_one_that_goes_is_not_shown_while_it_leaves_and_ends_with_the_process_if_that_comes_first() -> None:
    lanes = made("a", "b")
    leaves = by_name(lanes)["b"]
    lanes.follow(config("a"))
    lanes.settle()
    assert (list(by_name(lanes)), lanes.everyone[0]) == (["a"], leaves)

    leaves.may_leave = True
    lanes.settle()

    assert [lane.sink for lane in lanes.everyone] == ["a"]


def test_one_that_comes_back_is_made_when_the_one_before_has_left() -> None:
    """Never two of one sink; and it goes by what the file says of it now."""
    lanes = made("a", "b")
    leaves = by_name(lanes)["b"]
    lanes.follow(config("a"))
    lanes.settle()
    lanes.follow(config("a", "b", masked=["b"]))
    lanes.settle()
    assert list(by_name(lanes)) == ["a"]

    leaves.may_leave = True
    lanes.settle()

    assert by_name(lanes)["b"].config.sink("b").transforms


def test_both_at_once_and_another_one_reconfigured() -> None:
    lanes = made("a", "b")
    by_name(lanes)["b"].may_leave = True
    lanes.follow(config("a", "c", masked=["a"]))
    lanes.settle()
    for lane in lanes:
        lanes.renew(lane)

    assert by_name(lanes).keys() == {"a", "c"}
    assert by_name(lanes)["a"].config.sink("a").transforms


def test_restarts_are_counted_on_from_lane_to_lane_of_a_sink() -> None:
    """They went back to none when the file was changed, and whoever adds them up saw a process that had begun anew."""
    lanes = made("a", "b")
    for lane in lanes:
        lane.restarts, lane.may_leave = 3, True  # type: ignore[attr-defined]
    for wanted in (config("a", masked=["a"]), config("a", "b", masked=["a"])):
        lanes.follow(wanted)
        lanes.settle()
        for lane in lanes:
            lanes.renew(lane)

    assert {lane.sink: lane.restarts for lane in lanes} == {"a": 3, "b": 3}
    assert by_name(lanes)["a"].config.sink("a").transforms


def test_all_are_lost_only_where_nobody_leaves_or_is_to_come() -> None:
    lanes = made("a", "b")
    found, leaves = by_name(lanes), by_name(lanes)["b"]
    found["a"].state = LaneState.LOST
    assert not lanes.are_lost

    lanes.follow(config("a", "c"))
    lanes.settle()
    told = [lanes.are_lost]
    lanes.follow(config("a"))
    lanes.settle()
    told.append(lanes.are_lost)
    for lane in lanes.everyone:
        lane.may_leave = True  # type: ignore[attr-defined]
    lanes.settle()
    told.append(lanes.are_lost)

    assert leaves not in lanes.everyone
    assert told == [False, False, True]


class Query:
    is_active = False

    def end(self) -> None:
        return


def leaving(state: LaneState, *, errand: object = None) -> Any:
    """A lane without Spark: its errand has ended if it says so."""
    lane: Any = object.__new__(Lane)
    lane.sink, lane.state, lane.failure, lane._errand, lane._is_leaving = "events", state, None, errand, False
    lane.asked = []
    lane._query, lane._drain_until, lane._next_try = Query(), 0.0, 0.0
    lane._log = SimpleNamespace(warning=lambda *_, **__: None)
    lane._backoff = SimpleNamespace(forget=lambda: None)
    lane._heart = SimpleNamespace(
        post=lambda _: None, speak_anyhow=lambda _: None, forget=lambda: lane.asked.append("forgotten")
    )
    lane._desk = SimpleNamespace(
        is_expired=lambda _: False,
        refuse_all=lambda error: lane.asked.append(error.code),
        refuse=lambda _, error: lane.asked.append(error.code) or True,
        done=lambda *_, **__: lane.asked.append("done") or True,
    )
    return lane


def errands(*, is_idle: bool, error: Exception | None = None) -> Any:
    return SimpleNamespace(
        is_idle=is_idle, has_ended=is_idle, error=error, fates={}, hurry=lambda: None, close=lambda: None,
        forget=lambda: None, comes_again=lambda *, is_over: not is_over,
    )  # fmt: skip


@pytest.mark.parametrize("state", [LaneState.WAITING, LaneState.PAUSED, LaneState.LOST, LaneState.RUNNING])
def test_whatever_it_does_it_ends_stopped_and_forgotten(state: LaneState) -> None:
    lane = leaving(state)
    lane._errands = errands(is_idle=True)

    assert lane.leave()
    assert (lane.state, lane.asked) == (LaneState.STOPPED, ["LANE_REMOVED", "forgotten"])


@pytest.mark.parametrize("state", [LaneState.REWINDING, LaneState.REPLAYING])
def test_what_it_has_begun_is_awaited_and_answered(state: LaneState) -> None:
    lane = leaving(state, errand=(LaneRequest("r", Asked.REWIND, "", 0), LaneState.RUNNING))
    lane._errands = errands(is_idle=False)
    assert not lane.leave()
    lane._errands = errands(is_idle=True)

    assert lane.leave()
    assert (lane.state, lane.asked) == (LaneState.STOPPED, ["done", "LANE_REMOVED", "forgotten"])


def test_an_errand_that_failed_for_a_while_is_not_tried_again() -> None:
    lane = leaving(LaneState.REWINDING, errand=(LaneRequest("r", Asked.REWIND, "", 0), LaneState.LOST))
    lane._errands = errands(is_idle=True, error=TransientError("away", code="KAFKA_AWAY", remedy="Wait."))

    assert lane.leave()
    assert lane.asked[0] == "KAFKA_AWAY"


def test_a_resume_that_waits_for_a_new_lane_of_a_paused_sink_is_not_taken_for_done() -> None:
    """It was: the lane had yet to find out that it is paused, said that it runs, and stood for ever."""
    lane = leaving(LaneState.WAITING)
    resume = LaneRequest("r", Asked.RESUME, "", 0)
    pauses: list[bool] = []
    lane._desk.is_paused, lane._desk.pause = True, object()
    lane._desk.next = lambda: resume
    lane._desk.done = lambda _, *, pause=None: pauses.append(pause) or True

    lane.tick(raw_topic_exists=lambda: False)

    assert (pauses, lane.state) == ([False], LaneState.WAITING)
