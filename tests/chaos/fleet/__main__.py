"""`make chaos`: trials of the matrix on a real fleet, with live progress and a report.

Invariant: exit 0 only if every trial that was asked for was done and none broke an invariant.
"""

import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

from chaos.fleet.cases import Tier
from chaos.fleet.matrix import chosen
from chaos.fleet.report import Report
from chaos.fleet.rig import MAJOR, Servers
from chaos.fleet.trial import Trials, plan
from rich.console import Console


def main() -> int:
    asked = _parsed()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    seed = asked.seed or str(random.SystemRandom().randrange(10**6))
    cases = chosen(asked.case)
    turns = list(plan(cases, lambda variant: asked.trials or variant.trials(Tier(asked.tier)), seed))
    console = Console(highlight=False, soft_wrap=True)
    report = Report(Path(asked.out), seed, asked.tier, cases)
    console.print(f"{len(turns)} trials, seed {seed}")
    folder = Path(tempfile.mkdtemp(prefix="tidegate-chaos-"))
    folder.chmod(0o755)
    servers = Servers(folder, asked.postgres)
    keep, tier = Path(asked.out) / "failures", Tier(asked.tier)
    trials = Trials(
        servers, seed, keep, tell=lambda said: console.print(f"   {said}"), tier=tier, writers=asked.writers
    )
    deadline = time.monotonic() + asked.seconds if asked.seconds else float("inf")
    try:
        servers.start()
        for done, (case, variant, number) in enumerate(turns, 1):
            if time.monotonic() > deadline:
                console.print(f"cut short after {asked.seconds} s")
                break
            result = trials.run(case, variant, number)
            report.add(result)
            console.print(report.line(result, done, len(turns)))
    finally:
        trials.close()
        servers.stop()
        shutil.rmtree(folder, ignore_errors=True)
        report.write()
    console.print(report.table())
    console.print(report.killed())
    return 0 if report.is_good else 1


def _parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make chaos", description="Trials of a real fleet under faults.")
    parser.add_argument("--tier", choices=list(Tier), default=Tier.QUICK)
    parser.add_argument("--case", default="", help="M13, or M24:dripping for the variants with that in their name")
    parser.add_argument("--trials", type=int, default=0, help="so many of each variant, in place of the tier's")
    parser.add_argument("--seed", default="", help="the same seed draws the same loads and faults")
    parser.add_argument("--postgres", default=MAJOR, help="its major, 14 to 18")
    parser.add_argument("--writers", type=int, default=1, help="of the lane; several work in micro-batches")
    parser.add_argument("--seconds", type=float, default=0, help="begin no trial after that")
    parser.add_argument("--out", default=os.environ.get("CHAOS_OUT", ".chaos"), help="folder of the report")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
