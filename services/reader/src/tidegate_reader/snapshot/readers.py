"""The connections that read, as many as are allowed, each one piece after the other.

    next piece ─▶ transaction (exported or window) ─▶ rows ─▶ outlet ─▶ finishing: framed … durable ─▶ recorded

Invariant: a reader goes on to its next piece while the one before is on its way, and what is recorded is what arrived.
A reader whose connection breaks gives its piece back and takes a new connection, a few times.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import TYPE_CHECKING

from tidegate.contracts.frame import SchemaRole
from tidegate.contracts.snapshot import SnapshotHead, reading_number
from tidegate.errors import TransientError
from tidegate.observability import logs
from tidegate.quoting import qualified
from tidegate_reader.snapshot import catalogue, reading
from tidegate_reader.snapshot.brakes import LOOK_SECONDS, Brakes
from tidegate_reader.snapshot.job import Job, Piece
from tidegate_reader.snapshot.link import ReadingLink
from tidegate_reader.snapshot.outlet import Outlet
from tidegate_reader.snapshot.queries import OLDEST_TID_RANGE, moved_since, rows_of
from tidegate_reader.snapshot.reading import Counted, Windows
from tidegate_reader.snapshot.refusals import (
    EXPORT_GONE,
    TABLE_CHANGED,
    TABLE_LOCKED,
    TABLE_LONG,
    TOO_OLD,
    WINDOW_LONG,
    moved_too_long,
    table_changed,
    table_too_long,
    transaction_too_old,
)
from tidegate_reader.snapshot.throttle import Throttle

if TYPE_CHECKING:
    from tidegate.config.pipeline import PipelineConfig
    from tidegate_reader.snapshot.exported import Exported
    from tidegate_reader.snapshot.records import TableRecord

MOST_BREAKS = 8
"""In a row; with the pauses between them a minute and a half."""
MOST_LONG_TRIES = 3
"""Each time only what moved during the pass before is left to be sent; if that takes too long, to look for it does."""
_BREAK_SECONDS = 0.25
_LONGEST_BREAK_SECONDS = 30.0
_PAGE_BYTES = 8192
_FIRST_PAGES = 64
"""512 KiB: of the first piece beside the stream; from its time follows the next one's size."""
_MOST_PAGES = 131_072
_SMALLER = 4
"""Times, where a piece took longer than any may, or more was changed meanwhile."""
_WINDOW_BYTES = 64 * 2**20
"""Of the stream, while a piece is read. A lane remembers up to 256 MiB of keys, and of a change a key is a part."""


class Readers:
    def __init__(
        self,
        config: PipelineConfig,
        outlet: Outlet,
        windows: Windows,
        brakes: Brakes,
        *,
        epoch: int,
        room: int,
        server_version: int,
    ) -> None:
        self.server_version = server_version
        self.on_finished: Callable[[Job, TableRecord, int, int], Awaitable[None]] | None = None
        self.on_piece: Callable[[Job, TableRecord], Awaitable[None]] | None = None
        self.open_since: dict[int, float] = {}
        """Reading number to when its transaction began."""
        self._config, self._outlet, self._windows, self._brakes = config, outlet, windows, brakes
        self._epoch, self._room = epoch, room
        self._count = 0
        self._pages = _FIRST_PAGES
        self._log = logs.get("reader")
        limits = config.snapshot
        self._throttle = Throttle(limits.max_rows_per_second, limits.max_bytes_per_second)

    @asynccontextmanager
    async def asking(self) -> AsyncIterator[ReadingLink]:
        """For questions outside any transaction."""
        link = await self._open()
        try:
            yield link
        finally:
            link.close()

    async def read(self, job: Job, exported: Exported | None, is_wanted: Callable[[], bool]) -> bool:
        """Until no piece is left, or it is wanted no more. Whether anything was read."""
        before = self._count
        finishing: asyncio.Queue[tuple[Piece, Counted] | None] = asyncio.Queue()
        try:
            async with asyncio.TaskGroup() as tasks:
                recorder = tasks.create_task(self._record(job, finishing), name="snapshot_recorder")
                async with asyncio.TaskGroup() as group:
                    for number in range(self._config.snapshot.connections):
                        group.create_task(self._work(job, exported, is_wanted, finishing), name=f"snapshot_{number}")
                finishing.put_nowait(None)
                await recorder
        except ExceptionGroup as failures:
            raise _first_of(failures) from failures
        finally:
            self._brakes.release()
            job.given_back()
        return self._count > before

    async def _work(
        self,
        job: Job,
        exported: Exported | None,
        is_wanted: Callable[[], bool],
        finishing: asyncio.Queue[tuple[Piece, Counted] | None],
    ) -> None:
        link: ReadingLink | None = None
        breaks = 0
        try:
            while is_wanted():
                # The exported snapshot holds the stream, WAL and an old transaction: sooner done is kinder.
                if exported is None and (reason := await self._brakes.reason()):
                    job.waits_for = reason
                    await asyncio.sleep(LOOK_SECONDS)
                    continue
                if (piece := self._next(job, exported)) is None:
                    break
                try:
                    link = link or await self._open()
                    counted = await self._read_in_time(link, job, piece, exported)
                except TransientError as error:
                    if link is not None:
                        link.close()
                    link = None
                    piece.heap.put_back(piece.pages)
                    breaks += error.code != TABLE_LOCKED
                    if error.code in (EXPORT_GONE, TABLE_LONG) or breaks > MOST_BREAKS:
                        raise
                    await self._before_next_try(job, piece, exported, error, breaks)
                else:
                    breaks, job.waits_for = 0, ""
                    finishing.put_nowait((piece, counted))
        finally:
            if link is not None:
                link.close()

    def _next(self, job: Job, exported: Exported | None) -> Piece | None:
        pages = self._pages if exported is None else self._config.snapshot.range // _PAGE_BYTES
        return job.next_piece(pages, self.server_version, is_exported=exported is not None)

    async def _read_in_time(self, link: ReadingLink, job: Job, piece: Piece, exported: Exported | None) -> Counted:
        """The exported snapshot is as old for each piece; how long it is held is not decided here."""
        if exported is not None:
            return await self._read_piece(link, job, piece, exported)
        await self._windows.catch_up(partial(setattr, job, "waits_for"))
        try:
            async with asyncio.timeout(self._config.snapshot.max_transaction_age.total_seconds()):
                return await self._read_piece(link, job, piece, None)
        except TimeoutError:
            name = qualified(piece.heap.schema, piece.heap.name)
            is_one_piece = piece.is_whole and not piece.is_moved
            raise (table_too_long(name) if is_one_piece else transaction_too_old()) from None

    async def _read_piece(self, link: ReadingLink, job: Job, piece: Piece, exported: Exported | None) -> Counted:
        self._count += 1
        head = SnapshotHead(job.id, piece.table.relation_id, reading_number(self._epoch, self._count), 0, 0, 0)
        if self.on_piece is not None:
            await self.on_piece(job, piece.table)
        stream_bytes = self._outlet.stream_bytes
        with self._open_transaction(head.reading):
            if exported is not None:
                await reading.begin(link, piece.heap, exported.name)
                head, seen = exported.head(head), exported.seen
            else:
                head, seen = await self._windows.open(link, piece.heap, head)
            filenode, _ = await catalogue.filenode_and_pages(link.execute, piece.heap)
            reading.check_heap(piece.heap, filenode)
            piece.note_reading(seen.xmin, is_exported=exported is not None)
            began = time.monotonic()
            counted = await self._rows(link, job, piece, head, stream_bytes)
            await link.execute("COMMIT")
        if exported is None and not (piece.is_moved and piece.is_whole):
            self._adapt(time.monotonic() - began)
        return counted

    async def _rows(self, link: ReadingLink, job: Job, piece: Piece, head: SnapshotHead, stream_bytes: int) -> Counted:
        """`stream_bytes`: of the outlet, before the window began."""
        names = self._config.publication_names
        table = await catalogue.still_published(link.execute, piece.published, names, self.server_version)
        if (described := await catalogue.table_shape(link.execute, table)) is None:
            raise table_changed(qualified(piece.heap.schema, piece.heap.name))
        job.published[table.relation_id], job.shapes[table.relation_id] = table, described
        where = [table.where, job.filters_of(piece.table), moved_since(piece.since) if piece.is_moved else None]
        pages = None if piece.is_moved and piece.is_whole else piece.pages
        query = rows_of(piece.heap, described.columns, pages, where, is_last=piece.is_last)
        schema = tuple(described.shape.entries(SchemaRole.CURRENT))

        def is_long() -> bool:
            is_compared = head.has_window and described.has_key
            return is_compared and self._outlet.stream_bytes - stream_bytes > _WINDOW_BYTES

        rows = link.copy(query)
        return await reading.put_rows(rows, self._outlet, head, schema, self._room, self._throttle, is_long)

    async def _record(self, job: Job, finishing: asyncio.Queue[tuple[Piece, Counted] | None]) -> None:
        while (finished := await finishing.get()) is not None:
            piece, counted = finished
            if counted.last is not None:
                await self._outlet.until_durable(await counted.last.placed)
            job.finished(piece, counted.rows, counted.bytes)
            if self.on_finished is not None:
                await self.on_finished(job, piece.table, counted.rows, counted.bytes)

    async def _before_next_try(
        self, job: Job, piece: Piece, exported: Exported | None, error: TransientError, breaks: int
    ) -> None:
        if error.code in (TOO_OLD, WINDOW_LONG):
            if piece.is_moved and piece.is_whole:
                self._pass_over(piece, error)
            else:
                self._pages = max(1, self._pages // _SMALLER)
                await self._measure_again(piece)
        if error.code == TABLE_CHANGED:
            await self._look_again(job, piece, exported)
        await self.rest(job, error, breaks, piece.table.table)

    def _pass_over(self, piece: Piece, error: TransientError) -> None:
        heap = piece.heap
        if heap.long_tries >= MOST_LONG_TRIES:
            heap.long_tries = 0  # whoever resumes it begins to count anew
            raise moved_too_long(qualified(heap.schema, heap.name)) from error
        heap.long_tries += 1
        if self.server_version >= OLDEST_TID_RANGE:
            heap.pass_over()
            self._log.info("snapshot_moved_in_pieces", table=heap.name, tries=heap.long_tries)

    async def _measure_again(self, piece: Piece) -> None:
        """The last piece reaches to the end of the table, so it is smaller only where its growth is known."""
        if piece.is_last and not piece.is_whole:
            async with self.asking() as link:
                _, pages = await catalogue.filenode_and_pages(link.execute, piece.heap)
            piece.heap.pages = max(piece.heap.pages, pages)

    async def rest(self, job: Job, error: TransientError, breaks: int, table: str = "") -> None:
        """Before the next try."""
        job.waits_for = error.message
        self._log.warning("snapshot_reading_broken", code=error.code, table=table, breaks=breaks)
        await asyncio.sleep(min(_LONGEST_BREAK_SECONDS, _BREAK_SECONDS * 2**breaks))

    async def _look_again(self, job: Job, piece: Piece, exported: Exported | None) -> None:
        """The table was rewritten, or is gone. The exported snapshot may see nothing of what was rewritten."""
        if exported is not None:
            job.later.add(piece.table.relation_id)
            return
        async with self.asking() as link:
            if not await catalogue.is_there(link.execute, piece.table.relation_id):
                job.published.pop(piece.table.relation_id, None)
                return
            filenode, pages = await catalogue.filenode_and_pages(link.execute, piece.heap)
            name = await catalogue.name_of(link.execute, piece.heap)
        for heap in (piece.heap, piece.owner):
            heap.schema, heap.name = name
        if filenode != piece.owner.filenode:
            piece.owner.begin_anew(filenode, pages)
            piece.table.is_one_reading = False

    def _adapt(self, seconds: float) -> None:
        """The next piece takes about as long as it may."""
        wanted = self._config.snapshot.transaction.total_seconds()
        factor = min(2.0, max(0.25, wanted / max(seconds, 0.001)))
        self._pages = int(min(_MOST_PAGES, max(1, self._pages * factor)))

    @contextmanager
    def _open_transaction(self, number: int) -> Iterator[None]:
        self.open_since[number] = time.monotonic()
        try:
            yield
        finally:
            del self.open_since[number]

    async def _open(self) -> ReadingLink:
        return await ReadingLink.open(self._config.source, f"tidegate {self._config.pipeline} snapshot")


def _first_of(failure: Exception) -> Exception:
    while isinstance(failure, ExceptionGroup):
        failure = failure.exceptions[0]
    return failure
