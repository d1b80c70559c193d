"""How long a transaction may read, and when a busy source brakes: decided for each piece, without a server."""

import asyncio
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest
from kit.snapshot_jobs import job_of

from tidegate.errors import TransientError
from tidegate_reader.snapshot import readers as subject
from tidegate_reader.snapshot.job import Job, Piece
from tidegate_reader.snapshot.readers import Readers
from tidegate_reader.snapshot.reading import Counted

PAGES = 10_000
LIMITS = SimpleNamespace(
    max_transaction_age=timedelta(milliseconds=20), connections=1, max_rows_per_second=None, max_bytes_per_second=None,
    range=2**30,
)  # fmt: skip


class Brakes:
    is_pulled = False

    async def reason(self) -> str:
        return "the source" if self.is_pulled else ""

    def release(self) -> None:
        pass


class Windows:
    async def catch_up(self, tell: Any) -> None:
        pass


class Slow(Readers):
    """Its pieces of more than `most` pages take for ever."""

    def __init__(self, brakes: Brakes, most: int) -> None:
        parts = (SimpleNamespace(snapshot=LIMITS), None, Windows(), brakes)
        super().__init__(*cast(Any, parts), epoch=1, room=1, server_version=180_000)
        self.most, self.begun = most, list[int]()

    async def _open(self) -> Any:
        return SimpleNamespace(close=lambda: None)

    async def _read_piece(self, link: object, job: Job, piece: Piece, exported: object) -> Counted:
        pages = piece.pages[1] - piece.pages[0]
        self.begun.append(pages)
        if pages > self.most:
            await asyncio.Event().wait()
        return Counted()


@pytest.fixture(autouse=True)
def _no_breaks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "_BREAK_SECONDS", 0)


def test_a_keyless_table_that_takes_too_long_is_not_read_nine_times() -> None:
    readers = Slow(Brakes(), most=0)
    with pytest.raises(TransientError) as failed:
        asyncio.run(readers.read(job_of(PAGES, table="log", has_key=False), None, lambda: True))
    assert failed.value.code == "SNAPSHOT_TABLE_LONG"
    assert "log" in failed.value.message
    assert readers.begun == [PAGES]


def test_a_table_with_a_key_that_takes_too_long_is_read_in_smaller_pieces() -> None:
    readers = Slow(Brakes(), most=16)
    job = job_of(PAGES, table="log", has_key=True)
    asyncio.run(readers.read(job, None, lambda: len(readers.begun) < 3))
    assert readers.begun == [64, 16, 16]


def test_before_the_stream_a_busy_source_does_not_brake() -> None:
    """It would hold WAL and the oldest transaction for as long as others are busy."""
    brakes = Brakes()
    brakes.is_pulled = True
    readers = Slow(brakes, most=PAGES)
    asyncio.run(readers.read(job_of(PAGES, table="log", has_key=False), cast(Any, SimpleNamespace()), lambda: True))
    assert readers.begun == [PAGES]
