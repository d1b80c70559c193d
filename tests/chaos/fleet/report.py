"""What a run says: a line a trial, a table a case, JSON and HTML. Figures and seeds; logs only of what failed.

Invariant: a case that is not built, or was not run, is in every form of the report, and says so.
"""

import html
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median

from chaos.figures import commit, write_json
from chaos.fleet.cases import Case
from chaos.fleet.kills import Told, back_in_words, in_words, summed
from chaos.fleet.trial import Result, machine
from rich.table import Table

_MEGABYTE = 10**6


@dataclass
class Report:
    folder: Path
    seed: str
    tier: str
    cases: Sequence[Case]
    results: list[Result] = field(default_factory=list)

    @property
    def is_good(self) -> bool:
        return bool(self.results) and all(result.is_good for result in self.results)

    def add(self, result: Result) -> None:
        self.results.append(result)

    def line(self, result: Result, done: int, of: int) -> str:
        said = "ok" if result.is_good else "; ".join([*result.violations, result.error]).strip("; ")
        return (
            f"{done:4}/{of} {result.case} {result.variant:32} {result.seconds:5.1f} s"
            f"  back in {result.recovery_seconds:4.1f} s  {result.events:5} events  {said}{_killed(result.kills)}"
        )

    def killed(self) -> str:
        return "kills: " + in_words(summed(each.kills for each in self.results))

    def rows(self) -> list[dict[str, object]]:
        return [_row(case, [each for each in self.results if each.case == case.number]) for case in self.cases]

    def table(self) -> Table:
        table = Table(title=f"Chaos, {self.tier}, seed {self.seed}")
        for name in ("case", "what", "trials", "broken", "back in s (median, most)", "events", "repeated", "note"):
            table.add_column(name)
        for row in self.rows():
            back = f"{row['recovery_median']}, {row['recovery_most']}" if row["trials"] else ""
            table.add_row(
                *(str(row[name]) for name in ("case", "title", "trials", "broken")),
                back,
                *(str(row[name]) for name in ("events", "repeated", "missing")),
            )
        return table

    def write(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        document = {
            "seed": self.seed,
            "tier": self.tier,
            "commit": commit(),
            "machine": machine(),
            "kills": summed(each.kills for each in self.results),
            "cases": self.rows(),
            "trials": [asdict(result) for result in self.results],
        }
        write_json(self.folder / "report.json", document)
        (self.folder / "report.html").write_text(self._page())

    def _page(self) -> str:
        rows = self.rows()
        head = "".join(f"<th>{html.escape(name)}</th>" for name in rows[0])
        body = "".join(
            f'<tr class="{"bad" if row["broken"] else ""}">'
            + "".join(f"<td>{html.escape(str(value))}</td>" for value in row.values())
            + "</tr>"
            for row in rows
        )
        failed = "".join(
            f"<li><code>{html.escape(each.seed)}</code> {html.escape('; '.join([*each.violations, each.error]))}</li>"
            for each in self.results
            if not each.is_good
        )
        return (
            "<!doctype html><meta charset=utf-8><title>Chaos</title><style>body{font:15px system-ui;margin:2rem}"
            "td,th{padding:.2rem .6rem;text-align:left;border-bottom:1px solid #ddd}.bad{background:#fdd}</style>"
            f"<h1>Chaos, {html.escape(self.tier)}</h1><p>Seed {html.escape(self.seed)}, {html.escape(machine())}</p>"
            f"<p>{html.escape(self.killed())}</p>"
            f"<table><tr>{head}</tr>{body}</table><h2>Broken</h2><ul>{failed or '<li>nothing</li>'}</ul>"
        )


def _row(case: Case, results: Sequence[Result]) -> dict[str, object]:
    back = [each.recovery_seconds for each in results if each.is_good]
    return {
        "case": case.number,
        "title": case.title,
        "invariants": case.invariants,
        "trials": len(results),
        "broken": sum(not each.is_good for each in results),
        "recovery_median": round(median(back), 1) if back else 0,
        "recovery_most": round(max(back), 1) if back else 0,
        "transactions": sum(each.transactions for each in results),
        "events": sum(each.events for each in results),
        "repeated": sum(each.duplicates for each in results),
        "kills": in_words(summed(each.kills for each in results)),
        "held_mb": max((each.held_bytes for each in results), default=0) // _MEGABYTE,
        "reader_mb": max((each.reader_bytes for each in results), default=0) // _MEGABYTE,
        "missing": _missing(case, results),
    }


def _killed(told: Told) -> str:
    """Of a storm, how long it took to come back each time."""
    storms = [
        f"{of['kills']} kills of {kind}: {back_in_words(of)} s" for kind, of in told.items() if of["back_seconds"]
    ]
    return "".join(f"  ({each})" for each in storms)


def _missing(case: Case, results: Sequence[Result]) -> str:
    parts = ["not run"] if case.variants and not results else []
    lacking = sorted({variant.lacks for variant in case.variants if variant.lacks})
    parts += [f"not here, for this machine has {what}" for what in lacking]
    if case.missing:
        parts.append(f"{'without' if case.variants else 'not built here'}: {case.missing}")
    return "; ".join(parts)
