"""What the comparison believes: completeness before speed, and ratios that got worse."""

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from bench import page, ratios, results, table
from bench.measure.consumer import Verdict
from bench.outcome import Figure, Phase, SessionResult
from bench.svg import Bar, Line, bars, lines
from bench.workloads import NAMES, Size, mixed, workload

EVERY_ONCE = ((1, 0), (2, 1), (1, 2), (2, 3))


def judged(seen: tuple[tuple[int, int], ...]) -> Verdict:
    verdict = Verdict(4, keeps_order=True)
    for key, number in seen:
        verdict.see("t", key, number)
    return verdict


def test_every_change_once_in_order_is_complete() -> None:
    """Order counts for each key, not between keys."""
    assert judged(EVERY_ONCE).is_complete
    assert judged((EVERY_ONCE[1], EVERY_ONCE[0], *EVERY_ONCE[2:])).is_complete


def test_what_did_not_come_is_lost_whatever_came_twice() -> None:
    """As many events as were due prove nothing."""
    verdict = judged((*EVERY_ONCE[:3], EVERY_ONCE[0]))
    assert (verdict.lost, verdict.doubled) == (1, 1)
    assert not verdict.is_complete


@pytest.mark.parametrize(
    "seen",
    [(EVERY_ONCE[2], EVERY_ONCE[0], EVERY_ONCE[1], EVERY_ONCE[3]), (*EVERY_ONCE, (1, 4)), (*EVERY_ONCE, (1, -1))],
)
def test_overtaken_and_foreign_events_are_not_complete(seen: tuple[tuple[int, int], ...]) -> None:
    """An event that nobody wrote is as wrong as one out of order."""
    assert not judged(seen).is_complete


def test_a_repeated_event_is_no_overtaking() -> None:
    """After a crash a contestant that is at least once repeats older changes: doubled, and told as that."""
    verdict = judged((*EVERY_ONCE, EVERY_ONCE[0]))
    assert (verdict.doubled, verdict.overtaken) == (1, 0)


def test_every_workload_numbers_its_changes_without_gaps() -> None:
    """Deletes are numbered by their key, behind all inserts and updates."""
    made = mixed(900)
    rows = made.deletes_from // 2
    deleted = [made.number_of_delete(key) for key in range(0, rows, 4)]
    assert list(range(made.deletes_from, made.events)) == deleted
    assert all(workload(name, size).events > 0 for name in NAMES for size in Size)


def run_of(rates: dict[str, float], problem: str = "") -> results.Run:
    phases = {name: [Phase("wide", {Figure.RATE: rate}, expected=10)] for name, rate in rates.items()}
    sessions = [SessionResult(name, "18", 0, found, problem) for name, found in phases.items()]
    labels: dict[str, dict[str, str]] = {name: {"label": name} for name in rates}
    run: dict[str, Any] = results.gathered(sessions, "quick", 1.0, labels)
    return dict(json.loads(json.dumps(run)))


@pytest.fixture
def accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(ratios, "ACCEPTED", tmp_path / "ratios.json")
    return ratios.accept(run_of({"tidegate_realtime": 400.0, "debezium_tuned": 100.0}))


@pytest.mark.usefixtures("accepted")
def test_a_slower_machine_is_no_regression_and_a_worse_ratio_is() -> None:
    """Both contestants ten times slower leave the ratio as it was."""
    assert ratios.check(run_of({"tidegate_realtime": 40.0, "debezium_tuned": 10.0})) == []
    [worse] = ratios.check(run_of({"tidegate_realtime": 200.0, "debezium_tuned": 100.0}))
    assert "2.00 times worse" in worse


@pytest.mark.usefixtures("accepted")
def test_a_ratio_that_cannot_be_formed_is_worse() -> None:
    """Else a contestant that does not start would pass for ever."""
    assert len(ratios.check(run_of({"tidegate_realtime": 400.0}))) == 1


def test_without_accepted_ratios_the_check_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty comparison must not look like a good one."""
    monkeypatch.setattr(ratios, "ACCEPTED", tmp_path / "none.json")
    assert ratios.check(run_of({"tidegate_realtime": 1.0})) != []


def test_a_run_without_tidegate_is_not_sound_and_one_without_debezium_is() -> None:
    """A contestant that cannot be had is told, and fails nobody else."""
    assert results.is_sound(run_of({"tidegate_realtime": 1.0}))
    assert not results.is_sound(run_of({"tidegate_realtime": 1.0}, problem="it did not start"))
    assert results.is_sound(run_of({"debezium_tuned": 1.0}, problem="no jars"))


def test_the_table_tells_a_loss_in_place_of_a_speed() -> None:
    """Whoever lost an event has no figure of speed, and the number of lost events stands there."""
    run = run_of({"tidegate_realtime": 1.0})
    run["sessions"][0]["phases"][0] |= {"figures": {}, "lost": 1234}
    assert "1,234" in table.of(run)


def test_the_page_is_made_of_the_run_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each plot it names is there, and parses as XML."""
    monkeypatch.setattr(page, "PLOTS", tmp_path / "speed")
    written = page.section(run_of({"tidegate_realtime": 321_000.0, "debezium_tuned": 45_000.0}))
    plots = list((tmp_path / "speed").glob("*.svg"))
    assert plots
    assert all(f"images/speed/{plot.name}" in written for plot in plots)
    assert "321,000" in written
    for plot in plots:
        ElementTree.fromstring(plot.read_text())


def test_plots_are_the_same_for_the_same_figures() -> None:
    """So a page that is made again from the same run leaves no difference."""
    drawn = [bars("a < b", "s", [Bar("one & two", (1.0, 3.0, 2.0))]) for _ in range(2)]
    assert drawn[0] == drawn[1]
    ElementTree.fromstring(drawn[0])
    ElementTree.fromstring(lines("a", "rows", "s", [Line("x", ((1, 2.0), (1000, 3.0)))]))
