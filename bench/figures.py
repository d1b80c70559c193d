"""One table a bench: figure, measured (median and spread), goal, holds or short; the same as JSON.

bench/results/<what>.json: {"when", "figures": [{"name", "value", "unit", "goal", "holds", "runs"}], "machine": …,
"versions": …}; of a quick run, which proves little, bench/results/latest/<what>.json.
"""

import json
import os
import platform
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from importlib.metadata import version
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.machine import machine, now, revision

KEPT = Path(__file__).parent / "results"
LATEST = KEPT / "latest"
QUICK = bool(os.environ.get("QUICK"))


@dataclass(frozen=True, slots=True)
class Figure:
    name: str
    unit: str
    runs: Sequence[float]
    goal: float | None = None
    at_least: bool = False
    """Whether the goal is a floor; else it is a ceiling."""
    why: str = ""
    """It is short, where it is."""

    @property
    def value(self) -> float:
        return statistics.median(self.runs)

    @property
    def holds(self) -> bool | None:
        if self.goal is None:
            return None
        return self.value >= self.goal if self.at_least else self.value <= self.goal

    @property
    def shown(self) -> tuple[str, str, str, str]:
        """Measured, spread, goal, verdict."""
        goal = "" if self.goal is None else f"{'≥' if self.at_least else '≤'} {_short(self.goal)} {self.unit}"
        spread = f"{_short(min(self.runs))} … {_short(max(self.runs))}"
        verdict = {None: "", True: "holds", False: "short"}[self.holds]
        return f"{_short(self.value)} {self.unit}", spread, goal, verdict


def report(what: str, figures: Sequence[Figure], packages: Sequence[str], notes: Mapping[str, str]) -> None:
    tell(what, figures)
    _write(what, figures, packages, notes)


def tell(what: str, figures: Sequence[Figure]) -> None:
    table = Table("figure", "measured", "spread", "goal", "", title=f"{what}, load {os.getloadavg()[0]:.1f}")
    for figure in figures:
        table.add_row(figure.name, *figure.shown)
    Console(width=120).print(table)


def kept(what: str) -> tuple[str, list[Figure]] | None:
    """Where and when it was measured, and what."""
    file = KEPT / f"{what}.json"
    if not file.exists():
        return None
    document = json.loads(file.read_text())
    names = {each.name for each in fields(Figure)}
    figures = [Figure(**{name: value for name, value in each.items() if name in names}) for each in document["figures"]]
    where = document["machine"]
    return (
        f"{document['when'][:10]}, revision `{document['revision']}`, {where['cpu']}, {where['cores']} cores",
        figures,
    )


def _write(what: str, figures: Sequence[Figure], packages: Sequence[str], notes: Mapping[str, str]) -> None:
    document = {
        "when": now(),
        "revision": revision(),
        "figures": list(_documents(figures)),
        "machine": {**machine(), **notes},
        "versions": {"python": platform.python_version(), **{name: version(name) for name in packages}},
        "quick": QUICK,
    }
    folder = LATEST if QUICK else KEPT
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{what}.json").write_text(json.dumps(document, indent=1) + "\n")


def _documents(figures: Sequence[Figure]) -> Iterator[dict[str, object]]:
    for figure in figures:
        yield {**asdict(figure), "runs": list(figure.runs), "value": figure.value, "holds": figure.holds}


def _short(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
