"""The whole way of rows that were there before: from the source to a topic of events, for whoever can do it.

    start ─▶ first look at the table, at the source ─▶ … ─▶ last row readable in its topic, by read-committed consumers
    └ `seconds` ───────────────────────────────────────────┘
             └ `reading` ──────────────────────────────────┘

`seconds` is what somebody waits who has nothing running. `reading` leaves out what starts once: Connect looks at the
table when its JVM is up, and in a session of its own Tidegate's reader is started when its processor is up.

Invariant: speed is told of a topic that has every row, as one that was read, and of nothing else.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar

import orjson
import psycopg
from kit.wait import wait

from bench.contestants import debezium, tidegate
from bench.contestants.base import Contestant, ContestantError, Rig
from bench.figures import QUICK, Figure
from bench.machine import CORES, ENOUGH_CORES
from bench.measure.consumer import Reading, delete_topics, make_topics
from bench.measure.ends import Ends
from bench.measure.watch import Spent, Watch
from tidegate.config.sinks import Trigger

TABLE = "wide"
WHY_START = "Spark and the lane need five seconds until the first row, however large the table is."
WHY_BATCH = "While Spark plans and ends a micro-batch, nothing is decoded."
START_SECONDS = 120.0
STANDS_SECONDS = 60.0
"""Without a new row: it will not come any more."""
_READ = b'"op":"r"'
_LOOKS_AT_IT = f"""SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
AND state = 'active' AND query ~ '(SELECT|COPY).* FROM .*{TABLE}'"""
_THREADS = (
    {"snapshot.max.threads": str(CORES // 2), "snapshot.max.threads.multiplier": "25"} if CORES >= ENOUGH_CORES else {}
)


class Defaults(debezium.Defaults):
    tuning: ClassVar[Mapping[str, str]] = {"snapshot.mode": "initial_only", "table.include.list": f"public.{TABLE}"}


class Tuned(debezium.Tuned):
    """What its configuration has for initial snapshots: more rows a fetch, batches that fill, and where cores allow
    pieces of a table side by side. On two cores that took it from 95,000 rows a second to 65,000; and a thread has a
    whole piece in memory, so that a large table needs many for each."""

    tuning: ClassVar[Mapping[str, str]] = {
        **Defaults.tuning,
        **debezium.Tuned.tuning,
        **_THREADS,
        "snapshot.fetch.size": "50000",
        "producer.override.linger.ms": "10",
    }


class Tidegate(tidegate.Tidegate):
    name: ClassVar[str] = "tidegate"
    label: ClassVar[str] = "Tidegate"
    trigger: ClassVar[Trigger] = Trigger.REALTIME

    def _document(self, dsn: str) -> dict[str, Any]:
        return {**super()._document(dsn), "snapshot": {"mode": "initial"}}

    def start(self) -> None:
        if self.processor.pid is None:
            self.processor.start()
        self.reader.start()

    def start_processor(self) -> None:
        """Until all that is missing is a topic."""
        self.processor.start()
        log = self.rig.folder / "tidegate-processor.log"

        def is_warm() -> bool:
            self.processor.check()
            return "session_warm" in log.read_text(errors="replace")

        wait(is_warm, START_SECONDS, "the processor waits for a topic")


class Batch(Tidegate):
    name: ClassVar[str] = "tidegate_batch"
    label: ClassVar[str] = "Tidegate, batch"
    trigger: ClassVar[Trigger] = Trigger.BATCH


PEERS: tuple[type[Contestant], ...] = (Tuned,) if QUICK else (Tuned, Defaults)
OURS: tuple[type[Tidegate], ...] = (Tidegate,) if QUICK else (Tidegate, Batch)
GOAL = 5.0
"""Times the speed of a peer's initial snapshot."""


@dataclass(frozen=True, slots=True)
class Arrived:
    seconds: float
    reading: float
    spent: Spent


@dataclass(frozen=True, slots=True)
class Kind:
    """Who, and whether what starts once has been started before the clock is."""

    contestant: type[Contestant]
    is_warm: bool = False

    @property
    def label(self) -> str:
        return f"{self.contestant.label}, processor up" if self.is_warm else self.contestant.label

    @property
    def name(self) -> str:
        return f"{self.contestant.name}{'_up' if self.is_warm else ''}".replace("_", "-")

    @property
    def settings(self) -> str:
        described = {**self.contestant.versions(), **self.contestant.settings()}
        return ", ".join(f"{name}: {value}" for name, value in described.items())


def kinds() -> list[Kind]:
    return [*map(Kind, (PEERS[0], *OURS)), *(Kind(each, is_warm=True) for each in OURS), *map(Kind, PEERS[1:])]


def figures_of(runs: Mapping[Kind, Sequence[Arrived]], rows: int) -> Iterator[Figure]:
    for kind, arrived in runs.items():
        if not kind.is_warm:
            yield Figure(f"{kind.label}: start to last row, rows a second", "/s", [rows / a.seconds for a in arrived])
        yield Figure(f"{kind.label}: first look to last row, rows a second", "/s", [rows / a.reading for a in arrived])
        yield Figure(f"{kind.label}: CPU", "s", [each.spent.contestant_cpu for each in arrived])
        yield Figure(f"{kind.label}: highest RSS of all its processes", "MB", [a.spent.rss_peak_mb for a in arrived])
    for peer in (kind for kind in runs if kind.contestant in PEERS):
        for ours in (kind for kind in runs if kind.contestant in OURS):
            pairs = list(zip(runs[peer], runs[ours], strict=True))
            ratios = [b.reading / a.reading if ours.is_warm else b.seconds / a.seconds for b, a in pairs]
            since = "from the first look" if ours.is_warm else "from the start"
            why = WHY_START if not ours.is_warm else WHY_BATCH if ours.contestant is Batch else ""
            yield Figure(f"{ours.label}, of {peer.label}: {since}", "x", ratios, GOAL, at_least=True, why=why)


def measure(rig: Rig, kind: Kind, rows: int) -> Arrived:
    topic = rig.topic(TABLE)
    rig.folder.mkdir()
    contestant = kind.contestant(rig)
    make_topics(rig.kafka.bootstrap, [topic])
    ends, postgres = Ends(rig.kafka.bootstrap, [topic]), rig.postgres
    wanted = ends.total() + rows
    try:
        if kind.is_warm:
            assert isinstance(contestant, Tidegate)
            contestant.start_processor()
        with Watch(contestant.pids, rig.kafka.pid or 0, postgres.pid or 0) as watch:
            begun = time.monotonic()
            contestant.start()
            looked = first_look(postgres.dsn(rig.database), contestant)
            stood = ends.stood(wanted, watch.mark, contestant.check, STANDS_SECONDS)
            spent = watch.end()
        check_rows(rig, topic, rows, contestant)
        ends.check_still(stood)
        contestant.stop()
        return Arrived(spent.seconds, spent.seconds - (looked - begun), spent)
    finally:
        contestant.kill()
        _drop_slot(rig)
        delete_topics(rig.kafka.bootstrap, contestant.topics())


def first_look(dsn: str, contestant: Contestant) -> float:
    with psycopg.connect(dsn, autocommit=True) as source:

        def looks() -> bool:
            contestant.check()
            [(found,)] = source.execute(_LOOKS_AT_IT.encode())
            return bool(found)

        wait(looks, START_SECONDS, "the table is looked at", every_seconds=0.01)
        return time.monotonic()


def check_rows(rig: Rig, topic: str, rows: int, contestant: Contestant) -> None:
    """Every row has to be there, as one that was read; the table's keys run from 1."""
    reading = Reading(rig.kafka.bootstrap, [topic], alive=contestant.check)
    seen, distinct = bytearray(rows + 1), 0
    try:
        for events in reading.arrived(STANDS_SECONDS):
            for event in events:
                if event.key() is None:  # where the snapshot of the table begins and ends
                    continue
                key = int(orjson.loads(event.key())["id"])
                if _READ not in event.value():
                    raise ContestantError(f"{topic}: row {key} is told as something else")
                if not seen[key]:
                    seen[key], distinct = 1, distinct + 1
            if distinct == rows:
                return
    finally:
        reading.close()
    raise ContestantError(f"{topic}: {rows - distinct:,} of {rows:,} rows are missing")


def _drop_slot(rig: Rig) -> None:
    with psycopg.connect(rig.postgres.dsn(rig.database), autocommit=True) as source:
        query = "SELECT active_pid FROM pg_replication_slots WHERE slot_name = %s"
        for (pid,) in source.execute(query, [rig.slot]).fetchall():
            with suppress(psycopg.errors.UndefinedObject):
                if pid is not None:
                    source.execute("SELECT pg_terminate_backend(%s, 10000)", [pid])
                source.execute("SELECT pg_drop_replication_slot(%s)", [rig.slot])
