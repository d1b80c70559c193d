"""How far each snapshot is, as people and metrics see it. Nothing is decided by it.

Rows and bytes are those that are durable; a rate is over the last seconds; what is left follows from pages.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from tidegate.clock import unix_microseconds
from tidegate.contracts.snapshot_request import join_table
from tidegate.contracts.snapshot_status import SnapshotState, SnapshotStatus, TableStatus

if TYPE_CHECKING:
    from tidegate_reader.progress import Progress
    from tidegate_reader.snapshot.exported import Exported
    from tidegate_reader.snapshot.job import Job
    from tidegate_reader.snapshot.readers import Readers
    from tidegate_reader.snapshot.records import TableRecord

_RATE_SAMPLES = 15
"""One a second."""
_NO_KEY = "no key: what is inserted while it is read may come twice"
_SEVERAL = "read under several snapshots, each compared with the stream"


class Board:
    def __init__(self, progress: Progress, exported: Exported, readers: Readers) -> None:
        self._progress, self._exported, self._readers = progress, exported, readers
        self._samples: dict[str, deque[tuple[float, int, int, float]]] = {}
        self._told: dict[str, SnapshotState] = {}
        """Last state that was reported, of those that are over."""

    def reports(self, jobs: Iterable[Job]) -> Iterator[tuple[SnapshotStatus, dict[str, TableStatus]]]:
        """Of all that move, and once more of one that is over."""
        running = 0.0
        for job in list(jobs):
            if self._told.get(job.record.id) is job.record.state:
                continue
            status = self._status(job)
            running += status.state is SnapshotState.RUNNING
            if status.state is SnapshotState.RUNNING:
                self._progress.snapshot_percent = status.percent
            yield status, {join_table(t.schema, t.table): _table(t) for t in job.tables.values()}
        self._progress.snapshots_running = int(running)
        self._progress.snapshot_transaction_seconds = self._transaction_seconds()

    def reported(self, status: SnapshotStatus) -> None:
        if status.state.is_over:
            self._told[status.id] = status.state

    def _status(self, job: Job) -> SnapshotStatus:
        record, is_over = job.record, job.record.state.is_over
        # A snapshot that ended before this reader began has left no tables.
        rows, size = (record.rows, record.size) if is_over else (job.rows, job.size)
        done = sum(table.state is SnapshotState.DONE for table in job.tables.values())
        fraction = 1.0 if record.state is SnapshotState.DONE else job.fraction
        rows_rate, bytes_rate, fraction_rate = (0.0, 0.0, 0.0) if is_over else self._rates(job, fraction)
        left = (1.0 - fraction) / fraction_rate if fraction_rate > 0 else None
        return SnapshotStatus(
            id=record.id,
            kind=record.kind,
            state=record.state,
            by=record.by,
            requested=record.requested,
            started=record.started,
            finished=record.finished,
            time=unix_microseconds(),
            priority=record.priority,
            tables=record.tables_planned or len(job.tables),
            tables_done=record.tables_done if is_over else done,
            rows=rows,
            bytes=size,
            percent=round(100 * fraction, 2),
            rows_per_second=round(rows_rate, 1),
            bytes_per_second=round(bytes_rate, 1),
            seconds_left=None if left is None else round(left, 1),
            transaction_seconds=0.0 if is_over else round(self._transaction_seconds(), 1),
            waits_for=self._waits_for(job),
            code=record.code,
            message=record.message,
            remedy=record.remedy,
        )

    def _rates(self, job: Job, fraction: float) -> tuple[float, float, float]:
        samples = self._samples.setdefault(job.record.id, deque(maxlen=_RATE_SAMPLES))
        samples.append((time.monotonic(), job.rows, job.size, fraction))
        first, last = samples[0], samples[-1]
        seconds = last[0] - first[0]
        if seconds <= 0:
            return 0.0, 0.0, 0.0
        return (last[1] - first[1]) / seconds, (last[2] - first[2]) / seconds, (last[3] - first[3]) / seconds

    def _waits_for(self, job: Job) -> str:
        if job.record.state is SnapshotState.PAUSED:
            return "somebody to resume it"
        if job.record.state is SnapshotState.WAITING:
            return "the snapshots before it"
        return job.waits_for if job.record.state is SnapshotState.RUNNING else ""

    def _transaction_seconds(self) -> float:
        now = time.monotonic()
        return max([self._exported.age_seconds, *(now - since for since in self._readers.open_since.values())])


def _table(table: TableRecord) -> TableStatus:
    pages, done = sum(heap.pages for heap in table.heaps), sum(heap.done_pages for heap in table.heaps)
    fraction = 1.0 if table.state is SnapshotState.DONE else done / pages if pages else 0.0
    return TableStatus(
        schema=table.schema,
        table=table.table,
        state=table.state,
        rows=table.rows,
        bytes=table.size,
        estimated_rows=table.estimated_rows,
        percent=round(100 * min(1.0, fraction), 2),
        note=_NO_KEY if not table.has_key else "" if table.is_one_reading else _SEVERAL,
    )
