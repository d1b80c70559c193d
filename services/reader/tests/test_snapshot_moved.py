"""Rows that move to pages that have been read, while a table is read by its pages: none escapes, and it ends."""

import asyncio
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.snapshot_jobs import job_of

from tidegate.errors import TransientError
from tidegate_reader.snapshot import readers as subject
from tidegate_reader.snapshot.job import Job, Piece
from tidegate_reader.snapshot.readers import MOST_LONG_TRIES, Readers
from tidegate_reader.snapshot.reading import Counted
from tidegate_reader.snapshot.records import decode_table_record
from tidegate_reader.snapshot.refusals import window_too_long

PAGES, ROWS, VERSION = 2, 8, 180_000
FIRST_XID = 2**32 - 3
"""The numbers turn while it is read."""


class Table:
    """Where its rows lie and who wrote them; and which of them the readings have brought."""

    def __init__(self, **kind: bool) -> None:
        self.job = job_of(PAGES, **kind)
        self.xid = FIRST_XID
        self.rows = [(row % PAGES, 7) for row in range(ROWS)]
        self.read = set[int]()
        self.under_way: list[tuple[Piece, int, set[int]]] = []
        self.is_over = False

    def move(self, row: int, page: int) -> None:
        if page < PAGES:
            self.rows[row] = (page, self.xid % 2**32)
            self.xid += 1

    def begin(self) -> None:
        piece = self.job.next_piece(1, VERSION, is_exported=False)
        if piece is not None:
            seen = {row for row in range(ROWS) if self.sees(piece, row)}
            self.under_way.append((piece, self.xid % 2**32, seen))
        self.is_over = not self.under_way

    def sees(self, piece: Piece, row: int) -> bool:
        page, xid = self.rows[row]
        start, end = (0, PAGES) if piece.is_moved and piece.is_whole else piece.pages
        age, oldest = ((self.xid - number) % 2**32 for number in (xid, int(piece.since or 0)))
        return start <= page < end and (not piece.is_moved or age <= oldest)

    def end(self, which: int, *, is_long: bool) -> None:
        """What was begun first need not be told first."""
        piece, xmin, rows = self.under_way.pop(which % len(self.under_way))
        piece.note_reading(xmin, is_exported=False)
        if piece.is_moved and piece.is_whole and is_long:
            piece.heap.put_back(piece.pages)
            piece.heap.pass_over()
        else:
            self.read |= rows
            self.job.finished(piece, len(rows), 0)

    def crash(self) -> None:
        self.under_way.clear()
        self.job.tables[1] = decode_table_record(self.job.tables[1].encode())


TURNS = st.tuples(
    st.tuples(*[st.integers(0, PAGES)] * ROWS), st.sampled_from(["end", "long", "wait", "crash"]), st.integers(0, 1)
)


KINDS = [{"has_toast": True}, {"tells_updates": False}, {"tells_updates": False, "has_key": False}]
"""Of tables whose changes do not tell all that moves."""


@pytest.mark.parametrize("kind", KINDS, ids=str)
@settings(max_examples=500, deadline=None)
@given(turns=st.lists(TURNS, max_size=20))
def test_no_row_escapes_however_rows_move_and_readings_fail(
    kind: dict[str, bool], turns: list[tuple[tuple[int, ...], str, int]]
) -> None:
    table = Table(**kind)
    for pages, what, which in turns:
        for row, page in enumerate(pages):
            table.move(row, page)
        table.begin()
        if what == "crash":
            table.crash()
        elif table.under_way and what != "wait":
            table.end(which, is_long=what == "long")
    while not table.is_over:
        table.begin()
        if table.under_way:
            table.end(0, is_long=False)
    assert table.read == set(range(ROWS))


LIMITS = SimpleNamespace(
    max_transaction_age=timedelta(seconds=5), connections=2, max_rows_per_second=None, max_bytes_per_second=None,
    range=2**30,
)  # fmt: skip


class Windows:
    async def catch_up(self, tell: Any) -> None:
        pass


class Brakes:
    async def reason(self) -> str:
        return ""

    def release(self) -> None:
        pass


class Busy(Readers):
    """Whatever is read in one transaction meets too many changes, the first times."""

    def __init__(self, busy_times: int) -> None:
        parts = (SimpleNamespace(snapshot=LIMITS), None, Windows(), Brakes())
        super().__init__(*cast(Any, parts), epoch=1, room=1, server_version=VERSION)
        self.busy_times, self.xid = busy_times, 100
        self.tried: list[str] = []
        """Since when: of what was read in one transaction."""

    async def _open(self) -> Any:
        return SimpleNamespace(close=lambda: None)

    async def _read_piece(self, link: object, job: Job, piece: Piece, exported: object) -> Counted:
        self._count += 1
        self.xid += 1
        piece.note_reading(self.xid, is_exported=False)
        await asyncio.sleep(0)
        if piece.is_moved and piece.is_whole:
            self.tried.append(piece.since)
            if len(self.tried) <= self.busy_times:
                raise window_too_long()
        return Counted()


@pytest.fixture(autouse=True)
def _no_breaks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "_BREAK_SECONDS", 0)


async def read_all(readers: Readers, job: Job) -> None:
    """As long as there is something to read, as the coordinator does."""
    while await readers.read(job, None, lambda: True):
        pass


def test_what_moved_is_read_in_pieces_first_where_one_transaction_is_too_long() -> None:
    """It was tried nine times, each time from the beginning, and told to be read in smaller pieces."""
    readers, job = Busy(2), job_of(300, has_toast=True)
    [table] = job.tables.values()
    asyncio.run(read_all(readers, job))
    assert len(readers.tried) == 3
    assert readers.tried[0] == table.horizon
    assert [int(each) for each in readers.tried] == sorted({int(each) for each in readers.tried})


def test_if_that_does_not_help_it_says_so() -> None:
    readers, job = Busy(99), job_of(300, has_toast=True)
    with pytest.raises(TransientError) as failed:
        asyncio.run(read_all(readers, job))
    assert (failed.value.code, len(readers.tried)) == ("SNAPSHOT_MOVED_LONG", MOST_LONG_TRIES + 1)
    assert "orders" in failed.value.message


class Growing(Busy):
    """Twice as large by now as when it was planned, and no transaction is long enough for more than 16 pages."""

    async def _open(self) -> Any:
        async def execute(_: str) -> list[tuple[str, str]]:
            return [("7", "600")]

        return SimpleNamespace(close=lambda: None, execute=execute)

    async def _read_piece(self, link: object, job: Job, piece: Piece, exported: object) -> Counted:
        self._count += 1
        start, end = piece.pages
        if (600 if piece.is_last else end) - start > 16:
            raise window_too_long()
        return Counted()


def test_the_end_of_a_table_that_grew_is_read_in_smaller_pieces_too() -> None:
    """The last piece reaches to wherever the end is, and was tried nine times."""
    job = job_of(300, has_toast=True)
    asyncio.run(read_all(Growing(0), job))
    [heap] = job.tables[1].heaps
    assert heap.done == [(0, 600)]
