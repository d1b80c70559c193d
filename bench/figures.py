"""One table a bench: figure, measured (median and spread), goal, holds or short; the same as JSON.

bench/results/latest/<what>.json: {"figures": [{"name", "value", "unit", "goal", "holds", "runs"}], "machine": …,
"versions": …}
"""

import json
import os
import platform
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

from rich.console import Console
from rich.table import Table

RESULTS = Path(__file__).parent / "results" / "latest"
QUICK = bool(os.environ.get("QUICK"))


@dataclass(frozen=True, slots=True)
class Figure:
    name: str
    unit: str
    runs: Sequence[float]
    goal: float | None = None
    at_least: bool = False
    """Whether the goal is a floor; else it is a ceiling."""

    @property
    def value(self) -> float:
        return statistics.median(self.runs)

    @property
    def holds(self) -> bool | None:
        if self.goal is None:
            return None
        return self.value >= self.goal if self.at_least else self.value <= self.goal


def report(what: str, figures: Sequence[Figure], packages: Sequence[str], notes: Mapping[str, str]) -> None:
    _print(what, figures)
    _write(what, figures, packages, notes)


def _print(what: str, figures: Sequence[Figure]) -> None:
    table = Table("figure", "measured", "spread", "goal", "", title=f"{what}, load {os.getloadavg()[0]:.1f}")
    for figure in figures:
        goal = "" if figure.goal is None else f"{'≥' if figure.at_least else '≤'} {_short(figure.goal)} {figure.unit}"
        verdict = {None: "", True: "holds", False: "short"}[figure.holds]
        spread = f"{_short(min(figure.runs))} … {_short(max(figure.runs))}"
        table.add_row(figure.name, f"{_short(figure.value)} {figure.unit}", spread, goal, verdict)
    Console(width=120).print(table)


def _write(what: str, figures: Sequence[Figure], packages: Sequence[str], notes: Mapping[str, str]) -> None:
    document = {
        "figures": [
            {**asdict(figure), "runs": list(figure.runs), "value": figure.value, "holds": figure.holds}
            for figure in figures
        ],
        "machine": {"cores": os.cpu_count(), "load": os.getloadavg(), "platform": platform.platform(), **notes},
        "versions": {"python": platform.python_version(), **{name: version(name) for name in packages}},
        "quick": QUICK,
    }
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / f"{what}.json").write_text(json.dumps(document, indent=1) + "\n")


def _short(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
