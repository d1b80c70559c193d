"""One reading: one piece of a table, seen by one transaction, as frames of COPY rows.

    window:    lock ─ low: where the log stands, where the WAL stands ─ snapshot ─ message ─▶ … it came through ─ rows
    exported:  import ─ lock ─ rows

Invariant: no row is put into the outlet before the stream has brought every transaction that the snapshot contains,
and none that it does not contain lies at or below `low`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tidegate.contracts.frame import FrameKind, SchemaEntry
from tidegate.contracts.snapshot import HEAD, SnapshotHead
from tidegate.errors import TidegateError, TransientError
from tidegate.lsn import Lsn, parse_lsn
from tidegate.position import before
from tidegate.quoting import literal, qualified
from tidegate_reader.heartbeat import PREFIX
from tidegate_reader.snapshot.outlet import Insert, Outlet
from tidegate_reader.snapshot.refusals import table_changed, window_too_long
from tidegate_reader.snapshot.seen import Earlier, Seen, seen_in

if TYPE_CHECKING:
    from tidegate_reader.snapshot.link import ReadingLink
    from tidegate_reader.snapshot.pages import Heap
    from tidegate_reader.snapshot.throttle import Throttle
    from tidegate_reader.sources.postgres_wal.session import SideConnection

BEGIN = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_SEEN = (
    "SELECT txid_current_snapshot(),"
    " (extract(epoch FROM clock_timestamp() - timestamptz '2000-01-01 00:00:00+00') * 1000000)::int8"
)
_LOCK_SECONDS = 10
_BEHIND_BYTES = 16 * 2**20
"""A stream that is further behind catches up before a transaction is opened that would have to wait for it."""
_RETRY_SECONDS = 0.1


class Windows:
    """Opens windows beside a stream that flows."""

    def __init__(
        self, side: SideConnection, outlet: Outlet, recent: Callable[[], Iterable[tuple[Lsn, int]]], pipeline: str
    ) -> None:
        self._side, self._outlet, self._recent = side, outlet, recent
        self._earlier = Earlier(side)
        self._content = json.dumps({"pipeline": pipeline, "snapshot": True})

    async def open(self, link: ReadingLink, heap: Heap, head: SnapshotHead) -> tuple[SnapshotHead, Seen]:
        while True:
            await begin(link, heap)
            low_offset = self._outlet.durable_offset + 1
            low = parse_lsn(await self._side.value("SELECT pg_current_wal_insert_lsn()::text"))
            seen = await look(link)
            await self._outlet.until_passed(await self._message())
            if self._contains_all_below(seen, low):
                return replace(head, low=before(low), low_offset=low_offset, read_at=seen.read_at), seen
            # Committed and sent, but not visible yet: its backend waits for a standby, or is slow.
            await link.execute("ROLLBACK")
            await asyncio.sleep(_RETRY_SECONDS)

    def _contains_all_below(self, seen: Seen, low: Lsn) -> bool:
        return all(seen.contains(xid) for commit_lsn, xid in self._recent() if commit_lsn < low)

    async def catch_up(self, tell: Callable[[str], None]) -> None:
        """Before a window is opened: its transaction would wait for all that the stream has still to bring."""
        await self._earlier.settle(tell)
        end = parse_lsn(await self._side.value("SELECT pg_current_wal_insert_lsn()::text"))
        if end - self._outlet.passed > _BEHIND_BYTES:
            await self._outlet.until_passed(await self._message())

    async def _message(self) -> Lsn:
        lsn = await self._side.value("SELECT pg_logical_emit_message(true, %s, %s)::text", [PREFIX, self._content])
        return parse_lsn(lsn)


async def begin(link: ReadingLink, heap: Heap, exported: str | None = None) -> None:
    """The lock comes before the snapshot that counts, so that nobody rewrites the table between them."""
    link.about = qualified(heap.schema, heap.name)
    await link.execute(BEGIN)
    if exported is not None:
        await import_snapshot(link, exported)
    await link.execute(f"SET LOCAL lock_timeout = '{_LOCK_SECONDS}s'")
    await link.execute(f"LOCK TABLE ONLY {link.about} IN ACCESS SHARE MODE")


async def import_snapshot(link: ReadingLink, exported: str) -> None:
    try:
        await link.execute(f"SET TRANSACTION SNAPSHOT {literal(exported)}")
    except TidegateError as error:
        raise TransientError(
            "the exported snapshot is gone: the connection that held it has ended",
            code="SNAPSHOT_EXPORT_GONE",
            remedy="Nothing: what is left is read beside the stream.",
        ) from error


async def look(link: ReadingLink) -> Seen:
    [(snapshot, read_at)] = await link.execute(_SEEN)
    return seen_in(str(snapshot), int(read_at or 0))


def check_heap(heap: Heap, filenode: int) -> None:
    if filenode != heap.filenode:
        raise table_changed(qualified(heap.schema, heap.name))


@dataclass(slots=True)
class Counted:
    rows: int = 0
    bytes: int = 0
    last: Insert | None = None


async def put_rows(
    rows: AsyncIterator[list[bytes]],
    outlet: Outlet,
    head: SnapshotHead,
    schema: tuple[SchemaEntry, ...],
    room: int,
    throttle: Throttle,
    is_long: Callable[[], bool] = lambda: False,
) -> Counted:
    """All of one reading into the outlet, in frames that are as full as they may be; the last one says so. `is_long`:
    the window has become more than a lane should have to look up."""
    counted = Counted()
    room -= HEAD.size + sum(len(entry.message) + 8 for entry in schema)
    pieces: list[bytes] = []
    count = size = 0

    async def close(*, is_last: bool) -> None:
        nonlocal pieces, count, size
        full = replace(head, first_row=counted.rows, rows=count, is_last=is_last)
        counted.last = Insert(FrameKind.SNAPSHOT, schema, [full.encode(), *pieces], count)
        counted.rows += count
        counted.bytes += size
        await throttle.pass_(count, size)
        if is_long():
            raise window_too_long()
        await outlet.put(counted.last)
        pieces, count, size = [], 0, 0
        await asyncio.sleep(0)  # A frame costs some milliseconds; the stream gets its turn between two.

    async for batch in rows:
        joined = b"".join(batch)
        if size + len(joined) <= room:
            pieces.append(joined)
            count, size = count + len(batch), size + len(joined)
            continue
        for row in batch:
            if size and size + len(row) > room:
                await close(is_last=False)
            pieces.append(row)
            count, size = count + 1, size + len(row)
    if count or counted.rows:
        await close(is_last=True)
    return counted
