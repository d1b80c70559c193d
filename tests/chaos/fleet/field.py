"""The ground of a trial: one pipeline, its load, its oracles, and the barrier at which they are compared.

    load flows ──fault──▶ healed ──▶ load stands ──▶ sentinel arrives, slot confirmed ──▶ everything compared

Invariant: between two barriers nothing is forgotten; after a barrier with a violation the field is not used again.
"""

import os
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import psycopg
import redis
from chaos.fleet.deliveries import Arrived, Deliveries
from chaos.fleet.judge import Evidence, Judge, Violation
from chaos.fleet.kills import Kills
from chaos.fleet.load import Load
from chaos.fleet.mirror import Mirror
from chaos.fleet.raw_watch import RawWatch
from chaos.fleet.rig import SINK, Rig, Servers
from chaos.fleet.rows import Read
from chaos.fleet.sampler import Figures, Sampler
from chaos.fleet.tables import Number
from chaos.fleet.witness import Witness
from kit.wait import DeadlinePassedError, wait

from tidegate.contracts import names
from tidegate.contracts.status import ReaderStatus
from tidegate.lsn import Lsn, parse_lsn

PATIENCE = float(os.environ.get("CHAOS_PATIENCE", "1"))
"""For a machine that does other work meanwhile."""
CATCH_UP_SECONDS = 60.0 * PATIENCE
"""I7."""
FIRST_SECONDS = 180.0 * PATIENCE
"""A fleet that starts has a JVM to boot."""
TRANSACTIONS_A_SECOND = 80.0
_COLLECT_SECONDS = 0.01
READER_BYTES = 256 * 2**20
"""I10, and twice the largest row on top."""


@dataclass(slots=True)
class Outcome:
    violations: list[Violation] = field(default_factory=list)
    recovery_seconds: float = 0.0
    transactions: int = 0
    events: int = 0
    figures: Figures | None = None
    """Of a trial that samples a pipeline of its own."""


class Field:
    def __init__(
        self, servers: Servers, pipeline: str, seed: str, environment: dict[str, str], writers: int = 1
    ) -> None:
        self.servers, self.pipeline = servers, pipeline
        self.rig = Rig(servers, pipeline, environment, writers=writers)
        self.links, self.reader, self.processor = servers.links, self.rig.reader, self.rig.processor
        self.load = Load(self.rig.dsn, seed, transactions_a_second=TRANSACTIONS_A_SECOND)
        self.redis = redis.Redis.from_url(servers.redis.url)
        self.draw = random.Random(seed)
        self.acks_may_vanish = self.may_repeat = False
        self.reads: list[Read] = []
        """What snapshots have read to their ends since the last barrier."""
        self.kills = Kills()
        """Of the trial that is made now."""
        self._collected: list[Arrived] = []
        self._witness = Witness(self.rig.dsn, f"witness_{pipeline}")
        self._deliveries = Deliveries(servers.kafka.bootstrap, pipeline)
        self._raw = RawWatch(servers.kafka.bootstrap, pipeline)
        self._judge = Judge(Mirror(), (SINK,), has_one_writer=writers == 1)
        self._sampler = Sampler(
            dsn=self.rig.dsn,
            redis_url=servers.redis.url,
            bootstrap=servers.kafka.bootstrap,
            pipeline=pipeline,
            partitions=lambda: self._deliveries.partitions,
            processes=self.rig.processes,
        )
        self._sentinels = self._own = 0

    @property
    def figures(self) -> Figures:
        return self._sampler.figures

    @property
    def duplicates(self) -> int:
        return self._judge.duplicates

    def start(self) -> Outcome:
        """The fleet runs, and its first barrier is passed."""
        self.rig.start()
        self._witness.create()
        self._judge.mirror.fill(self.rig.dsn)
        self.load.start()
        self._sampler.start()
        with self.load.flowing():
            self.load.wait_for(20, 30)
        return self.barrier(FIRST_SECONDS)

    def close(self) -> None:
        self.load.stop()
        self._sampler.stop()
        self._deliveries.close()
        self._raw.close()
        self.redis.close()
        self.rig.close()

    def own_id(self) -> int:
        """For rows that a trial itself writes: no writer has such."""
        self._own -= 1
        return self._own

    def collect(self) -> None:
        """What has arrived so far: at the end of a long trial it would take too long to read it all."""
        self._deliveries.discover()
        self._collected += self._deliveries.poll(_COLLECT_SECONDS)

    def reader_status(self) -> ReaderStatus | None:
        value = self.redis.get(names.reader_status_key(self.pipeline))
        return ReaderStatus.decode(value) if isinstance(value, bytes) else None

    def barrier(self, seconds: float = CATCH_UP_SECONDS) -> Outcome:
        """The load stands. Whatever was committed has to arrive now, and to be let go of by the source."""
        begun = time.monotonic()
        outcome = Outcome()
        self._sentinels += 1
        arrived, self._collected = self._collected, []
        try:
            with waiting_for(outcome.violations, "I7", seconds):
                lsn = self._sentinel()
                self._await_sentinel(arrived, seconds)
            outcome.recovery_seconds = time.monotonic() - begun
            if not outcome.violations:
                with waiting_for(outcome.violations, "I9", seconds):
                    wait(lambda: self.rig.confirmed() >= lsn, seconds, "the slot is confirmed up to the sentinel", 0.1)
            arrived += self._deliveries.settle()
            self._compare(outcome, arrived)
        except (psycopg.Error, DeadlinePassedError) as error:
            outcome.violations.append(Violation("I7", f"{type(error).__name__} at the barrier"))
        self.acks_may_vanish = self.may_repeat = False
        return outcome

    def forgive(self) -> None:
        """Whatever was wrong is over: from here on only what comes is judged."""
        wrong = self.barrier()
        if any(violation.invariant in ("I7", "I9") for violation in wrong.violations):
            raise DeadlinePassedError("it does not come back")
        self._judge = Judge(Mirror(), (SINK,), has_one_writer=self._judge.has_one_writer)
        self._judge.mirror.fill(self.rig.dsn)

    def _sentinel(self) -> Lsn:
        with psycopg.connect(self.rig.dsn, autocommit=True) as link:
            link.execute("INSERT INTO sentinel VALUES (%s)", [self._sentinels])
            found = link.execute("SELECT pg_current_wal_lsn()::text").fetchone()
        assert found is not None
        return parse_lsn(found[0])

    def _await_sentinel(self, arrived: list[Arrived], seconds: float) -> None:
        def come() -> bool:
            self._deliveries.discover()
            new = self._deliveries.poll()
            arrived.extend(new)
            return any(
                each.table == "sentinel" and each.event["payload"]["row"]["id"] == Number(str(self._sentinels))
                for each in new
            )

        wait(come, seconds, "the sentinel arrives", 0.02)

    def _compare(self, outcome: Outcome, arrived: list[Arrived]) -> None:
        entries, witnessed = self.load.ledger.take(), self._witness.take()
        evidence = Evidence(
            entries,
            witnessed,
            arrived,
            self._sampler.take(),
            self._deliveries.take_dead(),
            tuple(self.reads),
            self.acks_may_vanish,
        )
        self.reads.clear()
        outcome.transactions, outcome.events = len(witnessed), len(arrived)
        found = self._judge.violations(evidence, self.rig.dsn)
        if self.may_repeat:
            found = [each for each in found if not each.is_repetition]
        outcome.violations += found
        outcome.violations += [Violation("I9", wrong) for wrong in self._raw.wrong()[:3]]
        resident = self._sampler.figures.resident_bytes.get("reader", 0)
        if resident > READER_BYTES:
            outcome.violations.append(Violation("I10", f"the reader holds {resident // 2**20} MiB"))


@contextmanager
def waiting_for(violations: list[Violation], invariant: str, seconds: float) -> Iterator[None]:
    """A condition that does not come true is the violation."""
    try:
        yield
    except DeadlinePassedError as error:
        violations.append(Violation(invariant, str(error).partition(" (last seen")[0]))
    except psycopg.OperationalError:
        violations.append(Violation(invariant, f"the source does not answer within {seconds:.0f} s"))


Fault = Callable[[Field, random.Random], None]
