"""The simulator over many seeds, what once broke in it, and whether it still bites."""

import random

import pytest
from chaos.simulator import lane, production, reader
from chaos.simulator.dice import Dice
from chaos.simulator.faults import Fault
from chaos.simulator.mutants import MUTANTS, planted
from chaos.simulator.plan import make_plan
from chaos.simulator.regressions import Regression, load
from chaos.simulator.run import execute, simulate
from chaos.simulator.shrink import shrink
from chaos.simulator.teeth import bite

SEEDS = 120
MOST_SEEDS_TO_BITE = 30
"""What is wrong only while the file changes shows in the runs that change it at the right moment."""

REGRESSIONS = load()


@pytest.mark.parametrize("first", range(0, SEEDS, 20))
def test_no_seed_breaks_an_invariant(first: int) -> None:
    """Nothing lost, nothing invented, confirmed ≤ acked ≤ durable at every step, and all caught up in the end."""
    failed = [
        f"seed {result.plan.seed}: {result.violation}"
        for result in (simulate(seed, frozenset(Fault)) for seed in range(first, first + 20))
        if result.violation is not None
    ]

    assert failed == []


@pytest.mark.parametrize("regression", [each for each in REGRESSIONS if not each.is_open], ids=lambda each: each.name)
def test_what_once_broke_holds(regression: Regression) -> None:
    assert execute(regression.plan).violation is None


@pytest.mark.xfail(
    strict=True,
    reason="known, and named in the changelog or the simulator's README; once it holds, close it in regressions.json",
)
@pytest.mark.parametrize("regression", [each for each in REGRESSIONS if each.is_open], ids=lambda each: each.name)
def test_what_is_known_to_break(regression: Regression) -> None:
    assert execute(regression.plan).violation is None


def test_a_seed_is_one_exact_run() -> None:
    first, second = (_trace(7) for _ in range(2))

    assert len(first) > 10
    assert first == second


@pytest.mark.parametrize("seed", range(40, 52))
def test_a_rest_changes_nothing(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Turns that are not taken because there was nothing to do, and what is remembered in place of being decoded."""
    rested = _trace(seed)
    monkeypatch.setattr(lane, "rest_of", lambda *_: None)
    monkeypatch.setattr(reader, "may_rest", lambda *_: False)
    monkeypatch.setattr(production, "STAND_INS", ())

    assert _trace(seed) == rested


def test_dice_fall_as_those_of_python() -> None:
    ours, theirs = (
        [
            (dice.randint(-3, 40), dice.randrange(7), dice.randrange(5, 9), dice.choice("abc"), dice.random())
            for _ in range(500)
        ]
        for dice in (Dice(17), random.Random(17))
    )

    assert theirs == ours


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_planted_bug_is_caught(mutant: str) -> None:
    caught = bite(mutant, frozenset(Fault), MOST_SEEDS_TO_BITE)

    assert caught.seeds is not None


def test_a_failing_run_shrinks_to_what_matters() -> None:
    """With a bug that any delivery shows, a few steps are left, and they still show it."""
    with planted("last event of a batch dropped"):
        plan = make_plan(1)
        violation = execute(plan).violation
        assert violation is not None
        small = shrink(plan, violation.name)
        again = execute(small).violation

    assert again is not None
    assert violation.name == again.name
    assert len(small.steps) < 20 < len(plan.steps)


def _trace(seed: int) -> list[str]:
    lines: list[str] = []
    execute(make_plan(seed), lines.append)
    return lines
