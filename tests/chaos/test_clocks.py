"""A clock that is moved for one process, and what a machine that cannot do so makes of trials that need it."""

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from chaos.fleet.cases import Case, Tier, Variant
from chaos.fleet.clock import Clock, lacks
from chaos.fleet.field import Field
from chaos.fleet.report import Report
from chaos.fleet.trial import plan

_TELLS = """
import sys, threading, time
def told():
    begun, day = time.monotonic(), time.time()
    time.sleep(0.05)
    threading.Event().wait(0.05)
    print(round(day), time.monotonic() - begun < 30, flush=True)
told()
sys.stdin.readline()
told()
"""


@pytest.mark.skipif(bool(lacks()), reason=lacks())
def test_only_the_time_of_day_is_moved_and_at_once(tmp_path: Path) -> None:
    clock = Clock(tmp_path)
    clock.make()
    clock.set_to(3_600)

    with subprocess.Popen(
        [sys.executable, "-c", _TELLS],
        env=os.environ | clock.environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        ahead, waits = process.stdout.readline().split()
        clock.set_to(-3_600)
        behind, waits_again = process.communicate("\n")[0].split()

    assert int(behind) - int(ahead) == pytest.approx(-7_200, abs=30)
    assert (waits, waits_again) == ("True", "True")


def test_what_the_machine_lacks_something_for_is_not_run_and_says_so(tmp_path: Path) -> None:
    case = Case("M40", "clocks", "I1", (Variant("any", _fault, quick=1, needs=lambda: "no C compiler"),))

    assert list(plan([case], lambda variant: variant.trials(Tier.QUICK))) == []
    [row] = Report(tmp_path, "seed", Tier.QUICK, [case]).rows()
    assert row["missing"] == "not run; not here, for this machine has no C compiler"


def _fault(field: Field, draw: random.Random) -> None:
    raise AssertionError("it is not to be run")
