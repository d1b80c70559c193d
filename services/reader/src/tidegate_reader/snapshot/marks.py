"""What the log says of a table in a snapshot: that it begins, before its first row, and how it ended, behind its last.

Invariant: each that is said to have begun is said to have ended, unless it was dropped while no reader was there.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tidegate.contracts.frame import FrameKind, SchemaRole
from tidegate.contracts.mark import MarkKind
from tidegate.contracts.snapshot_status import SnapshotState
from tidegate_reader.snapshot.outlet import Insert, Outlet

if TYPE_CHECKING:
    from tidegate_reader.snapshot.job import Job
    from tidegate_reader.snapshot.records import TableRecord


class Marks:
    def __init__(self, outlet: Outlet) -> None:
        self._outlet = outlet

    async def started(self, job: Job, table: TableRecord) -> bool:
        """Whether it begins now."""
        if table.state is not SnapshotState.WAITING:
            return False
        table.state = SnapshotState.RUNNING
        await self._put(job, table, MarkKind.SNAPSHOT_STARTED)
        return True

    async def ended(self, job: Job, table: TableRecord) -> None:
        """It is read, or gone. Durable when it returns."""
        if table.relation_id not in job.published:
            await self.cancelled(job, [table])
            return
        await self.started(job, table)
        mark = await self._put(job, table, MarkKind.SNAPSHOT_COMPLETED, rows=table.rows, outcome="done")
        await self._outlet.until_durable(await mark.placed)
        table.state = SnapshotState.DONE

    async def cancelled(self, job: Job, tables: Iterable[TableRecord]) -> None:
        """Those that are not over. Durable when it returns."""
        last = None
        for table in tables:
            if table.state is SnapshotState.RUNNING and table.relation_id in job.shapes:
                last = await self._put(job, table, MarkKind.SNAPSHOT_COMPLETED, rows=table.rows, outcome="cancelled")
            if not table.state.is_over:
                table.state = SnapshotState.CANCELLED
        if last is not None:
            await self._outlet.until_durable(await last.placed)

    async def _put(self, job: Job, table: TableRecord, kind: MarkKind, **more: object) -> Insert:
        shape = job.shapes[table.relation_id].shape
        body = shape.mark(kind, **job.named, **more)
        mark = Insert(FrameKind.MARK, tuple(shape.entries(SchemaRole.CURRENT)), [body])
        await self._outlet.put(mark)
        return mark
