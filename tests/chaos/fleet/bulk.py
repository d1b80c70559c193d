"""M16 alone: a large table is read for a new pipeline while eight writers change it, and all who take part die in turn.

    filled ─▶ writers ─▶ open transaction ─▶ services ─▶ its wait is told, it ends ─▶ ten kills ─▶ read ─▶ sentinel
                                                                                              source = topic ◀┘

Invariant: the pipeline is its own, for only who makes the slot reads the table before the stream.
"""

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import psycopg
import redis
from chaos.fleet.asking import Asking
from chaos.fleet.cases import Tier
from chaos.fleet.deliveries import Deliveries
from chaos.fleet.field import FIRST_SECONDS, PATIENCE, Outcome
from chaos.fleet.judge import Violation
from chaos.fleet.rig import Rig, Servers
from chaos.fleet.stock import FILL, SCHEMA, WRITERS, Copy, Writer
from kit.wait import wait

from tidegate.contracts.snapshot_status import SnapshotState

ROWS = {Tier.QUICK: 20_000, Tier.NIGHTLY: 500_000, Tier.RELEASE: 5_000_000}
_KILLS = 10
_LEAST_SECONDS = 15
"""A snapshot goes no faster than that, so that there is time to die in."""
_ROWS_A_SECOND_AT_LEAST = 1_000
"""Else it stands still."""
_WAIT_TOLD_SECONDS = 60.0
_TOLD = "slot_waits"


@dataclass
class Bulk:
    rig: Rig
    rows: int
    asking: Asking
    deliveries: Deliveries
    copy: Copy

    @property
    def seconds(self) -> float:
        """That a part of it may take."""
        return (FIRST_SECONDS + self.rows / _ROWS_A_SECOND_AT_LEAST) * PATIENCE

    def take(self) -> None:
        self.deliveries.discover()
        for arrived in self.deliveries.poll(0.02):
            self.copy.take(arrived)

    @property
    def percent(self) -> float:
        status = self.asking.newest()
        return 0.0 if status is None else 100.0 if status.state is SnapshotState.DONE else status.percent

    def taking(self, condition: Callable[[], bool], what: str) -> None:
        """Waits, and takes what arrives meanwhile."""

        def is_met() -> bool:
            self.take()
            return condition()

        wait(is_met, self.seconds, what, 0.05)


def read_under_kills(rig: Rig, servers: Servers, tier: Tier, draw: random.Random) -> Outcome:
    rows, outcome = ROWS[tier], Outcome()
    rig.sql(SCHEMA)
    rig.sql(FILL, rows)
    client = redis.Redis.from_url(servers.redis.url)
    deliveries = Deliveries(servers.kafka.bootstrap, rig.pipeline)
    bulk = Bulk(rig, rows, Asking(client, rig.pipeline, FIRST_SECONDS), deliveries, Copy())
    try:
        with _writing(rig.dsn, str(draw.random())) as writers:
            _start(bulk, draw)
            for kill, percent in _kills(draw):
                bulk.taking(lambda least=percent: bulk.percent >= least, f"{percent:.0f} % are read")  # type: ignore[misc]
                kill(bulk, servers)
            begun = time.monotonic()
            bulk.taking(lambda: bulk.percent >= 100, "I7: the table is read")
        outcome.transactions = sum(each.committed for each in writers)
        _sentinel(bulk)
        outcome.recovery_seconds = time.monotonic() - begun
        bulk.copy.compare(rig.dsn)
    finally:
        deliveries.close()
        client.close()
    outcome.events = bulk.copy.rows + bulk.copy.changes
    outcome.violations += [Violation(invariant, what) for invariant, what in bulk.copy.wrong]
    return outcome


def settings(tier: Tier) -> Mapping[str, object]:
    return {
        "snapshot": {"mode": "initial", "transaction": "500ms", "max_rows_per_second": ROWS[tier] // _LEAST_SECONDS},
        "raw_topic": {"max_frame": "64KiB"},
    }


def _start(bulk: Bulk, draw: random.Random) -> None:
    """The slot can't be made before who writes now has ended; somebody has to be told whom it waits for."""
    rig = bulk.rig
    with psycopg.connect(rig.dsn) as long:
        long.execute("INSERT INTO stock (note) VALUES ('long')")
        rig.processor.start()
        rig.reader.start()
        pid = long.info.backend_pid
        wait(lambda: _tells(rig, pid), _WAIT_TOLD_SECONDS * PATIENCE, "I9: it is told whom the slot waits for")
        if draw.random() < 0.5:
            long.commit()
        else:
            long.rollback()
    wait(lambda: rig.confirmed() > 0, bulk.seconds, "the reader has made its slot")


def _tells(rig: Rig, pid: int) -> bool:
    text = rig.reader.log.read_text(errors="replace") if rig.reader.log.exists() else ""
    return any(_TOLD in line and str(pid) in line for line in text.splitlines())


def _sentinel(bulk: Bulk) -> None:
    [(id_,)] = bulk.rig.sql("INSERT INTO stock (note) VALUES ('sentinel') RETURNING id::text")
    bulk.taking(lambda: bulk.copy.holds(int(id_)), "I7: the sentinel arrives")
    for arrived in bulk.deliveries.settle():
        bulk.copy.take(arrived)


Kill = Callable[[Bulk, Servers], None]


def _kills(draw: random.Random) -> Sequence[tuple[Kill, float]]:
    """Each kind at least once, in any order; what holds the exported snapshot often first."""
    kinds: list[Kill] = [_reader, _processor, _postgres, _connections, _sender]
    order = kinds + [draw.choice(kinds[:4]) for _ in range(_KILLS - len(kinds))]
    draw.shuffle(order)
    if draw.random() < 0.4:
        order.insert(0, order.pop(order.index(_connections)))
    return list(zip(order, sorted(draw.uniform(0, 98) for _ in order), strict=True))


def _reader(bulk: Bulk, _servers: Servers) -> None:
    bulk.rig.reader.kill()


def _processor(bulk: Bulk, _servers: Servers) -> None:
    bulk.rig.processor.kill()


def _postgres(_bulk: Bulk, servers: Servers) -> None:
    servers.postgres.kill()
    servers.postgres.start()


def _connections(bulk: Bulk, _servers: Servers) -> None:
    """Those that read rows, and the one that holds the exported snapshot."""
    bulk.rig.sql(
        "SELECT pg_terminate_backend(pid)::text FROM pg_stat_activity WHERE application_name = %s",
        f"tidegate {bulk.rig.pipeline} snapshot",
    )


def _sender(bulk: Bulk, _servers: Servers) -> None:
    bulk.rig.sql(
        "SELECT pg_terminate_backend(active_pid)::text FROM pg_replication_slots WHERE slot_name = %s", bulk.rig.slot
    )


@contextmanager
def _writing(dsn: str, seed: str) -> Iterator[Sequence[Writer]]:
    writers = [Writer(dsn, seed, number) for number in range(WRITERS)]
    for writer in writers:
        writer.start()
    try:
        yield writers
    finally:
        for writer in writers:
            writer.ending.set()
        for writer in writers:
            writer.join(30)
