"""How often a pipeline is looked at: as often as somebody asks for, and not more often than that is worth."""

import pytest
from kit.admin import make_config

from tidegate_admin.pipelines import watch as watching
from tidegate_admin.pipelines.pictures import FOLLOWED_SECONDS
from tidegate_admin.pipelines.schemas import PipelineModel
from tidegate_admin.pipelines.watch import LOOK_SECONDS, UNASKED, Watch


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    time = [1000.0]
    monkeypatch.setattr(watching, "monotonic", lambda: time[0])
    return time


def test_only_the_pipeline_that_is_asked_for_is_looked_at_every_second(now: list[float]) -> None:
    watch = Watch([make_config(), make_config("other")])
    watch.picture("shop", PipelineModel.model_dump_json)
    assert [watch._pace(name) for name in ("shop", "other")] == [LOOK_SECONDS, UNASKED * LOOK_SECONDS]


def test_whoever_has_stopped_asking_is_not_looked_for(now: list[float]) -> None:
    watch = Watch([make_config()])
    watch.asked("shop")
    now[0] += FOLLOWED_SECONDS - 1
    assert watch._pace("shop") == LOOK_SECONDS
    now[0] += 2
    assert watch._pace("shop") == UNASKED * LOOK_SECONDS
