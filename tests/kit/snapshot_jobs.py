"""A snapshot of one table, planned and under way, as the reader holds it."""

from typing import Any, cast

from tidegate.contracts.snapshot_status import SnapshotKind, SnapshotState
from tidegate_reader.snapshot.job import Job
from tidegate_reader.snapshot.pages import Heap
from tidegate_reader.snapshot.records import SnapshotRecord, TableRecord


def job_of(
    pages: int, *, table: str = "orders", has_key: bool = True, has_toast: bool = False, tells_updates: bool = True
) -> Job:
    record = SnapshotRecord(
        id="ab" * 16, kind=SnapshotKind.REQUESTED, state=SnapshotState.RUNNING, by="somebody", requested=1,
        has_plan=True,
    )  # fmt: skip
    planned = TableRecord(
        snapshot=record.id, relation_id=1, schema="public", table=table, state=SnapshotState.RUNNING,
        heaps=[Heap(1, "public", table, 7, pages, has_toast=has_toast)], has_key=has_key,
        tells_updates=tells_updates,
    )  # fmt: skip
    return Job(record, {1: planned}, {1: cast(Any, object())})
