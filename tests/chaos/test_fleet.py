"""The quick tier: the strongest faults of the matrix, once each, on a real fleet. `make chaos` runs more of the same.

`TIDEGATE_TESTS_FLEET=0` leaves it out; `CHAOS_PATIENCE=3` is for a machine that does other work meanwhile.
"""

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from chaos.fleet.cases import Tier
from chaos.fleet.matrix import MATRIX
from chaos.fleet.rig import Servers
from chaos.fleet.trial import Trials, plan

from tidegate.errors import TransientError

VARIABLE = "TIDEGATE_TESTS_FLEET"


@pytest.fixture
def trials(tmp_path_factory: pytest.TempPathFactory, servers_dir: Path) -> Iterator[Trials]:
    try:
        servers = Servers(servers_dir / "chaos")
    except TransientError as error:
        pytest.skip(f"a PostgreSQL with test_decoding cannot be fetched: {error}")
    seed = str(random.SystemRandom().randrange(10**6))
    made = Trials(servers, seed, tmp_path_factory.mktemp("failures"))
    try:
        servers.start()
        yield made
    finally:
        made.close()
        servers.stop()


@pytest.mark.e2e
@pytest.mark.timeout(900)
@pytest.mark.skipif(os.environ.get(VARIABLE) == "0", reason=f"{VARIABLE} is 0")
def test_no_fault_breaks_an_invariant(trials: Trials, subtests: pytest.Subtests) -> None:
    """One test, so that one fleet serves all trials, whoever runs beside it."""
    for case, variant, number in plan(MATRIX, lambda variant: variant.trials(Tier.QUICK), trials.seed):
        with subtests.test(f"{case.number} {variant.name}"):
            result = trials.run(case, variant, number)

            assert (result.violations, result.error) == ((), ""), result.seed


def test_every_case_of_the_matrix_is_there_or_says_why_not() -> None:
    assert [f"M{number:02}" for number in range(1, 46)] == [case.number for case in MATRIX]
    assert [case.number for case in MATRIX if not case.variants and not case.missing] == []


def test_the_quick_tier_has_a_kill_of_each_kind_and_what_was_worst() -> None:
    """Twelve or so, for CI runs them."""
    quick = {f"{case.number} {variant.name}" for case in MATRIX for variant in case.variants if variant.quick}

    assert {
        "M01 any time", "M06 dropped", "M10 trimmed by delete_records", "M11 one broker, kill -9", "M14 kill -9",
        "M14 FLUSHALL", "M20 driver and all", "M20 worker at lane_cursor_sent", "M24 reader-postgres, half-open",
        "M24 processor-kafka, deaf", "M26 kill -9 after acks",
    } <= quick  # fmt: skip
    assert len(quick) <= 14
