"""How many seeds it takes to catch each planted bug. A seed counts only if it is clean without the bug."""

from dataclasses import dataclass

from chaos.simulator.faults import Fault
from chaos.simulator.mutants import planted
from chaos.simulator.run import simulate

MOST_SEEDS = 200


@dataclass(frozen=True, slots=True)
class Bite:
    mutant: str
    seeds: int | None
    """How many clean seeds it took; none: it was never caught."""
    violation: str


def bite(mutant: str, allowed: frozenset[Fault], most: int = MOST_SEEDS) -> Bite:
    tried = seed = 0
    while tried < most:
        seed += 1
        with planted(mutant):
            found = simulate(seed, allowed).violation
        if found is None:
            tried += 1
        elif simulate(seed, allowed).violation is None:
            return Bite(mutant, tried + 1, found.name)
    return Bite(mutant, None, "")


def table(bites: list[Bite]) -> str:
    width = max(len(each.mutant) for each in bites)
    lines = [f"{'planted bug':{width}}  seeds  caught as"]
    for each in bites:
        seeds = "never" if each.seeds is None else str(each.seeds)
        lines.append(f"{each.mutant:{width}}  {seeds:>5}  {each.violation}")
    return "\n".join(lines)
