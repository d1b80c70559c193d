"""Finds a frame by LSN or transaction without reading the log: positions grow with offsets, so a few looks find them.

Each look takes what one fetch brings. The first ones go to the log's end, where most of what is asked for lies, and to
its beginning; from then on every other look guesses by how far off its neighbours were, and every other halves what is
left, so that no log takes more than twice the looks of halving alone.

Invariant: the answer is looked at, never assumed. A re-fed stretch or a late frame of an older epoch may bend the
order; then the frame that is found is still one that has what was asked for, or none is named. A transaction is looked
for in `MOST_FRAMES` and `SECONDS` at most; each read is a question of its own to the topic: others come between.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from math import inf
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
"""A look is at 128 frames and a log of a billion takes 60 at most; the rest is for stretches without a transaction."""
SECONDS = 5.0
_BATCH = 128
_WINDOW_BATCH = 512
_AT_ONCE = 32
_READ_SECONDS = 2.0
_UNLIMITED = 2**63

Distance = Callable[[Record], int | None]
"""How far a record is behind (0 or more) or before (less) what is looked for; none: it does not tell."""


@dataclass(frozen=True, slots=True)
class Found:
    offset: int
    header: FrameHeader
    commit_lsn: Lsn | None = None


async def find_lsn(topic: TopicReader, bounds: Bounds, lsn: Lsn) -> Found | None:
    """The first frame after which the log has everything up to `lsn`; none if it does not reach so far."""
    look = _Look(topic, frames=_UNLIMITED, until=inf)  # Every frame tells: the looks are few by themselves.
    for record in await _approach(look, bounds, lambda record: reaches(decode_header(record.value)) - lsn):
        header = decode_header(record.value)
        if reaches(header) >= lsn:
            return Found(record.offset, header)
    return None


async def find_xid(topic: TopicReader, bounds: Bounds, xid: int) -> Found | None:
    look = _Look(topic)
    near = await _approach(look, bounds, lambda record: _xids_after(record, xid))
    place = near[0].offset if near else bounds.end
    start, end = max(bounds.beginning, place - WINDOW_BEFORE), min(bounds.end, place + _BATCH + WINDOW_AFTER)
    while start < end:
        records = await look.read(start, _WINDOW_BATCH)
        if not records:
            return None
        for number, record in enumerate(records):
            if number % _AT_ONCE == 0:
                await asyncio.sleep(0)
            found = _transaction(record, xid)
            if found is not None:
                return found
        start = records[-1].offset + 1
    return None


def reaches(header: FrameHeader) -> int:
    return max(header.last.commit_lsn, header.safe_lsn)


def transaction_unknown() -> ApiError:
    return ApiError(
        HTTPStatus.NOT_FOUND,
        "no frame of this transaction was found at once",
        code="TRANSACTION_UNKNOWN",
        remedy="It is not in the raw topic yet, or no longer, or changed no published table. Ask by LSN.",
    )


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


@dataclass(frozen=True, slots=True)
class _Told:
    offset: int
    distance: int


@dataclass(frozen=True, slots=True)
class _Stretch:
    """What a look has brought, and what the first and the last record that tell have told."""

    records: list[Record]
    first: _Told
    last: _Told


async def _approach(look: _Look, bounds: Bounds, distance: Distance) -> list[Record]:
    """Records among which is the first that is not before what is looked for; none if the log ends before it."""
    low, high = bounds.beginning, bounds.end
    before: _Told | None = None
    behind: _Told | None = None
    found: list[Record] = []
    number = 0
    while low < high:
        at = _next(low, high, before, behind, number)
        stretch = await _telling(look, at, high, distance)
        number += 1
        if stretch is None:
            high = at
        elif stretch.first.distance >= 0:
            high, behind, found = at, stretch.first, stretch.records
        elif stretch.last.distance < 0:
            low, before = stretch.records[-1].offset + 1, stretch.last
        else:
            return stretch.records
    return found


def _next(low: int, high: int, before: _Told | None, behind: _Told | None, number: int) -> int:
    at = (low + high) // 2
    if high - low <= _BATCH or (before is None and number == 1):
        at = low
    elif number == 0:
        at = high - _BATCH
    elif before is not None and behind is not None and number % 2 == 0:
        span, way = behind.offset - before.offset, behind.distance - before.distance
        at = before.offset + span * -before.distance // way - _BATCH // 2
    return min(max(at, low), high - 1)


async def _telling(look: _Look, offset: int, end: int, distance: Distance) -> _Stretch | None:
    """The first records from `offset` on, and before `end`, of which one tells."""
    while offset < end:
        records = [record for record in await look.read(offset, min(_BATCH, end - offset)) if record.offset < end]
        if not records:
            return None
        first, last = _first_told(records, distance), _first_told(records[::-1], distance)
        if first is not None and last is not None:
            return _Stretch(records, first, last)
        await asyncio.sleep(0)
        offset = records[-1].offset + 1
    return None


def _first_told(records: list[Record], distance: Distance) -> _Told | None:
    told = ((record.offset, distance(record)) for record in records)
    return next((_Told(offset, far) for offset, far in told if far is not None), None)


def _xids_after(record: Record, xid: int) -> int | None:
    """As PostgreSQL compares transaction ids, which wrap around."""
    xids = [found for found, _ in transactions(decode_frame(record.value))]
    return (xids[-1] - xid + 2**31) % 2**32 - 2**31 if xids else None


def _transaction(record: Record, xid: int) -> Found | None:
    if xid.to_bytes(4, "big") not in record.value:
        return None
    frame: Frame = decode_frame(record.value)
    lsns = (commit_lsn for found, commit_lsn in transactions(frame) if found == xid)
    return next((Found(record.offset, frame.header, lsn) for lsn in lsns), None)
