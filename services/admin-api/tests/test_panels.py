"""What stands on the page is text, whatever a topic or a configuration gave."""

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
    page = letters_list(1, [Entry(**values)], is_complete=True)  # type: ignore[arg-type]
    assert "&lt;script&gt;" in page
    assert "<script" not in page
    assert HOSTILE not in page
