"""The page of verification says what the committed figures say, and no more."""

import json

from chaos.fleet.kills import Kills, Kind, in_words
from chaos.fleet.results import FILE, PAGE, add, page

RUN = {"seed": "s", "tier": "quick", "commit": "c", "machine": "m"}
GOOD = {
    "case": "M31", "variant": "v", "transactions": 5, "events": 9, "duplicates": 0, "recovery_seconds": 1.0,
    "held_bytes": 0, "reader_bytes": 0, "violations": [], "error": "",
}  # fmt: skip


def test_the_page_is_written_from_the_figures() -> None:
    assert page(json.loads(FILE.read_text())) == PAGE.read_text(), "python -m chaos.fleet.results page"


def test_a_broken_trial_counts_as_broken_and_not_as_a_recovery() -> None:
    results: dict[str, object] = {}
    add(results, {**RUN, "trials": [GOOD, {**GOOD, "violations": ["I1: lost"]}]})

    assert (
        results["variants"]["M31 v"] | {"trials": 2, "broken": 1, "recoveries": [1.0], "events": 18}
        == (results["variants"]["M31 v"])
    )


def test_kills_are_summed_by_kind_over_all_runs_and_trials_of_which_older_ones_tell_none() -> None:
    results: dict[str, object] = {}
    storm = {**GOOD, "kills": _kills(Kind.READER, 1.0, 4.0, 2.5)}
    add(results, {**RUN, "trials": [GOOD, storm, {**GOOD, "kills": _kills(Kind.REDIS)}]})
    add(results, {**RUN, "trials": [storm]})

    assert results["kills"] == {
        "reader": {"kills": 6, "back_seconds": [1.0, 4.0, 2.5, 1.0, 4.0, 2.5]},
        "redis": {"kills": 1, "back_seconds": []},
    }
    assert "| reader | 6 | 2.5, 4.0 |\n| redis | 1 |  |" in page(results)


def test_nobody_killed_is_said_as_such() -> None:
    assert in_words({}) == "none"


def _kills(kind: Kind, *back: float) -> object:
    kills = Kills()
    for seconds in back or (None,):
        kills.add(kind)
        if seconds is not None:
            kills.back(kind, seconds)
    return json.loads(json.dumps(kills.told()))
