"""A run as it is kept: bench/results/<when>-<size>.json, one file a run, with the machine and every setting.

Invariant: a file says by itself what was measured, on what, by which versions, and whether the machine was quiet.
"""

import json
import platform
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bench.figures import KEPT, LATEST, tell
from bench.figures import Figure as Judged
from bench.machine import ENOUGH_CORES, machine, now, revision
from bench.outcome import Figure, SessionResult

SCHEMA = 1

Run = dict[str, Any]
Found = dict[tuple[str, str, str], list[float]]
"""(contestant, phase, figure) → one value a round."""


def gathered(
    sessions: Sequence[SessionResult], size: str, seconds: float, settings: Mapping[str, Mapping[str, str]]
) -> Run:
    return {
        "schema": SCHEMA,
        "when": now(),
        "size": size,
        "seconds": round(seconds),
        "machine": machine(),
        "software": _software(),
        "contestants": settings,
        "noisy": any(phase.is_noisy for session in sessions for phase in session.phases),
        "sessions": [asdict(session) for session in sessions],
    }


def write_so_far(run: Run) -> Path:
    """After each session, for a run may be long."""
    LATEST.mkdir(parents=True, exist_ok=True)
    target = LATEST / f"compare-{run['size']}.json"
    target.write_text(_text(run))
    return target


def write(run: Run) -> Path:
    """Quick runs are kept for the moment only."""
    if judged := goals(run):
        tell("pipeline", judged)
    if run["size"] == "quick":
        return write_so_far(run)
    kept = KEPT / f"{run['when'].replace(':', '')}-{run['size']}.json"
    kept.write_text(_text(run))
    return kept


def _text(run: Run) -> str:
    return json.dumps(run, indent=1) + "\n"


def newest() -> Run | None:
    found = sorted(KEPT.glob("2*.json"))
    return json.loads(found[-1].read_text()) if found else None


def is_sound(run: Run) -> bool:
    """Whether all of Tidegate ran, and lost nothing."""
    ours = [each for each in run["sessions"] if each["contestant"].startswith("tidegate")]
    return not any(session["problem"] or any(phase["lost"] for phase in session["phases"]) for session in ours)


def values(run: Run, server: str = "") -> Found:
    """Of the server named, else of the first there is."""
    server = server or run["sessions"][0]["server"]
    found: Found = defaultdict(list)
    for session in run["sessions"]:
        if session["server"] != server:
            continue
        for phase in session["phases"]:
            for name, value in phase["figures"].items():
                found[session["contestant"], phase["name"], name].append(value)
    return dict(found)


def median(found: Found, contestant: str, phase: str, figure: str) -> float | None:
    runs = found.get((contestant, phase, figure))
    return statistics.median(runs) if runs else None


def goals(run: Run) -> list[Judged]:
    """What was promised, in the form of all benches."""
    return [each for each in _goals(values(run), run["machine"]["cores"]) if each.runs]


def _goals(found: Found, cores: int) -> list[Judged]:
    def runs(contestant: str, phase: str, figure: Figure) -> Sequence[float]:
        return found.get((contestant, phase, figure), ())

    def ratio(phase: str, figure: Figure) -> list[float]:
        ours, theirs = runs("tidegate_realtime", phase, figure), runs("debezium_tuned", phase, figure)
        return [mine / statistics.median(theirs) for mine in ours] if theirs else []

    live, ours = "live 200/s", "tidegate_realtime"
    limit = 0.8 if cores >= ENOUGH_CORES else None
    return [
        Judged("backlog, events/s over Debezium's (tuned)", "x", ratio("wide", Figure.RATE), 4, True),
        Judged("backlog, CPU a million over Debezium's (tuned)", "x", ratio("wide", Figure.CPU), 0.25),
        Judged("backlog, share of pg_recvlogical", "x", runs(ours, "wide", Figure.SHARE_OF_LIMIT), limit, True),
        Judged("200 tx/s, realtime, p50", "ms", runs(ours, live, Figure.P50), 20),
        Judged("200 tx/s, realtime, p99", "ms", runs(ours, live, Figure.P99), 60),
        Judged("200 tx/s, batch, p50", "ms", runs("tidegate_batch", live, Figure.P50), 150),
        Judged("10,000 events/s, realtime, p99", "ms", runs(ours, "live 100/s of 100", Figure.P99), 250),
        Judged("highest RSS, reader and processor", "MB", runs(ours, "wide", Figure.RSS), 1_396),
        Judged("start to the first event", "s", runs(ours, "start", Figure.START), 15),
        Judged("kill -9 to the first new event", "s", runs(ours, "recovery", Figure.RECOVERY)),
    ]


def _software() -> dict[str, str]:
    return {"revision": revision(), "python": platform.python_version(), "tidegate": version("tidegate"),
            "kafka": "4.3.1, one embedded broker, -Xmx512m, serial collector"}  # fmt: skip
