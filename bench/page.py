"""docs/speed.md and its plots, from the newest run that is kept in bench/results.

    python -m bench.page [--from FILE]

Invariant: no figure on the page was typed by hand; what stands outside the two marks is prose and is left alone.
"""

import argparse
import json
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench import figures, growth, table
from bench.machine import ENOUGH_CORES
from bench.outcome import MEANINGS, Figure
from bench.results import Run, goals, median, newest, values
from bench.svg import Bar, bars
from bench.workloads import NAMES, Workload, kept_workload

DOCS = Path(__file__).resolve().parent.parent / "docs"
PAGE = DOCS / "speed.md"
PLOTS = DOCS / "images" / "speed"
BEGIN, END = "<!-- figures -->", "<!-- /figures -->"
COLOUR_OF = {
    "tidegate_realtime": 0,
    "tidegate_batch": 1,
    "debezium_tuned": 2,
    "debezium_defaults": 3,
    table.LIMIT: 4,
}
OURS, THEIRS = ("tidegate_realtime", "tidegate_batch"), "debezium_tuned"
PARTIES = (Figure.CPU, Figure.BROKER_CPU, Figure.SOURCE_CPU)
BACKLOG = (Figure.RATE, Figure.SHARE_OF_LIMIT, Figure.CPU, Figure.BROKER_CPU, Figure.SOURCE_CPU, Figure.RSS)
LIVE = (Figure.WRITTEN_RATE, Figure.P50, Figure.P90, Figure.P99, Figure.CPU, Figure.RSS, Figure.WAL_HELD)
OTHERS = ("reader", "codec", "snapshot", "admin")
"""Benches that have goals, too."""
ONCE = (Figure.START, Figure.RECOVERY, Figure.DOUBLED_BY_KILL)


def main() -> int:
    parser = argparse.ArgumentParser(description="Write docs/speed.md from a run.")
    parser.add_argument("--from", dest="source", type=Path, help="a file of results; default: the newest kept one")
    source = parser.parse_args().source
    run = json.loads(source.read_text()) if source else newest()
    if run is None:
        print("no run is kept in bench/results: make bench first", file=sys.stderr)
        return 1
    text = PAGE.read_text()
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    PAGE.write_text(f"{head}{BEGIN}\n\n{section(run)}\n{END}{tail}")
    print(f"{PAGE} and {PLOTS}")
    return 0


def section(run: Run) -> str:
    shutil.rmtree(PLOTS, ignore_errors=True)
    PLOTS.mkdir(parents=True)
    lines = [*_head(run), *_promised(run), *_glance(run)]
    for server in dict.fromkeys(session["server"] for session in run["sessions"]):
        for phase in table.phases(run, server):
            if phase not in ("start", "recovery"):
                lines += _phase(run, server, phase)
        lines += [
            f"### Start and recovery, PostgreSQL {server}",
            "",
            *_figures(run, server, ("start", "recovery"), ONCE),
        ]
    lines += growth.section(PLOTS)
    lines += ["### Settings", "", *_settings(run)]
    return "\n".join(lines) + "\n"


def _head(run: Run) -> Iterator[str]:
    machine, software = run["machine"], run["software"]
    yield (
        f"Run of {run['when'][:10]}, size `{run['size']}`, revision `{software['revision']}`, on {machine['cpu']},"
        f" {machine['cores']} cores, {machine['memory_gb']} GB. Kafka {software['kafka']}."
    )
    yield ""
    if run["noisy"]:
        yield (
            "**The machine was not quiet**: in some phases others took more than 5 % of it. Read ratios, not absolutes."
        )
        yield ""
    for session in run["sessions"]:
        if session["problem"]:
            yield f"- {session['contestant']}, round {session['round'] + 1}: {session['problem']}"
    yield ""


def _promised(run: Run) -> Iterator[str]:
    """Every figure that has a goal, of this run and of the other benches' newest; and why those are short that are."""
    measured = [("make bench", "", goals(run)), ("make bench-growth", "", growth.goals())]
    measured += [(f"make bench-{what}", *found) for what in OTHERS if (found := figures.kept(what))]
    yield "### What was promised"
    yield ""
    if run["machine"]["cores"] < ENOUGH_CORES:
        yield f"What was promised for {ENOUGH_CORES} cores and more is left out."
        yield ""
    yield "| figure | measured | spread | promised | |"
    yield "| --- | ---: | ---: | ---: | --- |"
    short = []
    for command, where, judged in measured:
        promised = [each for each in judged if each.goal is not None]
        if promised:
            yield f"| **`{command}`** {where} | | | | |"
        for each in promised:
            yield f"| {' | '.join((each.name, *each.shown))} |"
        short += [each for each in promised if not each.holds]
    yield ""
    yield from (f"- *{each.name}* is short. {' '.join(each.why.split())}" for each in short if each.why)
    yield ""


def _glance(run: Run) -> Iterator[str]:
    """Backlogs on the first server: medians of ours over those of the one that was tuned."""
    found = values(run)
    columns = [(contestant, figure) for figure in (Figure.RATE, Figure.CPU) for contestant in OURS]
    yield "### At a glance"
    yield ""
    yield "Tidegate over Debezium as tuned, medians: events a second, the more the better, and CPU-seconds, the fewer."
    yield ""
    yield "| backlog | events/s, realtime | events/s, batch | CPU, realtime | CPU, batch |"
    yield "| --- | ---: | ---: | ---: | ---: |"
    for phase in NAMES:
        shown = []
        for contestant, figure in columns:
            ours, theirs = (median(found, each, phase, figure) for each in (contestant, THEIRS))
            shown.append(f"{ours / theirs:.2f}" if ours is not None and theirs else "")
        if any(shown):
            yield f"| {phase} | {' | '.join(shown)} |"
    yield ""
    yield f"Where the {run['machine']['cores']} cores are in `wide`, by events a second × CPU-seconds an event:"
    yield ""
    yield "| contestant | its own processes | broker | server | together |"
    yield "| --- | ---: | ---: | ---: | ---: |"
    for name, settings in run["contestants"].items():
        rate, *spent = (median(found, name, "wide", figure) for figure in (Figure.RATE, *PARTIES))
        if rate is not None:
            cores = [rate * (each or 0.0) / 1e6 for each in spent]
            yield f"| {settings['label']} | {' | '.join(f'{each:.2f}' for each in (*cores, sum(cores)))} |"
    yield ""


def _phase(run: Run, server: str, phase: str) -> Iterator[str]:
    is_live = phase.startswith("live")
    about = _workload(run, phase).about if phase in NAMES else "single transactions at a fixed rate"
    yield f"### {phase.capitalize()}, PostgreSQL {server}"
    yield ""
    yield f"{about[0].upper()}{about[1:]}."
    yield ""
    for figure in (Figure.P50, Figure.P99) if is_live else (Figure.RATE, Figure.CPU):
        drawn = list(_bars(run, server, phase, figure))
        if drawn:
            name = f"{server}-{phase}-{figure}.svg".replace(" ", "-").replace("/", "-").replace(",", "")
            (PLOTS / name).write_text(bars(f"{phase}: {figure.replace('_', ' ')}", MEANINGS[figure], drawn))
            yield f"![{phase}, {MEANINGS[figure]}](images/speed/{name})"
            yield ""
    yield from _figures(run, server, (phase,), LIVE if is_live else BACKLOG)


def _workload(run: Run, phase: str) -> Workload:
    phases = (each for session in run["sessions"] for each in session["phases"])
    events = max(each["expected"] for each in phases if each["name"] == phase)
    return kept_workload(phase, events)


def _bars(run: Run, server: str, phase: str, figure: Figure) -> Iterator[Bar]:
    found = values(run, server)
    for name, settings in run["contestants"].items():
        if runs := found.get((name, phase, figure)):
            yield Bar(settings["label"], tuple(runs), COLOUR_OF.get(name, 5))
    limit = [
        each for (_, of, named), runs in found.items() if (of, named) == (phase, Figure.LIMIT_RATE) for each in runs
    ]
    if figure is Figure.RATE and limit:
        yield Bar(f"{table.LIMIT}, the limit", tuple(limit), COLOUR_OF[table.LIMIT])


def _figures(run: Run, server: str, phases: Sequence[str], figures: Sequence[Figure]) -> Iterator[str]:
    found = values(run, server)
    yield "| contestant | " + " | ".join(table.SHOWN.get(each, MEANINGS[each]) for each in figures) + " | lost |"
    yield "| --- | " + "---: | " * len(figures) + "---: |"
    for name, settings in run["contestants"].items():
        shown = []
        for figure in figures:
            runs = [each for phase in phases for each in found.get((name, phase, figure), ())]
            shown.append(table.spread(runs))
        lost = "; ".join(dict.fromkeys(table.completeness(run, server, name, phase) for phase in phases))
        yield f"| {settings['label']} | {' | '.join(shown)} | {lost} |"
    yield ""


def _settings(run: Run) -> Iterator[str]:
    for settings in run["contestants"].values():
        said = ", ".join(f"`{key}` {value}" for key, value in settings.items() if key != "label")
        yield f"- {settings['label']}: {said}"


if __name__ == "__main__":
    sys.exit(main())
