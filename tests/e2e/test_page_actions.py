"""What each action on the page does, and says while and after it does."""

import threading
from collections.abc import Callable
from functools import partial

import pytest
from kit.browser import picture
from kit.letters import make_letter
from kit.playing import Play
from kit.topics import append
from kit.wait import wait
from playwright.sync_api import Page, expect

from tidegate.clock import unix_microseconds
from tidegate.contracts import names
from tidegate.contracts.request import Fate, LaneOutcome, Result
from tidegate.contracts.snapshot_request import SnapshotAsked, SnapshotRequest, decode_snapshot_request
from tidegate.contracts.snapshot_status import SnapshotKind, SnapshotState, SnapshotStatus
from tidegate.errors import StreamError
from tidegate_processor.desk import Desk

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]


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


def test_what_is_agreed_to_in_one_dialog_is_not_agreed_to_for_the_one_whose_place_it_took(
    page: Page, play: Play
) -> None:
    """There is one box: giving one cause's letters up gave up those of the other that had been asked for before."""
    asked = "for (const each of ['first', 'second']) dialog(each, [], 'Give up').then((yes) => told.push([each, yes]));"
    page.evaluate(f"() => {{ window.told = []; {asked} }}")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("second")
    dialog.get_by_role("button", name="Give up").click()
    expect(dialog).to_be_hidden()
    page.wait_for_function("() => told.length === 2")
    assert page.evaluate("told") == [["first", False], ["second", True]]


def fated(play: Play, *fates: Fate) -> threading.Thread:
    """The lane, which answers for one letter as often as fates are given."""
    return obeying(play, "events", *(partial(lambda fate, _: fate, fate) for fate in fates))


def obeying(play: Play, lane: str, *answers: Callable[[str], Fate]) -> threading.Thread:
    """The lane, which answers one request after the other: for each letter, if it is about letters."""
    desk = Desk(play.place.redis, play.place.config.pipeline, lane)

    def serve() -> None:
        for answer in answers:
            request = wait(desk.next, 60, "a request to the lane")
            desk.done(request, fates={each: answer(each) for each in request.ids} or None)

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


def test_all_of_one_cause_are_replayed_to_where_one_says_and_the_overtaken_only_if_agreed(
    page: Page, play: Play
) -> None:
    letters = [make_letter(n, pipeline=play.place.config.pipeline, code="IN_BULK") for n in range(10, 35)]
    append(play.place.bootstrap, f"tidegate.{play.place.config.pipeline}.dlq", [letter.encode() for letter in letters])
    group = page.locator(".groups li", has_text="25 × IN_BULK")
    expect(group).to_have_count(1, timeout=30_000)
    overtaken, dialog = {letter.id for letter in letters[:5]}, page.get_by_role("dialog")

    looks = obeying(play, "events", lambda each: Fate.NEWER if each in overtaken else Fate.DELIVERABLE)
    group.get_by_role("button", name="Replay all").click()
    expect(dialog.get_by_label("Deliver to")).to_have_value("")
    expect(dialog.get_by_label("Deliver to").locator("option")).to_have_text(
        ["events, their own lane", "search instead: they stay open"]
    )
    dialog.get_by_role("button", name="Look").click()
    expect(dialog).to_contain_text("20 can be delivered now", timeout=20_000)
    expect(dialog).to_contain_text("5 have been overtaken")
    expect(dialog.get_by_label("Deliver also the 5")).not_to_be_checked()
    picture(page, "page-replay-all")
    looks.join(10)
    delivers = obeying(play, "events", lambda each: Fate.NEWER if each in overtaken else Fate.DELIVERED)
    dialog.get_by_role("button", name="Deliver", exact=True).click()
    expect(dialog).to_contain_text("20 have been delivered", timeout=20_000)
    dialog.get_by_role("button", name="Close").click()
    delivers.join(10)


def test_all_of_one_cause_are_given_up_by_their_number(page: Page, play: Play) -> None:
    letters = [make_letter(n, pipeline=play.place.config.pipeline, code="NO_HOPE") for n in range(40, 43)]
    append(play.place.bootstrap, f"tidegate.{play.place.config.pipeline}.dlq", [letter.encode() for letter in letters])
    group = page.locator(".groups li", has_text="3 × NO_HOPE")
    expect(group).to_have_count(1, timeout=30_000)
    group.get_by_role("button", name="Give up all").click()
    dialog = page.get_by_role("dialog")
    agree = dialog.get_by_role("button", name="Give up")
    dialog.locator("input").fill("1")
    expect(agree).to_be_disabled()
    dialog.locator("input").fill("3")
    agree.click()
    expect(page.locator(".letters li", has_text="NO_HOPE")).to_have_count(0, timeout=20_000)


def test_a_lane_and_then_all_are_paused_and_go_on(page: Page, play: Play) -> None:
    """Asked first; done when each lane has said so."""
    dialog, lane = page.get_by_role("dialog"), page.locator(".lane-list tr", has_text="search")
    lane.get_by_role("button", name="Pause").click()
    expect(dialog).to_contain_text("the source keeps")
    dialog.get_by_role("button", name="Pause", exact=True).click()
    expect(dialog).to_contain_text("Pausing lane search")
    picture(page, "page-pausing")
    obeying(play, "search", lambda _: Fate.UNKNOWN).join(30)
    expect(dialog).to_be_hidden(timeout=20_000)
    play.paused = frozenset({"search"})
    expect(lane).to_contain_text("paused", timeout=20_000)
    expect(lane.get_by_role("button", name="Resume")).to_be_visible()
    everyone = [obeying(play, each, lambda _: Fate.UNKNOWN) for each in ("events", "search")]
    page.get_by_role("button", name="Resume all").click()
    for each in everyone:
        each.join(30)
    play.paused = frozenset()
    expect(lane.get_by_role("button", name="Pause")).to_be_visible(timeout=20_000)


def test_what_a_lane_refuses_is_told_with_its_remedy(page: Page, play: Play) -> None:
    desk = Desk(play.place.redis, play.place.config.pipeline, "search")
    page.locator(".lane-list tr", has_text="search").get_by_role("button", name="Pause").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Pause", exact=True).click()
    request = wait(desk.next, 30, "a request to the lane")
    desk.refuse(request, StreamError("it is LOST", code="LANE_LOST", remedy="Mend the cause."))
    expect(dialog).to_contain_text("it is LOST. Mend the cause.", timeout=20_000)
    dialog.get_by_role("button", name="Close").click()


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
    picture(panel, "page-snapshot")
    panel.get_by_role("button", name="Pause").click()
    paused = asked_of_reader(play, SnapshotState.PAUSED)
    expect(panel.get_by_role("button", name="Resume")).to_be_visible(timeout=20_000)
    assert started.tables == ("public.orders", "public.items")
    assert (paused.asked, paused.snapshot) == (SnapshotAsked.PAUSE, started.id)
