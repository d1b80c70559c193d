"""The one table: each contestant's median and spread, whatever was lost first, and what the machine did meanwhile."""

import statistics
from collections.abc import Iterator, Sequence
from io import StringIO
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.outcome import MEANINGS, Figure
from bench.results import Found, Run, values

WIDTH = 150
SHOWN = {
    Figure.RATE: "events/s",
    Figure.WRITTEN_RATE: "written/s",
    Figure.SHARE_OF_LIMIT: "of limit",
    Figure.CPU: "CPU-s/M",
    Figure.BROKER_CPU: "broker",
    Figure.SOURCE_CPU: "server",
    Figure.P50: "p50 ms",
    Figure.P90: "p90 ms",
    Figure.P99: "p99 ms",
    Figure.RSS: "RSS MB",
    Figure.WAL_HELD: "WAL MB",
    Figure.KAFKA_BYTES: "Kafka B/event",
}
ONCE = (Figure.START, Figure.RECOVERY, Figure.DOUBLED_BY_KILL)
LIMIT = "pg_recvlogical"


def of(run: Run) -> str:
    written = StringIO()
    console = Console(file=written, width=WIDTH)
    for server in dict.fromkeys(session["server"] for session in run["sessions"]):
        table = Table("what", "contestant", *SHOWN.values(), "lost", title=f"PostgreSQL {server}", expand=False)
        for phase in phases(run, server):
            if phase in ("start", "recovery"):
                continue
            for row in _rows(run, server, phase):
                table.add_row(*row)
            table.add_section()
        console.print(table)
        console.print(_once(run, server))
    console.print("median (lowest … highest of the rounds). " + "; ".join(_meanings()) + ".", style="dim")
    for line in remarks(run):
        console.print(line)
    return written.getvalue()


def phases(run: Run, server: str) -> list[str]:
    sessions = (each for each in run["sessions"] if each["server"] == server)
    return list(dict.fromkeys(phase["name"] for session in sessions for phase in session["phases"]))


def _rows(run: Run, server: str, phase: str) -> Iterator[Sequence[str]]:
    found = values(run, server)
    limit, cpu = of_all(found, phase, Figure.LIMIT_RATE), of_all(found, phase, Figure.LIMIT_CPU)
    if limit:
        yield (phase, LIMIT, spread(limit), "", "1", spread(cpu), *[""] * (len(SHOWN) - 4), "")
    for name, settings in run["contestants"].items():
        shown = [spread(found.get((name, phase, figure), ())) for figure in SHOWN]
        yield (phase, settings["label"], *shown, completeness(run, server, name, phase))


def of_all(found: Found, phase: str, figure: Figure) -> list[float]:
    """Whoever was measured: the limit belongs to no contestant."""
    return [each for (_, of_phase, name), runs in found.items() if (of_phase, name) == (phase, figure) for each in runs]


def completeness(run: Run, server: str, contestant: str, phase: str) -> str:
    found = [each for session in run["sessions"] if (session["server"], session["contestant"]) == (server, contestant)
             for each in session["phases"] if each["name"] == phase]  # fmt: skip
    if not found:
        return "not run"
    lost, overtaken, doubled = (sum(each[name] for each in found) for name in ("lost", "overtaken", "doubled"))
    if any(each["problem"] for each in found) and not lost:
        return "failed"
    more = [f"{doubled:,} twice"] * bool(doubled) + [f"{overtaken:,} out of order"] * bool(overtaken)
    return ", ".join([f"{lost:,}" if lost else "0", *more])


def _once(run: Run, server: str) -> Table:
    table = Table("contestant", *(MEANINGS[each] for each in ONCE), expand=False)
    found = values(run, server)
    for name, settings in run["contestants"].items():
        shown = [spread(found.get((name, phase, figure), ())) for figure in ONCE
                 for phase in (("start",) if figure is Figure.START else ("recovery",))]  # fmt: skip
        table.add_row(settings["label"], *shown)
    return table


def remarks(run: Run) -> Iterator[str]:
    machine = run["machine"]
    yield f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_gb']} GB; {run['size']}, {run['seconds']} s"
    noisy = [f"{session['contestant']} {phase['name']} {phase['others_share']:.0%}"
             for session in run["sessions"] for phase in session["phases"] if phase["is_noisy"]]  # fmt: skip
    if noisy:
        yield f"NOISY: others took more than 5 % of the machine in {len(noisy)} phases ({'; '.join(noisy[:6])} …):"
        yield "read ratios, not absolutes, and believe neither much."
    for session in run["sessions"]:
        if session["problem"]:
            yield f"{session['contestant']}, round {session['round']}: {session['problem']}"
    for name, settings in run["contestants"].items():
        yield f"{name}: " + ", ".join(f"{key} {value}" for key, value in settings.items() if key != "label")


def spread(runs: Sequence[float]) -> str:
    if not runs:
        return "–"
    middle = short(statistics.median(runs))
    return middle if len(runs) == 1 else f"{middle} ({short(min(runs))} … {short(max(runs))})"


def short(value: Any) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _meanings() -> Iterator[str]:
    for figure, name in SHOWN.items():
        yield f"{name}: {MEANINGS[figure]}"
