"""The simulator's command line: many seeds, one seed, or the planted bugs.

python -m chaos.simulator --seeds 2000          all of them, on both cores; exit 1 if any broke an invariant
python -m chaos.simulator --seed 17 -v          one, with its trace, shrunk if it fails
python -m chaos.simulator --seed 17 --keep NAME the shrunk run becomes a named regression
python -m chaos.simulator --teeth               how soon each planted bug is caught
"""

import argparse
import gc
import multiprocessing
import os
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from chaos.figures import commit, write_json
from chaos.simulator import regressions
from chaos.simulator.faults import Fault
from chaos.simulator.mutants import MUTANTS
from chaos.simulator.plan import make_plan
from chaos.simulator.run import execute, simulate
from chaos.simulator.shrink import shrink
from chaos.simulator.teeth import MOST_SEEDS, bite, table

_CHUNK = 10
_SEEDS_PER_COLLECTION = 20
_PROGRESS_SECONDS = 1.0
_SHOWN = 3
"""Failing seeds of one name that are printed; the first of them with its trace."""


def main() -> int:
    options = _options()
    allowed = frozenset(Fault) - frozenset(map(Fault, options.without))
    if options.settle:
        return _settle()
    if options.teeth:
        return _teeth(allowed, options.jobs)
    if options.seed is not None:
        return _one(options, allowed)
    return _many(range(options.start, options.start + options.seeds), allowed, options.jobs, options.out)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m chaos.simulator", description="Simulate the whole pipeline.")
    parser.add_argument("--seeds", type=int, default=2000, help="how many")
    parser.add_argument("--start", type=int, default=0, help="the first of them")
    parser.add_argument("--seed", type=int, help="only this one")
    parser.add_argument("-v", "--verbose", action="store_true", help="its whole trace")
    parser.add_argument("--keep", metavar="NAME", help="keep the failing run as a named regression")
    parser.add_argument("--teeth", action="store_true", help="plant bugs and see them caught")
    parser.add_argument("--settle", action="store_true", help="see which named regressions hold, and write it down")
    parser.add_argument("--without", nargs="*", default=[], choices=sorted(Fault), help="faults left out")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--out", type=Path, help="the figures of many seeds as JSON, for chaos.fleet.results")
    return parser.parse_args()


def _one(options: argparse.Namespace, allowed: frozenset[Fault]) -> int:
    plan = make_plan(options.seed, allowed)
    violation = execute(plan, print if options.verbose else None).violation
    if violation is None:
        print(f"seed {options.seed}: clean, {len(plan.steps)} steps, faults {_names(plan.faults)}")
        return 0
    _report(options.seed, allowed, options.keep)
    return 1


def _many(seeds: range, allowed: frozenset[Fault], jobs: int, out: Path | None) -> int:
    started, shown = time.monotonic(), 0.0
    counts: Counter[str] = Counter()
    broken: dict[str, list[int]] = {}
    steps = 0
    with multiprocessing.Pool(jobs, leave_garbage) as pool:
        results = pool.imap_unordered(partial(_told, allowed), seeds, _CHUNK)
        for done, told in enumerate(results, 1):
            counts.update(told.counts)
            steps += told.steps
            if told.violation:
                broken.setdefault(told.violation, []).append(told.seed)
                print(f"\rseed {told.seed}: {told.violation}", file=sys.stderr)
            if time.monotonic() - shown > _PROGRESS_SECONDS or done == len(seeds):
                shown = time.monotonic()
                failed = sum(map(len, broken.values()))
                print(f"\r{done}/{len(seeds)} seeds, {failed} failed, {shown - started:.0f} s", end="", file=sys.stderr)
    print(file=sys.stderr)
    if out is not None:
        write_json(out, _figures(seeds, steps, counts, broken))
    _summary(len(seeds), steps, counts, time.monotonic() - started)
    for name, failing in sorted(broken.items(), key=lambda item: -len(item[1])):
        print(f"\n{name}: {len(failing)} seeds, {sorted(failing)[:_SHOWN]}")
        _report(min(failing), allowed, None)
    return 1 if broken else 0


@dataclass(frozen=True, slots=True)
class _Told:
    """What of a run goes back to the process that counts: its plan alone would take as long as a tenth of the run."""

    seed: int
    steps: int
    counts: dict[str, int]
    violation: str


def _told(allowed: frozenset[Fault], seed: int) -> _Told:
    result = simulate(seed, allowed)
    if seed % _SEEDS_PER_COLLECTION == 0:
        gc.collect()
    return _Told(seed, result.steps, dict(result.counts), result.violation.name if result.violation else "")


def leave_garbage() -> None:
    """In a process of a pool. A run makes much and keeps it to its end: looking through all of it again and again took
    an eighth of the time."""
    gc.collect()
    gc.freeze()
    gc.disable()


def _figures(seeds: range, steps: int, counts: Counter[str], broken: dict[str, list[int]]) -> dict[str, object]:
    """As `chaos.fleet.results` takes them in."""
    figures = {"first": seeds.start, "seeds": len(seeds), "steps": steps, "faults": sum(counts[each] for each in Fault)}
    kept = ("transactions", "events", "epochs")
    return {"simulator": figures | {name: counts[name] for name in kept} | {"broken": broken, "commit": commit()}}


def _summary(seeds: int, steps: int, counts: Counter[str], seconds: float) -> None:
    faults = {fault: counts.pop(fault, 0) for fault in Fault}
    print(f"{seeds} seeds, {steps} steps, {seconds:.1f} s")
    print("faults injected:", ", ".join(f"{fault} {count}" for fault, count in sorted(faults.items())))
    print("outcomes:", ", ".join(f"{name} {count}" for name, count in sorted(counts.items())))


def _report(seed: int, allowed: frozenset[Fault], keep: str | None) -> None:
    plan = make_plan(seed, allowed)
    violation = execute(plan).violation
    assert violation is not None
    small = shrink(plan, violation.name)
    print(f"seed {seed} breaks {violation}")
    print(f"faults enabled: {_names(plan.faults)}")
    print(f"minimal trace: {len(small.steps)} of {len(plan.steps)} steps: {' '.join(s.action for s in small.steps)}")
    lines: list[str] = []
    execute(small, lines.append)
    print("\n".join(lines if len(lines) < 40 else [*lines[:30], "  …", *lines[-5:]]))
    print(f"alone: python -m chaos.simulator --seed {seed} -v")
    if keep:
        regressions.keep(keep, violation.name, small)


def _settle() -> int:
    seen = []
    for each in regressions.load():
        violation = execute(each.plan).violation
        print(f"{'holds' if violation is None else 'OPEN ':5}  {each.name}" + (f": {violation}" if violation else ""))
        seen.append(replace(each, is_open=violation is not None))
    regressions.write(seen)
    return 0


def _teeth(allowed: frozenset[Fault], jobs: int) -> int:
    with multiprocessing.Pool(jobs) as pool:
        bites = pool.map(partial(bite, allowed=allowed), MUTANTS, 1)
    print(table(bites))
    missed = [each.mutant for each in bites if each.seeds is None]
    if missed:
        print(f"never caught within {MOST_SEEDS} seeds: {', '.join(missed)}")
    return 1 if missed else 0


def _names(faults: Sequence[Fault]) -> str:
    return ", ".join(faults) or "none"


if __name__ == "__main__":
    sys.exit(main())
