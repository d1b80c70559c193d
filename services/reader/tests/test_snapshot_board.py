"""What people see of a snapshot while it is read, and how large its pieces are: arithmetic, without a server."""

from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tidegate.contracts.snapshot_status import SnapshotKind, SnapshotState, SnapshotStatus
from tidegate_reader.progress import Progress
from tidegate_reader.snapshot import board, pace
from tidegate_reader.snapshot.board import Board
from tidegate_reader.snapshot.job import Job
from tidegate_reader.snapshot.pages import Heap
from tidegate_reader.snapshot.readers import Readers
from tidegate_reader.snapshot.records import SnapshotRecord, TableRecord


def make_job() -> Job:
    record = SnapshotRecord(
        id="ab" * 16, kind=SnapshotKind.REQUESTED, state=SnapshotState.RUNNING, by="somebody", requested=1,
        has_plan=True,
    )  # fmt: skip
    tables = {
        number: TableRecord(
            snapshot=record.id, relation_id=number, schema="public", table=f"t{number}", state=SnapshotState.RUNNING,
            heaps=[Heap(number, "public", f"t{number}", 7, pages=100)], has_key=number == 1,
        )
        for number in (1, 2)
    }  # fmt: skip
    return Job(record, tables)


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Seconds that nobody waits for: what follows from them is held to the digit."""
    clock = [1000.0]
    for module in (board, pace):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    return clock


def test_percent_rate_and_time_left_follow_what_is_durable(now: list[float]) -> None:
    progress = Progress("shop", 1)
    readers = SimpleNamespace(open_since={5: now[0] - 3.0})
    board = Board(progress, cast(Any, SimpleNamespace(age_seconds=0.0)), cast(Any, readers))
    job = make_job()

    def reported() -> tuple[SnapshotStatus, dict[str, Any]]:
        [(status, tables)] = board.reports([job])
        return status, tables

    first, _ = reported()
    table = job.tables[1]
    table.heaps[0].finish((0, 50))
    table.rows, table.size = 400, 80_000
    now[0] += 2.0
    second, tables = reported()

    assert (first.percent, first.rows_per_second, first.seconds_left) == (0.0, 0.0, None)
    assert (second.percent, second.rows, second.bytes) == (25.0, 400, 80_000)
    assert (second.rows_per_second, second.bytes_per_second, second.seconds_left) == (200.0, 40_000.0, 6.0)
    assert (second.transaction_seconds, progress.snapshot_transaction_seconds) == (5.0, 5.0)
    assert (tables["public.t1"].percent, tables["public.t1"].rows, tables["public.t2"].percent) == (50.0, 400, 0.0)
    assert (tables["public.t1"].rows_per_second, tables["public.t1"].bytes_per_second) == (200.0, 40_000.0)
    assert (tables["public.t1"].seconds_left, tables["public.t2"].seconds_left) == (2.0, None)
    assert ("no key" in tables["public.t2"].note, tables["public.t1"].note) == (True, "")
    assert (progress.snapshot_percent, progress.snapshots_running) == (25.0, 1)


@pytest.mark.parametrize(
    ("took", "pages"),
    [
        pytest.param([0.001] * 3, 64 * 2 * 2 * 2, id="quick: at most twice as much each time"),
        pytest.param([2.0], 64, id="as long as it may"),
        pytest.param([4.0], 32, id="twice as long"),
        pytest.param([60.0], 16, id="very long: at least a quarter"),
        pytest.param([60.0] * 9, 1, id="never none"),
    ],
)
def test_the_next_piece_beside_the_stream_takes_about_as_long_as_it_may(took: list[float], pages: int) -> None:
    limits = SimpleNamespace(
        transaction=timedelta(seconds=2), max_rows_per_second=None, max_bytes_per_second=None, range=2**30
    )
    parts = (SimpleNamespace(snapshot=limits), None, None, None)
    readers = Readers(*cast(Any, parts), epoch=1, room=1, server_version=180_000)

    for seconds in took:
        readers._adapt(seconds)
    job = make_job()
    job.published[1] = cast(Any, object())
    piece = readers._next(job, None)

    assert piece is not None
    assert piece.pages == (0, min(pages, 100))
    assert readers._pages == pages
