"""One measured stretch of time: what each party spent in it, and whether somebody else wanted the machine.

Invariant: who is watched is asked at both ends, so that a process that began in between counts from its first moment.
"""

import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import psycopg

from bench.measure.processes import cpu_seconds, machine_seconds, rss_mb

SAMPLE_SECONDS = 0.2
NOISY = 0.05
"""Share of the machine that others may take before a run is called noisy."""
HELD = (
    "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn)::bigint FROM pg_replication_slots WHERE slot_name = %s"
)


@dataclass(frozen=True, slots=True)
class Spent:
    seconds: float
    contestant_cpu: float
    broker_cpu: float
    source_cpu: float
    others_share: float
    stolen_share: float
    rss_peak_mb: float
    wal_held_mb: float

    @property
    def is_noisy(self) -> bool:
        return self.others_share + self.stolen_share > NOISY


class Watch:
    def __init__(
        self, contestant: Callable[[], Sequence[int]], broker: int, source: int, dsn: str = "", slot: str = ""
    ) -> None:
        self._contestant, self._broker, self._source = contestant, broker, source
        self._dsn, self._slot = dsn, slot
        self._over = threading.Event()
        self._sampler = threading.Thread(target=self._sample, name="sampler", daemon=True)
        self._rss = self._held = 0.0
        self._marked: tuple[float, ...] = ()
        self.spent: Spent | None = None

    def __enter__(self) -> Self:
        self._before = self._readings()
        self._sampler.start()
        return self

    def mark(self) -> None:
        """The end, unless it is called again: for one who sees only later that nothing more came."""
        self._marked = self._readings()

    def end(self) -> Spent:
        """Measured at the last mark, else here; what comes after is not part of it."""
        if self.spent is None:
            self._over.set()
            after = self._marked or self._readings()
            self._sampler.join()
            self.spent = self._spent(after)
        return self.spent

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._sampler.join()

    def _readings(self) -> tuple[float, ...]:
        return (
            time.monotonic(),
            cpu_seconds(self._contestant()),
            cpu_seconds([self._broker]),
            cpu_seconds([self._source]),
            cpu_seconds([os.getpid()]),
            *machine_seconds(),
        )

    def _spent(self, after: Sequence[float]) -> Spent:
        seconds, contestant, broker, source, everybody, used, stolen = (
            later - before for later, before in zip(after, self._before, strict=True)
        )
        capacity = seconds * (os.cpu_count() or 1)
        return Spent(
            seconds=seconds,
            contestant_cpu=contestant,
            broker_cpu=broker,
            source_cpu=source,
            others_share=max(0.0, used - everybody) / capacity,
            stolen_share=stolen / capacity,
            rss_peak_mb=self._rss,
            wal_held_mb=self._held,
        )

    def _sample(self) -> None:
        if not self._slot:
            self._sample_with(None)
            return
        with psycopg.connect(self._dsn, autocommit=True) as source:
            self._sample_with(source)

    def _sample_with(self, source: "psycopg.Connection[tuple[int]] | None") -> None:
        while True:
            self._rss = max(self._rss, rss_mb(self._contestant()))
            row = source.execute(HELD, [self._slot]).fetchone() if source is not None else None
            if row and row[0] is not None:
                self._held = max(self._held, row[0] / 2**20)
            if self._over.wait(SAMPLE_SECONDS):
                return
