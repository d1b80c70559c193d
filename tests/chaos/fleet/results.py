"""The figures of all runs that count, in one file that is committed, and the page that is written from it.

    python -m chaos.fleet.results add .chaos/report.json …     takes runs in (report.json, teeth.json, simulator.json)
    python -m chaos.fleet.results page                         writes docs/operations/verification.md

Invariant: the page says nothing that the file does not; a case without trials is on it, with its reason.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from chaos.figures import write_json
from chaos.fleet.kills import Told, back_in_words, in_words, summed
from chaos.fleet.matrix import MATRIX
from chaos.fleet.plants import PLANTS

ROOT = Path(__file__).resolve().parents[3]
FILE = ROOT / "tests" / "chaos" / "results" / "verification.json"
PAGE = ROOT / "docs" / "operations" / "verification.md"
TEXT = Path(__file__).with_name("verification.head.md")
_TEETH = (
    "Each bug was planted in a running service, and the trials were not told. No generation check is caught by the"
    " simulator (`make simulate ARGS=--teeth`): here a slot made anew shows its gap as well. A forgotten relation of a"
    " streamed transaction has nothing to be planted in: streaming has not landed. A row that can't be decoded goes the"
    " way of one that the sink refuses: to skip it is planted there."
)
_FOUND = (
    "A run in which something broke is not counted here: what it found was mended at its cause, is kept by name in"
    " `tests/chaos/simulator/regressions.json`, and the same seeds were run again."
)
_MENDED = (
    "Runs in which a trial broke are not counted either: the cause was mended, in the product or the"
    " harness, and the case was run again."
)
_SUMS = ("transactions", "events", "duplicates")


def add(results: dict[str, Any], report: dict[str, Any]) -> None:
    if "bites" in report:
        kept = {bite["plant"]: bite for bite in results.get("teeth", ())}
        results["teeth"] = list((kept | {bite["plant"]: bite for bite in report["bites"]}).values())
        return
    if "simulator" in report:
        results.setdefault("simulator", []).append(report["simulator"])
        return
    results.setdefault("runs", []).append({key: report[key] for key in ("seed", "tier", "commit", "machine")})
    kills = [results.get("kills", {}), *(trial.get("kills", {}) for trial in report["trials"])]
    results["kills"] = summed(kills)
    for trial in report["trials"]:
        row = results.setdefault("variants", {}).setdefault(f"{trial['case']} {trial['variant']}", _empty())
        row["trials"] += 1
        row["broken"] += bool(trial["violations"] or trial["error"])
        for name in _SUMS:
            row[name] += trial[name]
        if not (trial["violations"] or trial["error"]):
            row["recoveries"].append(trial["recovery_seconds"])
        row["held_mb"] = max(row["held_mb"], trial["held_bytes"] // 10**6)
        row["reader_mb"] = max(row["reader_mb"], trial["reader_bytes"] // 10**6)


def _empty() -> dict[str, Any]:
    return {"trials": 0, "broken": 0, **dict.fromkeys(_SUMS, 0), "recoveries": [], "held_mb": 0, "reader_mb": 0}


def page(results: dict[str, Any]) -> str:
    rows = list(results.get("variants", {}).values())
    lines = [
        TEXT.read_text().rstrip(),
        "",
        "## The simulator",
        "",
        _simulated(results.get("simulator", ())),
        "",
        "## The fleet",
        "",
        "Timings were taken on a busy machine of two cores and are provisional.",
        "",
        _summary(results, rows),
        "",
        *_killed(results.get("kills", {})),
        "| case | fault | trials | broken | back in s: median, most | events | most WAL held, MB | reader, MB |",
        "| --- | --- | ---: | ---: | --- | ---: | ---: | ---: |",
    ]  # fmt: skip
    for case in MATRIX:
        for variant in case.variants:
            row = results.get("variants", {}).get(f"{case.number} {variant.name}")
            lines.append(_line(case.number, variant.name, row))
    lines += ["", "## What is not tried here", ""]
    lines += ["| case | what it is about | what of it is not tried, or where it is |", "| --- | --- | --- |"]
    lines += [f"| {case.number} | {case.title} | {case.missing} |" for case in MATRIX if case.missing]
    lines += ["", "## Teeth", "", _TEETH, ""]
    lines += ["| planted bug | trials | caught as |", "| --- | ---: | --- |"]
    tried = {bite["plant"]: bite for bite in results.get("teeth", ())}
    for name in PLANTS:
        bite = tried.get(name, {"trials": 0, "caught": "not run"})
        lines.append(f"| {name} | {bite['trials']} | {bite['caught'] or '**never**'} |")
    return "\n".join(lines) + "\n"


def _simulated(runs: Sequence[dict[str, Any]]) -> str:
    """Each run has seeds of its own."""
    total = {name: sum(run[name] for run in runs) for name in ("seeds", "steps", "faults", "transactions", "events")}
    broken = sum(len(seeds) for run in runs for seeds in run["broken"].values())
    where = ", ".join(f"{run['first']}–{run['first'] + run['seeds'] - 1} at {run['commit']}" for run in runs)
    return (
        f"**{total['seeds']:,} seeds, {broken} broken**: {total['steps']:,} steps, {total['faults']:,} faults,"
        f" {total['transactions']:,} transactions, {total['events']:,} events. Seeds {where or 'none'}. {_FOUND}"
    )


def _summary(results: dict[str, Any], rows: list[dict[str, Any]]) -> str:
    trials, broken = sum(row["trials"] for row in rows), sum(row["broken"] for row in rows)
    transactions, events = sum(row["transactions"] for row in rows), sum(row["events"] for row in rows)
    repeated, runs = sum(row["duplicates"] for row in rows), len(results.get("runs", ()))
    return (
        f"**{trials} trials, {broken} broken**, in {runs} runs: {transactions:,} transactions, {events:,} events,"
        f" {repeated} of them came twice. {_MENDED} No failure in N trials means, at 95 %, a rate below 3/N."
    )


def _killed(told: Told) -> list[str]:
    """Times are of storms, where coming back is waited for after each kill."""
    if not told:
        return []
    rows = [f"| {kind} | {of['kills']} | {back_in_words(of)} |" for kind, of in told.items()]
    return [
        f"**Kills with SIGKILL: {in_words(told)}**, counted since kinds are told apart. After a kill the fleet is"
        " back when something that was committed since has been delivered and confirmed; in a storm the next kill waits"
        " for that.",
        "",
        "| killed | times | back in s: median, most |",
        "| --- | ---: | --- |",
        *rows,
        "",
    ]


def _line(case: str, variant: str, row: dict[str, Any] | None) -> str:
    if row is None:
        return f"| {case} | {variant} | 0 | | not run | | | |"
    back = row["recoveries"]
    said = f"{median(back):.1f}, {max(back):.1f}" if back else ""
    return (
        f"| {case} | {variant} | {row['trials']} | {row['broken']} | {said} | {row['events']:,} | {row['held_mb']} |"
        f" {row['reader_mb']} |"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description="Figures of verification.")
    parser.add_argument("do", choices=("add", "page"))
    parser.add_argument("reports", nargs="*", type=Path)
    asked = parser.parse_args()
    results = json.loads(FILE.read_text()) if FILE.exists() else {}
    for report in asked.reports:
        add(results, json.loads(report.read_text()))
    if asked.reports:
        write_json(FILE, results)
    PAGE.write_text(page(results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
