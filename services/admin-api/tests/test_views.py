"""From what was seen to the picture, and to what is ready."""

import pytest
from kit.admin import NOW, make_ack, make_config, make_lane, make_observation, make_reader, make_slot

from tidegate.config.pipeline import PipelineConfig
from tidegate.contracts.status import Failure
from tidegate.contracts.status import State as ServiceState
from tidegate.lag import IDLE
from tidegate.lsn import Lsn
from tidegate.observability.health import Health, State
from tidegate_admin.health.service import component_names, conditions, tell
from tidegate_admin.metrics import OF_LANES, OF_PIPELINES
from tidegate_admin.pipelines.observation import Observation, Statuses, Unavailable
from tidegate_admin.pipelines.schemas import PipelineModel, slowest
from tidegate_admin.pipelines.service import Levels, Shown, pipeline_view

GONE = Unavailable("STATUS_STORE_UNAVAILABLE", "Redis did not answer")
FAILURE = Failure("StreamError", "RAW_TOPIC_HOLE", "frames are missing", "Restart the reader.")


@pytest.fixture
def config() -> PipelineConfig:
    return make_config()


def states(config: PipelineConfig, seen: Observation) -> dict[str, State]:
    return {part: condition.state for part, condition in conditions(config, seen).items()}


def test_an_idle_pipeline_is_up_and_has_no_lag(config: PipelineConfig) -> None:
    seen = make_observation()
    view = pipeline_view(config, seen, Levels())
    assert set(states(config, seen).values()) == {State.UP}
    assert view.read is view.confirm is view.total is IDLE
    assert [lane.lag for lane in view.lanes] == [IDLE, IDLE]


def test_each_stage_has_its_own_distance(config: PipelineConfig) -> None:
    """Server 1000, raw topic 900, acked 700, slot 600."""
    reader = make_reader(produced_lsn=900, confirmed_lsn=500, gate_holder="events", raw_offset=14)
    seen = make_observation(reader, safe_lsn=700, slot=make_slot(confirmed_flush_lsn=Lsn(600)))
    view = pipeline_view(config, seen, Levels())
    lags = [view.read, view.lanes[0].lag, view.confirm, view.total]
    assert [lag and lag.bytes for lag in lags] == [100, 200, 100, 400]
    assert view.lanes[0].lag_frames == 4
    assert view.gate_holder == "events"


def test_a_dead_reader_does_not_hide_what_the_source_writes(config: PipelineConfig) -> None:
    """Its last word is old; the server's own is not."""
    reader = make_reader(time=NOW - 60_000_000)
    view = pipeline_view(config, make_observation(reader, slot=make_slot(current_lsn=Lsn(5000))), Levels())
    assert view.reader.state is Shown.STALE
    assert view.read is not None
    assert view.read.bytes == 4000


def test_a_lane_that_never_acked_has_an_unknown_lag(config: PipelineConfig) -> None:
    """Unknown is null, and so is the slowest lane's."""
    statuses = Statuses(make_reader(), {}, {"extra": make_ack("extra")})
    view = pipeline_view(config, Observation(NOW, statuses, make_slot()), Levels())
    assert view.lanes[0].lag is None
    assert slowest(view) is None
    assert view.confirm is None


def test_a_reader_that_fails_at_its_start_says_nothing_of_lags_and_hides_no_ack(config: PipelineConfig) -> None:
    """It has produced nothing by then: that a lane has all of it would be made up."""
    reader = make_reader(generation="", produced_lsn=0, raw_offset=-1, state=ServiceState.FAILED, failure=FAILURE)
    lane = pipeline_view(config, make_observation(reader), Levels()).lanes[0]
    assert (lane.ack, lane.lag, lane.lag_frames) == (make_ack(), None, None)


@pytest.mark.parametrize(("since", "expected"), [(30_000_000, 0.02), (90_000_000, None), (NOW, None)])
def test_a_latency_of_long_ago_is_none_of_now(config: PipelineConfig, since: int, expected: float | None) -> None:
    """The lane said 20 ms while nothing moved."""
    lane = make_lane(events=9, latency_p99_seconds=0.02, latency_time=NOW - since)
    view = pipeline_view(config, make_observation(events=lane), Levels())
    shown = [metric.read(view.lanes[0]) for metric in OF_LANES if metric.thing == "lane_latency_p99"]
    assert [PipelineModel.of(view, {}).lanes[0].latency_p99_seconds, *shown] == [expected, expected]


@pytest.mark.parametrize(
    ("lane", "expected"),
    [
        (make_lane(), State.UP),
        (make_lane(time=NOW - 6_000_000), State.DOWN),
        (make_lane(state=ServiceState.DRAINED), State.DOWN),
        (make_lane(state=ServiceState.STARTING), State.DOWN),
        (make_lane(state=ServiceState.FAILED, failure=FAILURE), State.DOWN),
    ],
)
def test_a_required_lane_that_does_not_deliver_is_down(config: PipelineConfig, lane: object, expected: State) -> None:
    found = states(config, make_observation(events=lane, extra=make_lane("extra")))
    assert found["lane/events"] is expected


def test_a_best_effort_lane_only_degrades(config: PipelineConfig) -> None:
    """It does not hold the gate, so it takes nobody out of service."""
    found = conditions(config, make_observation(events=make_lane()))
    assert found["lane/extra"].state is State.DEGRADED
    assert "never reported" in found["lane/extra"].reason


@pytest.mark.parametrize(
    ("slot", "expected"),
    [
        (make_slot(wal_status="extended"), State.UP),
        (make_slot(wal_status="unreserved"), State.DEGRADED),
        (make_slot(wal_status="lost"), State.DOWN),
        (make_slot(exists=False), State.DOWN),
        (Unavailable("SOURCE_UNAVAILABLE", "PostgreSQL did not answer"), State.DEGRADED),
    ],
)
def test_a_slot_is_down_only_when_it_is_lost(config: PipelineConfig, slot: object, expected: State) -> None:
    assert states(config, make_observation(slot=slot))["slot"] is expected


@pytest.mark.parametrize(
    ("slot", "acked", "expected"),
    [
        (make_slot(wal_status="reserved"), True, 0.0),
        (make_slot(wal_status="unreserved"), True, 0.0),
        (make_slot(wal_status="lost"), True, 1.0),
        (make_slot(exists=False), True, 1.0),
        (make_slot(exists=False), False, 0.0),
        (Unavailable("SOURCE_UNAVAILABLE", "PostgreSQL did not answer"), True, None),
    ],
)
def test_a_slot_that_is_lost_is_counted_and_one_that_nobody_had_is_not(
    config: PipelineConfig, slot: object, acked: bool, expected: float | None
) -> None:
    acks = {"events": make_ack()} if acked else {}
    view = pipeline_view(config, Observation(NOW, Statuses(make_reader(), {}, acks), slot), Levels())
    [figure] = [each for each in OF_PIPELINES if each.thing == "slot_lost"]
    assert expected == figure.read(view)


def test_without_redis_nothing_is_called_up(config: PipelineConfig) -> None:
    found = states(config, Observation(NOW, GONE, make_slot()))
    assert {part for part, state in found.items() if state is State.UP} == {"slot"}


def test_since_is_kept_while_the_state_is(config: PipelineConfig) -> None:
    """A reason may change every second; the state's age may not."""
    health = Health(component_names(config))
    changed = list(tell(health, "shop", conditions(config, make_observation())))
    assert len(changed) == 5
    before = health.components["shop/reader"].since
    assert list(tell(health, "shop", conditions(config, make_observation()))) == []
    assert health.components["shop/reader"].since == before


def test_positions_are_written_as_postgresql_writes_them(config: PipelineConfig) -> None:
    reader = make_reader(server_lsn=0x1_0000_0010)
    model = PipelineModel.of(pipeline_view(config, make_observation(reader), Levels()), {})
    assert model.reader.server_lsn == "1/10"
    assert model.lanes[0].acked_position == "0/3D8#1"
