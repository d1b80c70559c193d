"""The page in a real browser: what is seen, what each action does, on a phone and on a desk, light and dark."""

import os
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from kit.admin_process import AdminPlace, admin_place
from kit.letters import make_letter
from kit.playing import Play, playing
from kit.servers import drop_database
from kit.topics import append, make_topic
from kit.wait import wait
from playwright.sync_api import Browser, BrowserContext, Error, Page, expect, sync_playwright

from tidegate_admin.security.scopes import Scope

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync", "--no-first-run"]
SIZES = {"phone": {"width": 360, "height": 740}, "desk": {"width": 1440, "height": 900}}
SCREENSHOTS = os.environ.get("TIDEGATE_SCREENSHOTS")
"""A folder to keep pictures in: those of the documents are made so."""


@pytest.fixture(scope="module")
def play(postgres, kafka, redis, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Play]:
    name = f"shop{uuid.uuid4().hex[:4]}"
    dsn, folder = postgres.ensure_database(name), tmp_path_factory.mktemp("page")
    sinks = [{"name": "events", "type": "kafka_topics"}, {"name": "search", "type": "kafka_topics", "required": False}]
    for topic in ("raw", "dlq"):
        make_topic(kafka.bootstrap, f"tidegate.{name}.{topic}")
    try:
        with admin_place(folder, name, dsn=dsn, bootstrap=kafka.bootstrap, redis_url=redis.url, sinks=sinks) as place:
            slot = place.config.source.slot.name
            place.source.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", [slot])
            letters = [
                make_letter(1, pipeline=name),
                make_letter(2, pipeline=name, lane="search", code="TOPIC_REFUSED"),
            ]
            append(place.bootstrap, f"tidegate.{name}.dlq", [letter.encode() for letter in letters])
            with playing(place) as made:
                yield made
    finally:
        drop_database(postgres.dsn(), name)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        try:
            started = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        except Error as error:
            pytest.skip(f"no Chromium starts on this machine: {error.message.splitlines()[0]}")
        yield started
        started.close()


@pytest.fixture(scope="module")
def token(play: Play) -> str:
    made = play.place.token()
    play.place.client()  # waits until its own token is known, which is younger
    return made


@pytest.fixture
def page(play: Play, browser: Browser, token: str, request: pytest.FixtureRequest) -> Iterator[Page]:
    size, scheme = getattr(request, "param", ("desk", "light"))
    context = opened(browser, play.place, token, size, scheme)
    page = context.new_page()
    told: list[str] = []
    page.on("console", lambda message: told.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: told.append(str(error)))
    page.goto(play.place.url)
    yield page
    context.close()
    assert [text for text in told if "Failed to load resource" not in text] == []


def opened(browser: Browser, place: AdminPlace, token: str, size: str, scheme: str) -> BrowserContext:
    return browser.new_context(
        viewport=SIZES[size],  # type: ignore[arg-type]
        color_scheme=scheme,  # type: ignore[arg-type]
        http_credentials={"username": "me", "password": token},
        base_url=place.url,
        reduced_motion="reduce",
    )


LOOKS = [("desk", "light"), ("desk", "dark"), ("phone", "light"), ("phone", "dark")]


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
    wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert wide <= 0
    if SCREENSHOTS:
        page.screenshot(path=Path(SCREENSHOTS) / f"page-{request.node.callspec.id}.png", full_page=True)


def test_the_gate_shuts_and_opens_by_itself(page: Page, play: Play) -> None:
    """Without a reload: a lane that stops is named, and the gate opens when it has caught up."""
    gate = page.locator(".sluices")
    expect(gate).to_contain_text("open")
    play.stopped = frozenset({"events"})
    play.write(20)
    expect(gate).to_contain_text("held by events")
    if SCREENSHOTS:
        page.screenshot(path=Path(SCREENSHOTS) / "page-held.png", full_page=True)
    play.stopped = frozenset()
    expect(gate).to_contain_text("open")


def test_a_dead_letter_is_shown_and_given_up_by_keyboard_alone(page: Page, play: Play) -> None:
    letter = make_letter(77, pipeline=play.place.config.pipeline, code="BY_KEYBOARD")
    append(play.place.bootstrap, f"tidegate.{play.place.config.pipeline}.dlq", [letter.encode()])
    item = page.locator(".letters li", has_text="BY_KEYBOARD")
    refresh = page.get_by_role("button", name="Refresh")

    def is_listed() -> bool:
        refresh.click()
        return item.count() == 1

    wait(is_listed, 20, "it is listed", every_seconds=0.3)
    item.get_by_role("button", name="Show").focus()
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("secret of row")
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    item.get_by_role("button", name="Give up").focus()
    page.keyboard.press("Enter")
    agree = dialog.get_by_role("button", name="Give up")
    expect(agree).to_be_disabled()
    dialog.locator("input").fill("1")
    expect(agree).to_be_enabled()
    agree.focus()
    page.keyboard.press("Enter")
    expect(item).to_have_count(0)


def test_every_control_is_reached_by_tab_and_shows_that_it_is(page: Page, play: Play) -> None:
    expect(page.locator(".letters li").first).to_be_visible(timeout=20_000)
    reached = set()
    for _ in range(40):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.textContent.trim().split(/\\s+/)[0]"))
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"
        if "Follow" in reached:
            break
    assert {"Skip", "Tidegate", "API", "Refresh", "Show", "Give", "Follow"} <= reached


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
