"""What an event costs as one thing grows: rows a transaction, tables, columns, the frame, lanes, executors, backlog.

    python -m bench.growth [transaction|tables|columns|frame|lanes|executors|backlog …]      QUICK=1: two points each

Tidegate alone, real-time lanes unless an axis says so, each point a session of its own with the same steps as the
comparison. Flat lines are the claim; a line that rises is a limit, and belongs into the sizing page. The result is
bench/results/growth.json.
"""

import json
import logging
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from kit.spark_cluster import spark_home

from bench.contestants.base import Contestant, Rig
from bench.contestants.tidegate import Batch, Realtime
from bench.figures import KEPT, LATEST, QUICK
from bench.figures import Figure as Judged
from bench.outcome import Figure, SessionResult
from bench.session import Session
from bench.source import source_of
from bench.svg import Line, lines
from bench.workloads import Workload, many_tables, narrow, wide
from tidegate.stack.kafka import Kafka
from tidegate.stack.postgres import Postgres
from tidegate.stack.redis import Redis

ROWS = 50_000 if QUICK else 300_000
FIGURES = (Figure.RATE, Figure.CPU, Figure.BROKER_CPU, Figure.SOURCE_CPU, Figure.RSS, Figure.KAFKA_BYTES)
PARTIES = {"services": Figure.CPU, "broker": Figure.BROKER_CPU, "server": Figure.SOURCE_CPU}
EXECUTOR_MB = 1024
WARM_ROWS = 10_000 if QUICK else 50_000
FILE = "growth.json"
FLAT = 1.5
FURTHER_LANE_MB = 210
"""200 MiB."""
WHY_TABLES = """Each table is a topic, and a Kafka transaction pays for each of its topics: librdkafka sends a request
for each, and looks through all topics for each request."""


class OnExecutors(Batch):
    """Executors as processes of their own, each with one writer of the lane; without any, in the driver."""

    executors: ClassVar[int]

    def _document(self, dsn: str) -> dict[str, Any]:
        values = super()._document(dsn)
        if self.executors:
            values["processor"]["master"] = f"local-cluster[{self.executors},1,{EXECUTOR_MB}]"
            values["sinks"][0]["writers"] = self.executors
        return values

    def _environ(self) -> dict[str, str]:
        return super()._environ() | (spark_home(self.rig.folder) if self.executors else {})


class Framed(Realtime):
    frame: ClassVar[str]

    def _document(self, dsn: str) -> dict[str, Any]:
        return {**super()._document(dsn), "raw_topic": {"max_frame": self.frame}}


def _of(contestant: type[Contestant], **settings: Any) -> type[Contestant]:
    return type(contestant.__name__, (contestant,), settings)


def _framed(kib: int) -> type[Contestant]:
    return _of(Framed, frame=f"{kib}KiB")


def _usual(_: int) -> type[Contestant]:
    return Realtime


@dataclass(frozen=True, slots=True)
class Axis:
    name: str
    about: str
    points: tuple[int, ...]
    workload: Callable[[int], Workload]
    contestant: Callable[[int], type[Contestant]] = _usual


AXES = {
    each.name: each
    for each in (
        Axis("transaction", "rows a transaction", (1, 10, 100, 10_000, ROWS), lambda at: narrow(_fewer(at), at)),
        # A table's plan is made once, and is to be no part of what its events cost.
        Axis("tables", "tables", (1, 10, 100, 1_000), lambda at: many_tables(3 * ROWS, at)),
        Axis("columns", "columns", (7, 10, 26, 56), lambda at: wide(max(20_000, ROWS * 10 // at), texts=at - 6)),
        Axis("frame", "KiB a frame", (16, 64, 256, 1024), lambda _: wide(ROWS), _framed),
        Axis("lanes", "lanes", (1, 2, 4), lambda _: wide(ROWS), lambda at: _of(Realtime, lanes=at)),
        Axis("executors", "executors", (0, 1, 2), lambda _: wide(ROWS), lambda at: _of(OnExecutors, executors=at)),
        Axis("backlog", "events", (1_000, 10_000, 100_000, 1_000_000), lambda at: wide(at)),
    )
}


def _fewer(rows_a_transaction: int) -> int:
    """Small transactions are written slowly by the source."""
    return ROWS if rows_a_transaction > 100 else ROWS // 3


def main() -> int:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    chosen = sys.argv[1:] or list(AXES)
    unknown = [name for name in chosen if name not in AXES]
    if unknown:
        print(f"unknown: {', '.join(unknown)}; there are {', '.join(AXES)}", file=sys.stderr)
        return 2
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="tidegate-growth-") as folder:
        base = Path(folder)
        base.chmod(0o755)
        postgres, kafka, redis = Postgres(base / "postgres"), Kafka(base / "kafka"), Redis(base / "redis")
        try:
            for server in (postgres, kafka, redis):
                server.start()
            for name in chosen:
                found[name] = list(_measured(AXES[name], base, postgres, kafka, redis))
        finally:
            for server in (postgres, kafka, redis):
                server.stop()
    target = (LATEST if QUICK else KEPT) / FILE
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps({"rows": ROWS, "axes": found}, indent=1) + "\n")
    for name, points in found.items():
        print("\n".join(_told(AXES[name], points)))
    print(f"written to {target}")
    return 0 if is_sound(found) else 1


def is_sound(found: Mapping[str, Sequence[Mapping[str, Any]]]) -> bool:
    """Whether every point ran to its end and lost nothing."""
    return not any(point["problem"] or not point["figures"] for points in found.values() for point in points)


def _measured(axis: Axis, base: Path, postgres: Postgres, kafka: Kafka, redis: Redis) -> Iterator[dict[str, Any]]:
    points = (axis.points[0], axis.points[-1]) if QUICK else axis.points
    for at in points:
        label = f"g-{axis.name}-{at}"
        rig = Rig(base / label, label, postgres, label, kafka, redis)
        rig.folder.mkdir()
        contestant = axis.contestant(at)(rig)
        measured = replace(axis.workload(at), name=axis.name)
        result = SessionResult(contestant.name, "18", 0)
        with source_of(postgres, label) as source:
            Session(contestant, source, kafka, [measured], [], WARM_ROWS, result, recovers=False).run()
        phases = [phase for phase in result.phases if phase.name == axis.name]
        figures = phases[0].figures if phases else {}
        yield {"at": at, "events": measured.events, "figures": figures, "problem": result.problem,
               "noisy": any(phase.is_noisy for phase in phases)}  # fmt: skip


def _told(axis: Axis, points: Sequence[dict[str, Any]]) -> Iterator[str]:
    yield f"\n{axis.about:>14} " + " ".join(f"{figure:>30}" for figure in FIGURES)
    for point in points:
        shown = " ".join(f"{point['figures'].get(figure, float('nan')):>30,.1f}" for figure in FIGURES)
        yield f"{point['at']:>14,} {shown} {point['problem']}"


def _kept() -> dict[str, list[dict[str, Any]]]:
    """The points of each axis that have figures."""
    file = KEPT / FILE
    axes = json.loads(file.read_text())["axes"] if file.exists() else {}
    return {name: [point for point in points if point["figures"]] for name, points in axes.items()}


def goals() -> list[Judged]:
    """Of the growth run that is kept."""
    axes, judged = _kept(), []
    if tables := [point["figures"][Figure.CPU] for point in axes.get("tables", ())]:
        runs = [max(tables) / min(tables)]
        judged.append(
            Judged("CPU an event from 1 to 1,000 tables, dearest / cheapest", "x", runs, FLAT, why=WHY_TABLES)
        )
    if lanes := [(point["at"], point["figures"][Figure.RSS]) for point in axes.get("lanes", ())]:
        (one, alone), (all_of_them, together) = lanes[0], lanes[-1]
        each = (together - alone) / (all_of_them - one)
        judged.append(Judged("RSS of each further lane", "MB", [each], FURTHER_LANE_MB))
    return judged


def section(plots: Path) -> list[str]:
    """For the page: cost over each axis, from the growth run that is kept."""
    axes = _kept()
    written = ["### What grows with what", ""] if axes else []
    for name, whole in axes.items():
        axis = AXES[name]
        if len(whole) < 2:
            continue
        drawn = [
            Line(label, tuple((point["at"], point["figures"][figure]) for point in whole))
            for label, figure in PARTIES.items()
        ]
        target = plots / f"growth-{name}.svg"
        target.write_text(lines(f"CPU-seconds a million events by {axis.about}", axis.about, "CPU-s a million", drawn))
        written += [f"![Cost by {axis.about}](images/speed/{target.name})", ""]
        written += [f"| {axis.about} | events/s | CPU-s/M | RSS MB |", "| ---: | ---: | ---: | ---: |"]
        for point in whole:
            rate, cpu, rss = (point["figures"][each] for each in (Figure.RATE, Figure.CPU, Figure.RSS))
            written.append(f"| {point['at']:,} | {rate:,.0f} | {cpu:.3g} | {rss:,.0f} |")
        written += ["", *(_beyond(whole) if name == "backlog" else ())]
    return written


def _beyond(points: Sequence[dict[str, Any]]) -> Iterator[str]:
    """A backlog takes a moment to begin and then a time for each event: the line through the two largest."""
    (few, few_seconds), (many, many_seconds) = (
        (point["at"], point["at"] / point["figures"][Figure.RATE]) for point in points[-2:]
    )
    each = (many_seconds - few_seconds) / (many - few)
    said = (f"{at:,} in {(many_seconds + each * (at - many)) / 60:,.1f} minutes" for at in (10**7, 10**8) if at > many)
    yield f"Extrapolated from the two largest, not measured: {', '.join(said)}."
    yield ""


if __name__ == "__main__":
    sys.exit(main())
