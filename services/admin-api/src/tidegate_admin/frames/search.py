"""Finds a frame by LSN or transaction without reading the log: positions grow with offsets, so a few looks find them.

Each look takes what one fetch brings. The first ones go to the log's end, where most of what is asked for lies, and to
its beginning; from then on every other look guesses by how far off its neighbours were, and every other halves what is
left, so that no log takes more than twice the looks of halving alone. What looks have told is remembered: the next
question begins where that says, and in most logs needs no second look.

Invariant: the answer is looked at, never assumed. A re-fed stretch or a late frame of an older epoch may bend the
order, and a topic may be another one than was remembered; then the frame that is found is still one that has what was
asked for, or none is named. A transaction is looked for in `MOST_FRAMES` and `SECONDS` at most; each read is a question
of its own to the topic: others come between.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
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
_LANDMARKS = 64

Seen = Callable[[Record], int | None]
"""The LSN or the transaction id that a record tells of, none if it does not."""


@dataclass(frozen=True, slots=True)
class Found:
    offset: int
    header: FrameHeader
    commit_lsn: Lsn | None = None
    records: Sequence[Record] = ()
    """From this frame on, as many as were read on the way."""


@dataclass(frozen=True, slots=True)
class _Told:
    offset: int
    distance: int
    """How far behind (0 or more) or before (less) what is looked for."""


class Landmarks:
    """What was seen where, LSNs or transaction ids: only ever says where to look first."""

    def __init__(self, difference: Callable[[int, int], int]) -> None:
        self.difference = difference
        self._seen: dict[int, int] = {}

    def keep(self, told: Iterable[tuple[int, int]]) -> None:
        """Offset, and what was seen there."""
        for offset, seen in told:
            self._seen.pop(offset, None)
            self._seen[offset] = seen
        for offset in list(self._seen)[: max(0, len(self._seen) - _LANDMARKS)]:
            del self._seen[offset]

    def around(self, wanted: int, bounds: Bounds) -> tuple[_Told, _Told] | None:
        """The nearest before it and behind it."""
        told = [_Told(offset, self.difference(seen, wanted)) for offset, seen in self._seen.items()]
        known = [each for each in told if bounds.beginning <= each.offset < bounds.end]
        before = max((each for each in known if each.distance < 0), key=lambda each: each.offset, default=None)
        behind = min((each for each in known if each.distance >= 0), key=lambda each: each.offset, default=None)
        return (before, behind) if before and behind and before.offset < behind.offset else None


class Known:
    """Of one topic."""

    def __init__(self) -> None:
        self.lsns = Landmarks(int.__sub__)
        self.xids = Landmarks(_xid_difference)


async def find_lsn(topic: TopicReader, bounds: Bounds, lsn: Lsn, known: Known) -> Found | None:
    """The first frame after which the log has everything up to `lsn`; none if it does not reach so far."""
    look = _Look(topic, frames=_UNLIMITED, until=inf)  # Every frame tells: the looks are few by themselves.
    records = await _approach(look, bounds, lambda record: reaches(decode_header(record.value)), known.lsns, lsn)
    for number, record in enumerate(records):
        header = decode_header(record.value)
        if reaches(header) >= lsn:
            return Found(record.offset, header, records=records[number:])
    return None


async def find_xid(topic: TopicReader, bounds: Bounds, xid: int, known: Known) -> Found | None:
    """The first frame that has a part of it."""
    look = _Look(topic)
    near = await _approach(look, bounds, _last_xid, known.xids, xid)
    found = await _first_with(near, xid)
    if found is not None and _begins_in(found.header, xid):
        return found
    place = near[0].offset if near else bounds.end
    start, end = max(bounds.beginning, place - WINDOW_BEFORE), min(bounds.end, place + _BATCH + WINDOW_AFTER)
    while start < end:
        records = await look.read(start, _WINDOW_BATCH)
        if not records:
            return None
        found = await _first_with(records, xid)
        if found is not None:
            return found
        start = records[-1].offset + 1
    return None


async def _first_with(records: list[Record], xid: int) -> Found | None:
    for number, record in enumerate(records):
        if number % _AT_ONCE == 0:
            await asyncio.sleep(0)
        found = _transaction(record, xid)
        if found is not None:
            return replace(found, records=records[number:])
    return None


def _begins_in(header: FrameHeader, xid: int) -> bool:
    return header.open_transaction is None or header.open_transaction.xid != xid


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
class _Stretch:
    """What a look has brought, and what the first and the last record that tell have told."""

    records: list[Record]
    first: tuple[int, int]
    last: tuple[int, int]


async def _approach(look: _Look, bounds: Bounds, seen: Seen, landmarks: Landmarks, wanted: int) -> list[Record]:
    """Records among which is the first that is not before what is looked for; none if the log ends before it."""
    low, high = bounds.beginning, bounds.end
    before: _Told | None = None
    behind: _Told | None = None
    found: list[Record] = []
    number = 0
    known = landmarks.around(wanted, bounds)
    while low < high:
        at = _between(low, high, *known) if known else _next(low, high, before, behind, number)
        stretch = await _telling(look, at, high, seen)
        number, known = number + (known is None), None
        if stretch is None:
            high = at
            continue
        landmarks.keep((stretch.first, stretch.last))
        first, last = (
            _Told(offset, landmarks.difference(one, wanted)) for offset, one in (stretch.first, stretch.last)
        )
        if first.distance >= 0:
            high, behind, found = at, first, stretch.records
        elif last.distance < 0:
            low, before = stretch.records[-1].offset + 1, last
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
        return _between(low, high, before, behind)
    return min(max(at, low), high - 1)


def _between(low: int, high: int, before: _Told, behind: _Told) -> int:
    span, way = behind.offset - before.offset, behind.distance - before.distance
    at = before.offset + span * -before.distance // way - _BATCH // 2
    return min(max(at, low), high - 1)


async def _telling(look: _Look, offset: int, end: int, seen: Seen) -> _Stretch | None:
    """The first records from `offset` on, and before `end`, of which one tells."""
    while offset < end:
        records = [record for record in await look.read(offset, min(_BATCH, end - offset)) if record.offset < end]
        if not records:
            return None
        first, last = _first_told(records, seen), _first_told(records[::-1], seen)
        if first is not None and last is not None:
            return _Stretch(records, first, last)
        await asyncio.sleep(0)
        offset = records[-1].offset + 1
    return None


def _first_told(records: list[Record], seen: Seen) -> tuple[int, int] | None:
    told = ((record.offset, seen(record)) for record in records)
    return next(((offset, one) for offset, one in told if one is not None), None)


def _last_xid(record: Record) -> int | None:
    xids = [found for found, _ in transactions(decode_frame(record.value))]
    return xids[-1] if xids else None


def _xid_difference(one: int, other: int) -> int:
    """As PostgreSQL compares transaction ids, which wrap around."""
    return (one - other + 2**31) % 2**32 - 2**31


def _transaction(record: Record, xid: int) -> Found | None:
    if xid.to_bytes(4, "big") not in record.value:
        return None
    frame: Frame = decode_frame(record.value)
    lsns = (commit_lsn for found, commit_lsn in transactions(frame) if found == xid)
    return next((Found(record.offset, frame.header, lsn) for lsn in lsns), None)
