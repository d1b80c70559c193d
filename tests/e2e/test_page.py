"""The page in a real browser: what is seen on a phone and a desk, light and dark, by keyboard, and by whom."""

import pytest
from kit.browser import opened, picture
from kit.playing import Play
from kit.wait import wait
from playwright.sync_api import Browser, Page, expect

from tidegate_admin.security.scopes import Scope

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]

LOOKS = [("desk", "light"), ("desk", "dark"), ("phone", "light"), ("phone", "dark")]
MOST_OVERHANG = """Math.max(...[document.documentElement, ...document.querySelectorAll(".scroll")]
  .map(each => each.scrollWidth - each.clientWidth))"""


@pytest.mark.parametrize("page", LOOKS, indirect=True, ids=["-".join(look) for look in LOOKS])
def test_the_page_shows_the_whole_way_without_scrolling_sideways(
    page: Page, play: Play, request: pytest.FixtureRequest
) -> None:
    for heading in ("Source", "Raw topic", "Gate", "Slot", "Slot forecast", "Dead letters", "Live events"):
        expect(page.get_by_role("heading", name=heading, exact=True)).to_be_visible()
    expect(page.locator(".pill").first).to_be_visible()
    expect(page.get_by_text("TOPIC_REFUSED")).to_be_visible(timeout=20_000)
    page.get_by_role("button", name="Follow").click()
    expect(page.locator("[data-note]")).to_have_text("Live.")
    play.write()
    expect(page.locator(".feed li").first).to_contain_text("coffee")
    assert page.evaluate(MOST_OVERHANG) <= 0
    picture(page, f"page-{request.node.callspec.id}", whole=True)


def test_the_gate_shuts_and_opens_by_itself(page: Page, play: Play) -> None:
    """Without a reload: a lane that stops is named, and the gate opens when it has caught up."""
    gate = page.locator(".sluices")
    expect(gate).to_contain_text("open")
    play.stopped = frozenset({"events"})
    play.write(20)
    expect(gate).to_contain_text("held by events")
    picture(page, "page-held", whole=True)
    play.stopped = frozenset()
    expect(gate).to_contain_text("open")


def test_every_control_is_reached_by_tab_and_shows_that_it_is(page: Page, play: Play) -> None:
    expect(page.locator(".letters li").first).to_be_visible(timeout=20_000)
    reached = set()
    for _ in range(80):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.textContent.trim().split(/\\s+/)[0]"))
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"
        if "Follow" in reached:
            break
    assert {"Skip", "Tidegate", "API", "Pause", "Refresh", "Show", "Replay", "Give", "Start", "Follow"} <= reached


def test_whoever_may_not_see_rows_is_told_and_sees_the_rest(browser: Browser, play: Play) -> None:
    weak = play.place.token(Scope.READ)
    wait(lambda: play.place.client(Scope.READ) is not None, 10, "tokens are known")
    context = opened(browser, play.place, weak, "desk", "light")
    page = context.new_page()
    page.goto(play.place.url)
    page.get_by_role("button", name="Follow").click()
    expect(page.locator("[data-note]")).to_contain_text("scope data")
    expect(page.get_by_role("heading", name="Raw topic")).to_be_visible()
    context.close()


def test_a_service_that_is_gone_is_said_and_noticed_when_it_is_back(page: Page, play: Play) -> None:
    expect(page.locator(".sluices")).to_be_visible()
    play.place.process.stop()
    expect(page.locator("#offline")).to_be_visible(timeout=15_000)
    play.place.process.start()
    expect(page.locator("#offline")).to_be_hidden(timeout=30_000)
