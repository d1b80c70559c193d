"""Snapshots that bring the tables level behind a gap: when they count as owed, and where that is said.

`repair` notes one before it does anything about a loss; the epoch that has begun has announced it. From then on it is a
snapshot like others, but for its turn: it is read first, and from the exported snapshot where the slot was made for it.

Invariant: what is owed is said, as health, status and metric, until all of it is in the raw topic or a person has
cancelled it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from tidegate.clock import unix_microseconds
from tidegate.contracts.snapshot_status import SnapshotKind, SnapshotState
from tidegate.failpoints import Failpoint, reach
from tidegate_reader.snapshot.records import SnapshotRecord

if TYPE_CHECKING:
    from tidegate.contracts.gap import Gap
    from tidegate_reader.snapshot.coordinator import Snapshots
    from tidegate_reader.snapshot.job import Job
    from tidegate_reader.snapshot.store import Store
    from tidegate_reader.surroundings import Surroundings

BY = "source.slot.on_lost"


def note(reason: str, snapshot: str) -> SnapshotRecord:
    return SnapshotRecord(
        id=snapshot,
        kind=SnapshotKind.RESNAPSHOT,
        state=SnapshotState.WAITING,
        by=BY,
        requested=unix_microseconds(),
        reason=reason,
    )


def owed(gap: Gap | None, known: Mapping[str, object]) -> SnapshotRecord | None:
    """For a gap whose snapshot nobody knows any more: the snapshots topic was lost."""
    return None if gap is None or gap.snapshot in known else note(gap.reason, gap.snapshot)


async def take_over(snapshots: Snapshots, gap: Gap | None, store: Store) -> None:
    """Whatever epoch has begun, it has announced what was noted."""
    if (record := owed(gap, snapshots.jobs)) is not None:
        await snapshots.add(record)
    for job in list(snapshots.jobs.values()):
        if job.is_because_of_a_gap and not job.record.is_announced:
            job.record = replace(job.record, is_announced=True)
            await store.write(job.record)
            reach(Failpoint.READER_GAP_ANNOUNCED)


def tell(around: Surroundings, jobs: Iterable[Job]) -> None:
    first = next((job for job in jobs if job.is_owed), None)
    around.progress.resnapshot = first.record.id if first else ""
    if first is None:
        around.health.up("tables")
        return
    record = first.record
    around.health.degraded("tables", f"{record.reason}: all are read again; snapshot {record.id} is {record.state}")


def turn(job: Job) -> tuple[bool, int, int]:
    """In which order snapshots are read. Nobody knows what of a table a gap has changed, so that comes first."""
    return not job.is_because_of_a_gap, -job.record.priority, job.record.requested
