"""M30, M43 alone: a pipeline for tables of an extreme shape, or with little memory. Somebody dies while it delivers.

    made ─▶ services ─▶ written ─▶ one is killed ─▶ changed ─▶ sentinel arrives, slot confirmed ─▶ source = topics

Invariant: what is delivered is taken while it comes and compared by hashes, so the trial itself needs little room; what
the services need is sampled all the time (I10).
"""

import random
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass

import psycopg
from chaos.fleet import kin
from chaos.fleet.cases import Alone, Tier
from chaos.fleet.deliveries import Arrived, Deliveries
from chaos.fleet.field import FIRST_SECONDS, PATIENCE, READER_BYTES, Outcome
from chaos.fleet.judge import Evidence, Judge, Violation
from chaos.fleet.mirror import Mirror
from chaos.fleet.rig import SINK, Rig, Servers
from chaos.fleet.sampler import Figures, Sampler
from chaos.fleet.shapes import Shape, Step
from chaos.fleet.shown import Shown
from kit.wait import wait

from tidegate.lsn import parse_lsn

_SENTINEL = -1_000_000
NO_LIMITS: Mapping[str, int] = {}
BY_DEFAULT: Mapping[str, object] = {}
_AT_ONCE = 200
"""Events that are parsed at a time: a wide one takes half a megabyte then."""


@dataclass
class _Ground:
    rig: Rig
    shape: Shape
    deliveries: Deliveries
    sampler: Sampler
    shown: Shown

    @property
    def changes(self) -> int:
        """With the sentinel."""
        return 1 + sum(step.changes for step in (*self.shape.written, *self.shape.changed))

    def write(self, steps: Iterable[Step]) -> None:
        with psycopg.connect(self.rig.dsn, autocommit=True) as link:
            for step in steps:
                link.execute(step.sql.encode())
                self.take()

    def take(self) -> None:
        self.deliveries.discover()
        self._show(self.deliveries.poll(0.02))

    def settle(self) -> None:
        self._show(self.deliveries.settle())

    def taking(self, condition: Callable[[], bool], what: str) -> None:
        """Waits, and takes what arrives meanwhile."""

        def is_met() -> bool:
            self.take()
            return condition()

        wait(is_met, (FIRST_SECONDS + self.changes / self.shape.least_a_second) * PATIENCE, what, every_seconds=0)

    def _show(self, arrived: Iterable[Arrived]) -> None:
        """Of the shape's tables: others are written to by nobody, but for what they were made with."""
        for each in arrived:
            if each.table in self.shape.names:
                self.shown.take(each)


def trial(
    made: Callable[[], Shape], limits: Mapping[str, int] = NO_LIMITS, settings: Mapping[str, object] = BY_DEFAULT
) -> Alone:
    """`limits` are of the memory of each service, in bytes."""
    shape = made()

    def run(rig: Rig, servers: Servers, _tier: Tier, draw: random.Random) -> Outcome:
        for name, most_bytes in limits.items():
            rig.limit_memory(getattr(rig, name), most_bytes)
        deliveries = Deliveries(servers.kafka.bootstrap, rig.pipeline, at_once=_AT_ONCE)
        sampler = Sampler(
            dsn=rig.dsn,
            redis_url=servers.redis.url,
            bootstrap=servers.kafka.bootstrap,
            pipeline=rig.pipeline,
            partitions=tuple,
            processes=lambda: kin.by_name(rig.processes()),
        )
        with closing(deliveries):
            try:
                return _tried(_Ground(rig, shape, deliveries, sampler, Shown()), draw)
            finally:
                sampler.stop()

    return Alone(run, lambda _tier: settings, shape.options)


def _tried(ground: _Ground, draw: random.Random) -> Outcome:
    rig, shape = ground.rig, ground.shape
    for statement in shape.made:
        rig.sql(statement)
    rig.start()
    ground.sampler.start()
    ground.write(shape.written)
    wanted = draw.randrange(sum(step.changes for step in shape.written))
    ground.taking(lambda: ground.shown.events >= wanted, f"I7: {wanted} of the changes arrive")
    draw.choice((rig.reader, rig.processor)).kill()
    ground.write(shape.changed)
    begun = time.monotonic()
    lsn = _sentinel(ground)
    ground.taking(lambda: rig.confirmed() >= lsn, "I9: the slot is confirmed up to the sentinel")
    ground.settle()
    outcome = Outcome(recovery_seconds=time.monotonic() - begun, events=ground.shown.events)
    outcome.transactions = len(shape.written) + len(shape.changed) + 1
    outcome.figures = ground.sampler.figures
    outcome.figures.resident_bytes |= {f"{of}, limited": limit.peak_bytes for of, limit in rig.limits.items()}
    outcome.violations += _judged(ground)
    return outcome


def _sentinel(ground: _Ground) -> int:
    """In the first table, behind all else."""
    table = ground.shape.tables[0]
    ground.rig.sql(f"INSERT INTO {table} (id) VALUES ({_SENTINEL})")
    lsn = parse_lsn(ground.rig.sql("SELECT pg_current_wal_lsn()::text")[0][0])
    ground.taking(lambda: ground.shown.holds(table, _SENTINEL), "I7: the sentinel arrives")
    return lsn


def _judged(ground: _Ground) -> list[Violation]:
    samples = Evidence((), (), (), ground.sampler.take(), ground.deliveries.take_dead())
    found = ground.shown.wrong + ground.shown.differences(ground.rig.dsn, ground.shape.tables)
    found += Judge(Mirror(), (SINK,)).sampled(samples)
    if ground.shown.events != ground.changes:
        found.append(Violation("I1", f"{ground.shown.events} events of {ground.changes} changes"))
    if samples.dead:
        found.append(Violation("I1", f"{len(samples.dead)} changes are dead letters: {samples.dead[0].code}"))
    found += [
        Violation("I10", f"{limit.killed} processes of the {of} were killed for want of memory")
        for of, limit in ground.rig.limits.items()
        if limit.killed
    ]
    return found + _too_large(ground.sampler.figures)


def _too_large(figures: Figures) -> list[Violation]:
    limits = {"reader": READER_BYTES, "jvm": kin.JVM_BYTES, "worker": kin.WORKER_BYTES}
    return [
        Violation("I10", f"the {name} holds {figures.resident_bytes[name] // 2**20} MiB")
        for name, limit in limits.items()
        if figures.resident_bytes.get(name, 0) > limit
    ]
