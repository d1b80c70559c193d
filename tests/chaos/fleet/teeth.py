"""`make teeth`: each planted bug, how many trials it took to catch it, and as what.

Invariant: a plant counts as caught only by a violation of an invariant; a trial that could not be done proves nothing.
"""

import argparse
import os
import re
import shutil
import signal
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

import psycopg
from chaos.figures import write_json
from chaos.fleet.cases import Case, Variant
from chaos.fleet.field import Field
from chaos.fleet.links import python_path
from chaos.fleet.matrix import chosen
from chaos.fleet.plants import FOLDER, PLANTS, VARIABLE
from chaos.fleet.rig import Servers
from chaos.fleet.trial import Trials
from kit.wait import DeadlinePassedError
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
    "TOAST value made null": ("M31",),
    "two events of a key swapped": ("M31",),
    "last event of a batch dropped": ("M31",),
    "refused event skipped": ("M31",),
    "random event ids": ("M31",),
    "dead letter dropped": ("M31",),
    "dead letter not awaited": ("M20:worker",),
    "hole in seq ignored": ("M10:a frame missing",),
    "cursor outside the transaction": ("M20:worker",),
}


@dataclass(frozen=True, slots=True)
class Bite:
    plant: str
    trials: int
    caught: str
    """The first violation; empty if it was never caught."""


def bite(trials: Trials, name: str, planted: Path) -> Bite:
    """One fleet serves all: a bug is planted into processes that start anew, and weeded out the same way."""
    baits = [_variant(bait) for bait in BAITS[name]]
    try:
        ground = trials.ground()
        planted.write_text(name)
        _start_anew(ground, name)
        for number in range(MOST_TRIALS):
            case, variant = baits[number % len(baits)]
            result = trials.run(case, variant, number)
            if result.violations or result.error:
                # A trial that could not be done proves nothing.
                return Bite(name, number + 1, result.violations[0] if result.violations else "")
        return Bite(name, MOST_TRIALS, "")
    finally:
        planted.unlink(missing_ok=True)
        _weed(trials, name)


def _start_anew(ground: Field, name: str) -> None:
    modules = [each.module for each in PLANTS[name]]
    if any(module.startswith("tidegate_processor") for module in modules):
        ground.processor.kill()  # a worker alone is forked from what had been imported before
    if any(module.startswith("tidegate_reader") for module in modules):
        ground.reader.kill()


def _weed(trials: Trials, name: str) -> None:
    try:
        if trials.is_standing:
            ground = trials.ground()
            _start_anew(ground, name)
            ground.forgive()
    except (DeadlinePassedError, AssertionError, psycopg.Error, OSError):
        trials.close()


def _variant(bait: str) -> tuple[Case, Variant]:
    [case] = chosen(bait)
    return case, case.variants[0]


def main() -> int:
    parser = argparse.ArgumentParser(prog="make teeth", description="Planted bugs, and whether they are caught.")
    parser.add_argument("--only", default="", help="plants whose names match this")
    parser.add_argument("--out", default=os.environ.get("CHAOS_OUT", ".chaos"))
    asked = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    console = Console(highlight=False, soft_wrap=True)
    folder = Path(tempfile.mkdtemp(prefix="tidegate-teeth-"))
    folder.chmod(0o755)
    servers, planted = Servers(folder), folder / "planted"
    environment = {VARIABLE: str(planted), "PYTHONPATH": os.pathsep.join([str(FOLDER), python_path()])}
    trials = Trials(servers, "teeth", Path(asked.out) / "teeth", environment, prefix="teeth", goes_on=True)
    bites: list[Bite] = []
    try:
        servers.start()
        for name in (each for each in PLANTS if re.search(asked.only, each)):
            bites.append(bite(trials, name, planted))
            console.print(f"{name:42} {bites[-1].trials:3} {bites[-1].caught or 'NEVER CAUGHT'}")
    finally:
        trials.close()
        servers.stop()
        shutil.rmtree(folder, ignore_errors=True)
        write_json(
            Path(asked.out) / "teeth.json", {"most_trials": MOST_TRIALS, "bites": [asdict(each) for each in bites]}
        )
    return 0 if bites and all(each.caught for each in bites) else 1


if __name__ == "__main__":
    sys.exit(main())
