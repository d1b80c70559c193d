"""`make teeth`: each planted bug, how many trials it took to catch it, and as what.

Invariant: a plant counts as caught only by a violation of an invariant; a trial that could not be done proves nothing.
"""

import argparse
import os
import shutil
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

from chaos.fleet.cases import Case, Variant
from chaos.fleet.links import python_path
from chaos.fleet.matrix import chosen
from chaos.fleet.plants import FOLDER, PLANTS, VARIABLE
from chaos.fleet.report import write_json
from chaos.fleet.rig import Servers
from chaos.fleet.trial import Trials
from rich.console import Console

MOST_TRIALS = 20
# What makes each show; the first is tried first, then the next, and again.
BAITS: dict[str, tuple[str, ...]] = {
    "confirm on receive": ("M20:held before its commit", "M01:any time"),
    "filter by change LSN": ("M31", "M03"),
    "keepalive confirmed with work in flight": ("M20:held before its commit", "M09"),
    "commit_lsn for end_lsn": ("M31",),
    "ack before sink commit": ("M20:held before its commit",),
    "failed produce swallowed": ("M12:frames refused",),
    "missing Redis key = sink ignored": ("M14:while the lane stands",),
    "no generation check": ("M06:made anew",),
    "TOAST value made null": ("M31",),
    "two events of a key swapped": ("M31",),
    "last event of a batch dropped": ("M31",),
    "refused event skipped": ("M31",),
    "random event ids": ("M31",),
    "dead letter dropped": ("M31",),
    "hole in seq ignored": ("M13", "M12:frames refused", "M02"),
    "cursor outside the transaction": ("M20:worker",),
}


@dataclass(frozen=True, slots=True)
class Bite:
    plant: str
    trials: int
    caught: str
    """The first violation; empty if it was never caught."""


def bite(servers: Servers, name: str, keep: Path) -> Bite:
    environment = {VARIABLE: name, "PYTHONPATH": os.pathsep.join([str(FOLDER), python_path()])}
    trials = Trials(servers, f"teeth {name}", keep, environment, prefix=f"bite{list(PLANTS).index(name)}x")
    baits = [_variant(bait) for bait in BAITS[name]]
    try:
        for number in range(MOST_TRIALS):
            case, variant = baits[number % len(baits)]
            result = trials.run(case, variant, number)
            if result.violations:
                return Bite(name, number + 1, result.violations[0])
            if result.error:
                return Bite(name, number + 1, "")
    finally:
        trials.close()
    return Bite(name, MOST_TRIALS, "")


def _variant(bait: str) -> tuple[Case, Variant]:
    [case] = chosen(bait)
    return case, case.variants[0]


def main() -> int:
    parser = argparse.ArgumentParser(prog="make teeth", description="Planted bugs, and whether they are caught.")
    parser.add_argument("--only", default="", help="plants with this in their name")
    parser.add_argument("--out", default=os.environ.get("CHAOS_OUT", ".chaos"))
    asked = parser.parse_args()
    console = Console(highlight=False, soft_wrap=True)
    folder = Path(tempfile.mkdtemp(prefix="tidegate-teeth-"))
    folder.chmod(0o755)
    servers = Servers(folder)
    bites = []
    try:
        servers.start()
        for name in (each for each in PLANTS if asked.only in each):
            bites.append(bite(servers, name, Path(asked.out) / "teeth"))
            console.print(f"{name:42} {bites[-1].trials:3} {bites[-1].caught or 'NEVER CAUGHT'}")
    finally:
        servers.stop()
        shutil.rmtree(folder, ignore_errors=True)
        write_json(
            Path(asked.out) / "teeth.json", {"most_trials": MOST_TRIALS, "bites": [asdict(each) for each in bites]}
        )
    return 0 if bites and all(each.caught for each in bites) else 1


if __name__ == "__main__":
    sys.exit(main())
