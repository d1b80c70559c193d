"""The page of verification says what the committed figures say, and no more."""

import json

from chaos.fleet.results import FILE, PAGE, add, page


def test_the_page_is_written_from_the_figures() -> None:
    assert page(json.loads(FILE.read_text())) == PAGE.read_text(), "python -m chaos.fleet.results page"


def test_a_broken_trial_counts_as_broken_and_not_as_a_recovery() -> None:
    good = {
        "case": "M31", "variant": "v", "transactions": 5, "events": 9, "duplicates": 0, "recovery_seconds": 1.0,
        "held_bytes": 0, "reader_bytes": 0, "violations": [], "error": "",
    }  # fmt: skip
    run = {"seed": "s", "tier": "quick", "commit": "c", "machine": "m"}
    results: dict[str, object] = {}
    add(results, {**run, "trials": [good, {**good, "violations": ["I1: lost"]}]})

    assert (
        results["variants"]["M31 v"] | {"trials": 2, "broken": 1, "recoveries": [1.0], "events": 18}
        == (results["variants"]["M31 v"])
    )
