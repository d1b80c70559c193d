"""A look is rendered once in each way that is asked for, and no longer than it is asked for."""

from collections.abc import Callable

import pytest
from kit.admin import NOW, make_config, make_observation

from tidegate_admin.pipelines import pictures
from tidegate_admin.pipelines.pictures import Pictures
from tidegate_admin.pipelines.schemas import PipelineModel
from tidegate_admin.pipelines.service import Levels, PipelineView, pipeline_view


def look(second: int) -> PipelineView:
    return pipeline_view(make_config(), make_observation(time=NOW + second * 1_000_000), Levels())


class Counted:
    def __init__(self) -> None:
        self.times = 0

    def __call__(self, model: PipelineModel) -> str:
        self.times += 1
        return model.observed.isoformat()


@pytest.fixture
def kept() -> Pictures:
    return Pictures(lambda view: PipelineModel.of(view, {}))


def test_however_many_ask_a_look_is_rendered_once(kept: Pictures) -> None:
    rendering, view = Counted(), look(0)
    texts = {kept.text(view, rendering) for _ in range(5)}
    assert len(texts) == 1
    assert rendering.times == 1


def test_the_text_is_of_the_look_that_is_asked_about(kept: Pictures) -> None:
    rendering = Counted()
    first, second = kept.text(look(0), rendering), kept.text(look(1), rendering)
    assert (first[17:19], second[17:19]) == ("00", "01")


def test_what_is_followed_is_there_after_each_look_and_what_nobody_wants_is_not_made(kept: Pictures) -> None:
    followed, other = Counted(), Counted()
    kept.text(look(0), followed)
    kept.renew(newer := look(1))
    assert (followed.times, other.times) == (2, 0)
    kept.text(newer, followed)
    assert followed.times == 2


def test_what_nobody_asks_for_any_more_is_made_no_more(kept: Pictures, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    clock: Callable[[], float] = lambda: now  # noqa: E731 - it closes over what the test moves
    monkeypatch.setattr(pictures, "monotonic", clock)
    rendering = Counted()
    kept.text(look(0), rendering)
    now = pictures.FOLLOWED_SECONDS + 1
    kept.renew(look(1))
    assert rendering.times == 1
