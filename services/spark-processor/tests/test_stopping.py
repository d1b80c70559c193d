"""The driver when Spark fails it, or a lane does: it starts again, and stops the other lanes in order."""

import contextlib
import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest
from kit.pipelines import checked, document, secrets_of
from py4j.protocol import Py4JNetworkError
from pyspark.errors import PySparkRuntimeError, StreamingQueryException

from tidegate.backoff import Backoff
from tidegate.config.sinks import Trigger
from tidegate.contracts.status import State
from tidegate.errors import ExitCode, TransientError
from tidegate_processor import pipeline
from tidegate_processor.lane import Lane
from tidegate_processor.spark.lane_query import LaneQuery
from tidegate_processor.table import LaneState

REDIS = "redis://:secret@127.0.0.1:6379"


@pytest.mark.parametrize(
    "failure", [ConnectionRefusedError(111, "refused"), Py4JNetworkError("no answer"), PySparkRuntimeError("gone")]
)
def test_a_spark_that_is_gone_is_started_again_and_no_person_is_waited_for(failure, monkeypatch) -> None:
    config = checked(document("shop", kafka="127.0.0.1:9", redis_url=REDIS), secrets_of(redis_url=REDIS))

    def fails(_: Any) -> None:
        raise failure

    monkeypatch.setattr(pipeline, "open_session", fails)
    with pytest.raises(TransientError) as failed:
        pipeline.run(SimpleNamespace(in_force=config), threading.Event())  # type: ignore[arg-type]

    assert (failed.value.code, failed.value.exit_code) == ("SPARK_FAILED", ExitCode.RETRY)


class FailedQuery:
    isActive = True

    def awaitTermination(self, _: float) -> None:
        raise StreamingQueryException("the stage died while it drained")

    def stop(self) -> None:
        return


def draining(query: Any, trigger: Trigger = Trigger.REALTIME) -> Lane:
    lane = object.__new__(Lane)
    lane.sink, lane.state = "events", LaneState.DRAINING
    lane._query, lane._drain_until = LaneQuery(None, None), time.monotonic() + 60  # type: ignore[arg-type]
    lane._query._query, lane._query.trigger = query, trigger
    lane._errands = SimpleNamespace(close=lambda: None)  # type: ignore[assignment]
    lane._log = SimpleNamespace(warning=lambda *_, **__: None)  # type: ignore[assignment]
    nothing = SimpleNamespace(read=lambda: None, status=None, kill=lambda: None)
    lane._heart = nothing  # type: ignore[assignment]
    return lane


def test_a_stage_that_dies_while_it_drains_does_not_break_the_stop() -> None:
    lane = draining(FailedQuery())

    lane.finish_stop()

    assert lane.state is LaneState.STOPPED


def test_an_idle_lane_that_leaves_micro_batches_has_drained_at_once() -> None:
    """No stage runs that could say so: until it has ended it is a lane of micro-batches, whatever the next one is."""
    lane = draining(SimpleNamespace(isActive=True, status={"isTriggerActive": False}), Trigger.BATCH)
    said: list[State] = []
    status = SimpleNamespace(state=State.RUNNING)

    def speak(state: State) -> None:
        said.append(state)
        status.state = state

    lane._heart = SimpleNamespace(read=lambda: None, status=status, speak=speak)  # type: ignore[assignment]

    assert lane._has_drained()
    assert said == [State.DRAINED]


@pytest.mark.parametrize("trigger", [Trigger.REALTIME, Trigger.BATCH])
def test_a_lane_that_has_drained_unasked_is_started_again(trigger: Trigger) -> None:
    """It says each second that it stands, so it is not silent; in micro-batches the driver said that it runs."""
    ended: list[str] = []
    query = SimpleNamespace(isActive=True, status={"isTriggerActive": False}, stop=lambda: ended.append("query"))
    lane = draining(query, trigger)
    lane.state, lane.restarts, lane._until = LaneState.RUNNING, 0, None
    lane._query._checkpoint, lane._started = None, time.monotonic()
    lane._pace = SimpleNamespace(changes=lambda *_, **__: False)  # type: ignore[assignment]
    lane._backoff = Backoff(0.5, longest_seconds=30, healthy_seconds=60)
    lane._heart = SimpleNamespace(  # type: ignore[assignment]
        read=lambda: None,
        status=SimpleNamespace(state=State.DRAINED, failure=None),
        speak=lambda _: ended.append("spoken"),
    )

    lane._watch()

    assert (lane.state, lane.restarts, ended) == (LaneState.WAITING, 1, ["query"])
    assert lane.failure is not None
    assert lane.failure.code == "LANE_DRAINED"
    assert lane._next_try > time.monotonic()


def test_lanes_are_stopped_in_order_whatever_becomes_of_one_of_them() -> None:
    steps: list[str] = []

    def lane(name: str, failure: Exception | None = None) -> Any:
        def finish() -> None:
            steps.append(f"{name} ends")
            if failure is not None:
                raise failure

        return SimpleNamespace(begin_stop=lambda: steps.append(f"{name} begins"), finish_stop=finish)

    with contextlib.suppress(Py4JNetworkError):
        pipeline._stop([lane("first", Py4JNetworkError("the JVM is gone")), lane("second")])

    assert steps == ["first begins", "second begins", "first ends", "second ends"]
