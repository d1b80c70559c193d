"""The quick tier: the strongest cases of the matrix, once each, on a real fleet. `make chaos` runs more of the same.

`TIDEGATE_TESTS_FLEET=1` asks for it: its deadlines of a minute are for a machine that does nothing else.
"""

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from chaos.fleet.cases import Case, Tier, Variant
from chaos.fleet.matrix import MATRIX
from chaos.fleet.rig import Servers
from chaos.fleet.trial import Trials, plan

from tidegate.errors import TransientError

VARIABLE = "TIDEGATE_TESTS_FLEET"
QUICK = list(plan(MATRIX, lambda variant: variant.trials(Tier.QUICK)))


@pytest.fixture(scope="module")
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
@pytest.mark.timeout(300)
@pytest.mark.skipif(VARIABLE not in os.environ, reason=f"{VARIABLE} is not set")
@pytest.mark.parametrize(
    ("case", "variant", "number"), QUICK, ids=[f"{case.number} {variant.name}" for case, variant, _ in QUICK]
)
def test_no_fault_breaks_an_invariant(trials: Trials, case: Case, variant: Variant, number: int) -> None:
    result = trials.run(case, variant, number)

    assert (result.violations, result.error) == ((), ""), result.seed


def test_every_case_of_the_matrix_is_there_or_says_why_not() -> None:
    assert [f"M{number:02}" for number in range(1, 46)] == [case.number for case in MATRIX]
    assert [case.number for case in MATRIX if not case.variants and not case.missing] == []
