"""Regressions by ratio: Tidegate over a contestant of the same run, compared with ratios that were accepted once.

Absolutes change with the machine, ratios of neighbours hardly do. bench/ratios.json holds, for each, the accepted value
and which way is better. Invariant: a ratio that cannot be formed any more counts as worse, not as fine.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.outcome import Figure
from bench.results import Run, median, values

ACCEPTED = Path(__file__).with_name("ratios.json")
TOLERANCE = 1.5
"""Times worse than accepted: what two shared cores do to a quick run by themselves stays below."""


@dataclass(frozen=True, slots=True)
class Ratio:
    contestant: str
    against: str
    phase: str
    figure: Figure
    higher_is_better: bool

    @property
    def name(self) -> str:
        return f"{self.contestant} / {self.against}, {self.phase}, {self.figure}"


RATIOS = (
    *(
        Ratio(ours, "debezium_tuned", phase, figure, higher)
        for ours in ("tidegate_realtime", "tidegate_batch")
        for phase, figure, higher in (
            ("wide", Figure.RATE, True),
            ("wide", Figure.CPU, False),
            ("wide", Figure.RSS, False),
            ("live 200/s", Figure.P50, False),
            ("live 200/s", Figure.CPU, False),
            ("start", Figure.START, False),
        )
    ),
    Ratio("tidegate_realtime", "", "wide", Figure.SHARE_OF_LIMIT, True),
)


def ratios_of(run: Run) -> dict[str, float]:
    found = values(run)
    formed: dict[str, float] = {}
    for ratio in RATIOS:
        ours = median(found, ratio.contestant, ratio.phase, ratio.figure)
        theirs = median(found, ratio.against, ratio.phase, ratio.figure) if ratio.against else 1.0
        if ours is not None and theirs:
            formed[ratio.name] = ours / theirs
    return formed


def accept(run: Run) -> Path:
    document = {"when": run["when"], "size": run["size"], "machine": run["machine"]["cpu"], "noisy": run["noisy"],
                "ratios": {name: round(value, 4) for name, value in ratios_of(run).items()}}  # fmt: skip
    ACCEPTED.write_text(json.dumps(document, indent=1) + "\n")
    return ACCEPTED


def check(run: Run) -> list[str]:
    """What has got worse, a line each."""
    if not ACCEPTED.exists():
        return [f"no ratios have been accepted: {ACCEPTED.name} is written by --accept"]
    accepted = json.loads(ACCEPTED.read_text())["ratios"]
    return list(_worse(ratios_of(run), accepted))


def _worse(now: dict[str, float], accepted: dict[str, float]) -> Iterator[str]:
    for ratio in RATIOS:
        was, found = accepted.get(ratio.name), now.get(ratio.name)
        if was is None:
            continue
        if found is None:
            yield f"worse: {ratio.name}: {was:.3g} was accepted, now there is none"
            continue
        times = was / found if ratio.higher_is_better else found / was
        if times > TOLERANCE:
            yield f"worse: {ratio.name}: {found:.3g}, accepted {was:.3g} ({times:.2f} times worse, {TOLERANCE} allowed)"
