"""What stands on the page is text, whatever a topic or a configuration gave."""

import re
from dataclasses import fields

import pytest

from tidegate_admin.dead_letters.entries import Entry
from tidegate_admin.pipelines.schemas import LagModel, LaneModel
from tidegate_admin.pipelines.service import Shown
from tidegate_admin.ui.panels import lanes_panel, letters_list
from tidegate_admin.ui.render import draw_lanes

HOSTILE = "\"><script>alert('1')</script>"


def test_nothing_of_a_dead_letter_is_markup() -> None:
    values = {each.name: HOSTILE if each.type in ("str", str) else 1 for each in fields(Entry)}
    groups = [(HOSTILE, HOSTILE, HOSTILE, 2)]
    page = letters_list(1, [Entry(**values)], groups, is_complete=True)  # type: ignore[arg-type]
    assert "&lt;script&gt;" in page
    assert "<script" not in page
    assert HOSTILE not in page


def make_lane(number: int, state: Shown = Shown.RUNNING, seconds: float = 0.0) -> LaneModel:
    lag = LagModel(bytes=int(seconds), seconds=seconds)
    return LaneModel(sink=f"lane_{number}", type="kafka_topics", required=True, state=state, lag=lag)


def test_nothing_of_a_lane_is_markup() -> None:
    panel = lanes_panel([make_lane(1).model_copy(update={"sink": HOSTILE, "type": HOSTILE, "acked_lsn": HOSTILE})])
    assert "<script" not in panel
    assert HOSTILE not in panel


def test_of_many_lanes_the_worst_are_drawn_and_the_others_counted() -> None:
    lanes = [make_lane(n) for n in range(48)]
    lanes += [make_lane(48, Shown.FAILED), make_lane(49, seconds=9.0)]
    drawn = draw_lanes(lanes)
    assert drawn.index("lane_48") < drawn.index("lane_49") < drawn.index("lane_0")
    assert drawn.count('class="lane') == 7
    assert "and 44 more, all running" in drawn
    assert "and 1 more, 1 of them not running" in draw_lanes([make_lane(n, Shown.PAUSED) for n in range(7)])


@pytest.mark.parametrize(
    ("states", "offered"),
    [
        ((Shown.RUNNING, Shown.RUNNING), ["pause"]),
        ((Shown.RUNNING, Shown.PAUSED), ["resume", "pause"]),
        ((Shown.PAUSED, Shown.PAUSED), ["resume"]),
    ],
)
def test_what_is_offered_for_all_lanes_is_what_may_be_done(states: tuple[Shown, ...], offered: list[str]) -> None:
    head = lanes_panel([make_lane(n, state) for n, state in enumerate(states)]).partition("<table")[0]
    assert re.findall('data-steer="([a-z]+)"', head) == offered
