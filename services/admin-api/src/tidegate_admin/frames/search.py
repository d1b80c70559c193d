"""Finds a frame by LSN or by transaction without reading the log: positions grow with offsets, so halving finds them.

Invariant: the answer is looked at, never assumed. A re-fed stretch or a late frame of an older epoch may bend the
order; then the frame that is found is still one that has what was asked for, or none is named. A transaction is looked
for in `MOST_FRAMES` and `SECONDS` at most; each read is a question of its own to the topic: others come between.
"""

import asyncio
from dataclasses import dataclass, field
from http import HTTPStatus
from time import monotonic

from tidegate.contracts.frame import Frame, FrameHeader, decode_frame, decode_header
from tidegate.lsn import Lsn
from tidegate_admin.errors import ApiError
from tidegate_admin.frames.decoded import transactions
from tidegate_admin.frames.raw import Bounds, Record, TopicReader

WINDOW_BEFORE = 256
WINDOW_AFTER = 2048
"""Transactions commit in another order than they began in: so many frames around the place are looked at."""
MOST_FRAMES = 16_384
"""Halving a topic of a billion frames asks for 30; the rest is for stretches in which no transaction begins."""
SECONDS = 5.0
_BATCH = 128
_PROBE = 16
_READ_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Found:
    offset: int
    header: FrameHeader
    commit_lsn: Lsn | None = None


async def find_lsn(topic: TopicReader, bounds: Bounds, lsn: Lsn) -> Found | None:
    """The first frame after which the log has everything up to `lsn`; none if it does not reach so far."""
    low, high = bounds.beginning, bounds.end
    found: Found | None = None
    while low < high:
        middle = (low + high) // 2
        record = await _at(topic, middle)
        if record is None:
            high = middle
            continue
        header = decode_header(record.value)
        if reaches(header) >= lsn:
            found, high = Found(record.offset, header), middle
        else:
            low = record.offset + 1
    return found


async def find_xid(topic: TopicReader, bounds: Bounds, xid: int) -> Found | None:
    look = _Look(topic)
    low, high = bounds.beginning, bounds.end
    while low < high:
        middle = (low + high) // 2
        newest = await _newest_xid(look, middle, high)
        if newest is None or not _is_before(newest, xid):
            high = middle
        else:
            low = middle + 1
    start, end = max(bounds.beginning, low - WINDOW_BEFORE), min(bounds.end, low + WINDOW_AFTER)
    while start < end:
        records = await look.read(start, _BATCH)
        if not records:
            return None
        for record in records:
            await asyncio.sleep(0)
            frame = decode_frame(record.value)
            for found, commit_lsn in transactions(frame):
                if found == xid:
                    return Found(record.offset, frame.header, commit_lsn)
        start = records[-1].offset + 1
    return None


def reaches(header: FrameHeader) -> int:
    return max(header.last.commit_lsn, header.safe_lsn)


async def _at(topic: TopicReader, offset: int) -> Record | None:
    records = await topic.read(offset, 1)
    return records[0] if records else None


@dataclass(slots=True)
class _Look:
    """What one question may still read."""

    topic: TopicReader
    frames: int = field(default_factory=lambda: MOST_FRAMES)
    until: float = field(default_factory=lambda: monotonic() + SECONDS)

    async def read(self, offset: int, count: int) -> list[Record]:
        seconds = self.until - monotonic()
        if self.frames <= 0 or seconds <= 0:
            raise transaction_unknown()
        # Not cut off in the middle: a client that is cut off is dropped, and others use it too.
        records = await self.topic.read(offset, min(count, self.frames), wait_seconds=min(_READ_SECONDS, seconds))
        self.frames -= len(records)
        return records


def transaction_unknown() -> ApiError:
    return ApiError(
        HTTPStatus.NOT_FOUND,
        "no frame of this transaction was found at once",
        code="TRANSACTION_UNKNOWN",
        remedy="It is not in the raw topic yet, or no longer, or changed no published table. Ask by LSN.",
    )


async def _newest_xid(look: _Look, offset: int, end: int) -> int | None:
    """Of the first frame from `offset` on that has a transaction."""
    while offset < end:
        records = await look.read(offset, min(_PROBE, end - offset))
        for record in records:
            await asyncio.sleep(0)
            frame: Frame = decode_frame(record.value)
            xids = [xid for xid, _ in transactions(frame)]
            if xids:
                return xids[-1]
        if not records:
            return None
        offset = records[-1].offset + 1
    return None


def _is_before(one: int, other: int) -> bool:
    """As PostgreSQL compares transaction ids, which wrap around."""
    return 0 < (other - one) & 0xFFFFFFFF < 2**31
