"""Runs that once broke an invariant, each by the name of what was wrong, shrunk to the steps that matter.

Kept as plans, not as seeds: a plan means the same when the generator learns new faults. `open` ones still break it.
"""

import json
from dataclasses import dataclass
from pathlib import Path

from chaos.simulator.faults import Fault
from chaos.simulator.plan import Plan, Step

FILE = Path(__file__).with_name("regressions.json")


@dataclass(frozen=True, slots=True)
class Regression:
    name: str
    violation: str
    is_open: bool
    plan: Plan


def load() -> list[Regression]:
    if not FILE.exists():
        return []
    return [_read(each) for each in json.loads(FILE.read_text())]


def keep(name: str, violation: str, plan: Plan) -> None:
    """Under this name, in place of what had it."""
    kept = [each for each in load() if each.name != name]
    kept.append(Regression(name, violation, True, plan))
    write(kept)


def write(regressions: list[Regression]) -> None:
    lines = [json.dumps(_written(each), separators=(",", ":")) for each in sorted(regressions, key=lambda r: r.name)]
    FILE.write_text("[\n" + ",\n".join(lines) + "\n]\n")


def _written(regression: Regression) -> dict[str, object]:
    plan = regression.plan
    return {
        "name": regression.name,
        "violation": regression.violation,
        "open": regression.is_open,
        "seed": plan.seed,
        "required": plan.required,
        "cursors_in_group": plan.cursors_in_group,
        "frame_bytes": plan.frame_bytes,
        "faults": plan.faults,
        "resnapshots": plan.resnapshots,
        "steps": [[step.number, step.action, step.seed] for step in plan.steps],
    }


def _read(document: dict[str, object]) -> Regression:
    plan = Plan(
        document["seed"],  # type: ignore[arg-type]
        tuple(document["required"]),  # type: ignore[arg-type]
        document["cursors_in_group"],  # type: ignore[arg-type]
        document["frame_bytes"],  # type: ignore[arg-type]
        tuple(map(Fault, document["faults"])),  # type: ignore[arg-type]
        tuple(Step(*step) for step in document["steps"]),  # type: ignore[attr-defined]
        bool(document.get("resnapshots")),
    )
    return Regression(document["name"], document["violation"], document["open"], plan)  # type: ignore[arg-type]
