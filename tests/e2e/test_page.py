"""The page in a real browser: what is seen, what each action does, on a phone and on a desk, light and dark."""

import os
import shutil
import threading
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

from tidegate.clock import unix_microseconds
from tidegate.contracts import names
from tidegate.contracts.request import Fate, LaneOutcome, Result
from tidegate.contracts.snapshot_request import SnapshotAsked, SnapshotRequest, decode_snapshot_request
from tidegate.contracts.snapshot_status import SnapshotKind, SnapshotState, SnapshotStatus
from tidegate_admin.security.scopes import Scope
from tidegate_processor.desk import Desk

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


def fated(play: Play, *fates: Fate) -> threading.Thread:
    """The lane, which answers for one letter as often as fates are given."""
    desk = Desk(play.place.redis, play.place.config.pipeline, "events")

    def serve() -> None:
        for fate in fates:
            request = wait(desk.next, 60, "a request to the lane")
            desk.done(request, fates=dict.fromkeys(request.ids, fate))

    thread = threading.Thread(target=serve)
    thread.start()
    return thread


def test_a_dead_letter_is_replayed_and_only_by_force_over_something_newer(page: Page, play: Play) -> None:
    letter = make_letter(78, pipeline=play.place.config.pipeline, code="TO_REPLAY")
    append(play.place.bootstrap, f"tidegate.{play.place.config.pipeline}.dlq", [letter.encode()])
    item = page.locator(".letters li", has_text="TO_REPLAY")
    expect(item).to_have_count(1, timeout=30_000)
    dialog = page.get_by_role("dialog")

    lane = fated(play, Fate.NEWER, Fate.DELIVERED)
    item.get_by_role("button", name="Replay").click()
    expect(dialog).to_contain_text("Something newer of its key", timeout=20_000)
    if SCREENSHOTS:
        page.screenshot(path=Path(SCREENSHOTS) / "page-replay.png")
    agree = dialog.get_by_role("button", name="Deliver anyway")
    expect(agree).to_be_disabled()
    dialog.get_by_label("Deliver it nevertheless").check()
    agree.click()
    expect(dialog).to_contain_text("It has been delivered.", timeout=20_000)
    dialog.get_by_role("button", name="Close").click()
    lane.join(10)

    lane = fated(play, Fate.UNABLE)
    item.get_by_role("button", name="Replay").click()
    expect(dialog).to_contain_text("Rewind the lane instead", timeout=20_000)
    expect(dialog.locator("#dialog-ok")).to_be_hidden()
    dialog.get_by_role("button", name="Close").click()
    lane.join(10)


def tell(play: Play, snapshot: str, state: SnapshotState, **more: float) -> None:
    now, pipeline = unix_microseconds(), play.place.config.pipeline
    known = {"by": "me", "requested": now, "time": now, "tables": 4, "tables_done": 1} | more
    status = SnapshotStatus(id=snapshot, kind=SnapshotKind.REQUESTED, state=state, **known)  # type: ignore[arg-type]
    play.place.redis.hset(names.snapshots_key(pipeline), snapshot, status.encode())


def asked_of_reader(play: Play, state: SnapshotState) -> SnapshotRequest:
    """Takes the next request, answers it, and says that its snapshot is in that state."""
    pipeline = play.place.config.pipeline
    key = names.snapshot_requests_key(pipeline)
    value = wait(lambda: play.place.redis.lindex(key, 0), 20, "a request to the reader")
    request = decode_snapshot_request(value)
    tell(play, request.snapshot or request.id, state, percent=37.5, rows=3_750, rows_per_second=800.0, seconds_left=8.0)
    done = LaneOutcome(request.id, Result.DONE, 1)
    with play.place.redis.pipeline(transaction=True) as together:
        together.set(names.snapshot_outcome_key(pipeline, request.id), done.encode())
        together.lpop(key)
        together.execute()
    return request


def test_a_snapshot_is_started_watched_and_paused(page: Page, play: Play) -> None:
    panel = page.locator("[data-snapshots]")
    expect(panel).to_contain_text("None has been taken", timeout=20_000)
    panel.get_by_role("button", name="Start").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Tables").fill("public.orders, public.items")
    dialog.get_by_role("button", name="Start").click()
    started = asked_of_reader(play, SnapshotState.RUNNING)
    expect(panel).to_contain_text("running · 37.5 %", timeout=20_000)
    expect(panel.get_by_role("progressbar")).to_have_attribute("aria-valuenow", "38")
    if SCREENSHOTS:
        panel.screenshot(path=Path(SCREENSHOTS) / "page-snapshot.png")
    panel.get_by_role("button", name="Pause").click()
    paused = asked_of_reader(play, SnapshotState.PAUSED)
    expect(panel.get_by_role("button", name="Resume")).to_be_visible(timeout=20_000)
    assert started.tables == ("public.orders", "public.items")
    assert (paused.asked, paused.snapshot) == (SnapshotAsked.PAUSE, started.id)


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
