"""How far each snapshot is, as people and metrics see it. Nothing is decided by it.

Rows and bytes are those that are durable; a rate is over the last seconds (pace.py); what is left follows from pages.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from tidegate.clock import unix_microseconds
from tidegate.contracts.snapshot_request import join_table
from tidegate.contracts.snapshot_status import SnapshotState, SnapshotStatus, TableStatus
from tidegate_reader.snapshot.pace import Pace, Rates

if TYPE_CHECKING:
    from tidegate_reader.progress import Progress
    from tidegate_reader.snapshot.exported import Exported
    from tidegate_reader.snapshot.job import Job
    from tidegate_reader.snapshot.readers import Readers
    from tidegate_reader.snapshot.records import TableRecord

_NO_KEY = "no key: what is inserted while it is read may come twice"
_SEVERAL = "read under several snapshots, each compared with the stream"


class Board:
    def __init__(self, progress: Progress, exported: Exported, readers: Readers) -> None:
        self._progress, self._exported, self._readers = progress, exported, readers
        self._paces: dict[str, dict[int | None, Pace]] = {}
        """Of each snapshot that is not over: of its tables by relation id, and of all of them."""
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
            yield status, {join_table(t.schema, t.table): self._table(job, t) for t in job.tables.values()}
        self._progress.snapshots_running = int(running)
        self._progress.snapshot_transaction_seconds = self._transaction_seconds()

    def reported(self, status: SnapshotStatus) -> None:
        if status.state.is_over:
            self._told[status.id] = status.state
            self._paces.pop(status.id, None)

    def _status(self, job: Job) -> SnapshotStatus:
        record, is_over = job.record, job.record.state.is_over
        # A snapshot that ended before this reader began has left no tables.
        rows, size = (record.rows, record.size) if is_over else (job.rows, job.size)
        done = sum(table.state is SnapshotState.DONE for table in job.tables.values())
        fraction = 1.0 if record.state is SnapshotState.DONE else job.fraction
        rates = Rates() if is_over else self._pace(job, None).at(rows, size, fraction)
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
            rows_per_second=rates.rows,
            bytes_per_second=rates.bytes,
            seconds_left=rates.seconds_left,
            transaction_seconds=0.0 if is_over else round(self._transaction_seconds(), 1),
            waits_for=self._waits_for(job),
            code=record.code,
            message=record.message,
            remedy=record.remedy,
        )

    def _table(self, job: Job, table: TableRecord) -> TableStatus:
        pages, done = sum(heap.pages for heap in table.heaps), sum(heap.done_pages for heap in table.heaps)
        fraction = 1.0 if table.state is SnapshotState.DONE else min(1.0, done / pages) if pages else 0.0
        moves = table.state is SnapshotState.RUNNING and not job.record.state.is_over
        rates = self._pace(job, table.relation_id).at(table.rows, table.size, fraction) if moves else Rates()
        return TableStatus(
            schema=table.schema,
            table=table.table,
            state=table.state,
            rows=table.rows,
            bytes=table.size,
            estimated_rows=table.estimated_rows,
            percent=round(100 * fraction, 2),
            rows_per_second=rates.rows,
            bytes_per_second=rates.bytes,
            seconds_left=rates.seconds_left,
            note=_NO_KEY if not table.has_key else "" if table.is_one_reading else _SEVERAL,
        )

    def _pace(self, job: Job, relation_id: int | None) -> Pace:
        return self._paces.setdefault(job.record.id, {}).setdefault(relation_id, Pace())

    def _waits_for(self, job: Job) -> str:
        if job.record.state is SnapshotState.PAUSED:
            return "somebody to resume it"
        if job.record.state is SnapshotState.WAITING:
            return "the snapshots before it"
        return job.waits_for if job.record.state is SnapshotState.RUNNING else ""

    def _transaction_seconds(self) -> float:
        now = time.monotonic()
        return max([self._exported.age_seconds, *(now - since for since in self._readers.open_since.values())])
