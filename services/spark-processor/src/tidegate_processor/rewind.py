"""Where a lane has to begin so that everything behind a place comes again, and the cursor that says so.

Epochs are walked from the newest frame back, because only a newer epoch tells which frames of an older one are void.
Within one epoch positions grow, so halving finds the place. The newest epoch that reaches back to it is taken: a
re-feed holds all of it, while what stands before a re-feed may end in a gap.

Invariant: nothing is skipped by a rewind that the sink has not had. Only to go to the beginning, only where a person
has the lane's loss before them or nobody waits for the sink, and only where every epoch that is left begins beyond
what it has, may the place lie there.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from tidegate.contracts.ack import Ack
from tidegate.contracts.cursor import Cursor
from tidegate.contracts.epoch import EpochMode
from tidegate.contracts.frame import FrameKind
from tidegate.contracts.missed import NONE, Missed
from tidegate.contracts.request import LaneRequest
from tidegate.errors import StreamError
from tidegate.lsn import Lsn
from tidegate.position import BEGINNING, MAX_ORDINAL, Position, before
from tidegate_processor.epoch_walk import LATE_FRAMES, Epoch, RawLog, Seen, epochs, first_frame, next_frame
from tidegate_processor.sinks.base import Sink

_MOVING = (FrameKind.EPOCH, FrameKind.WAL)
"""Rows of snapshots and marks move no position."""


@dataclass(frozen=True, slots=True)
class Start:
    seen: Seen
    position: Position
    """Everything behind it comes again."""


@dataclass(frozen=True, slots=True)
class Terms:
    """Under which a lane is rewound."""

    request: LaneRequest
    incarnation: int
    """A new one."""
    config_epoch: str
    may_skip: bool
    """The lane is LOST, or the gate does not wait for its sink."""


def set_back(sink: Sink, log: RawLog, terms: Terms, acked: Callable[[str], Ack | None]) -> Cursor:
    """Fenced: whoever held the sink can't commit any more when its cursor is read. `acked`: in a generation."""
    try:
        cursor = rewound(log, terms, sink.open(), acked)
        sink.commit(cursor)
    finally:
        sink.close()
    return cursor


def rewound(log: RawLog, terms: Terms, cursor: Cursor | None, acked: Callable[[str], Ack | None]) -> Cursor:
    walked = list(epochs(log))
    if not walked:
        raise _nothing_there()
    generation = walked[0].newest.generation.id
    ours = cursor if cursor and cursor.generation == generation else None
    ack = acked(generation)
    has = _has(ours, ack)
    start = _start(terms.request, log, walked, has)
    header = start.seen.header
    if start.position > has.covered and not (terms.may_skip and _is_to_the_beginning(terms.request)):
        raise StreamError(
            f"the place is at {start.position}, the sink has what lies up to {has.position}",
            code="REWIND_AHEAD",
            remedy="A rewind goes back: what lies between would be lost to the sink. Name an earlier place.",
        )
    if ours is not None and (_stands_there(ours, log, start) or _is_beyond(ours, ack, log, start)):
        return replace(ours, config_epoch=terms.config_epoch, incarnation=terms.incarnation)
    is_epoch = header.kind is FrameKind.EPOCH
    epoch, was_in = header.epoch - is_epoch, _epoch_in(log, ours, ack)
    return Cursor(
        generation=generation,
        topic_id=log.id,
        epoch=epoch,
        epoch_nonce="" if is_epoch else header.epoch_nonce.hex(),
        seq=-1 if is_epoch else header.seq - 1,
        next_offset=start.seen.offset,
        position=start.position,
        safe_lsn=_safe_lsn(start.position),
        config_epoch=terms.config_epoch,
        incarnation=terms.incarnation,
        rewound_from=has.position if has.position > start.position else None,
        refused=ours.refused if ours else (),
        rewound_epoch=was_in if was_in > epoch else 0,
        missed=_missed(ours, log, start),
    )


def _stands_there(cursor: Cursor, log: RawLog, start: Start) -> bool:
    """Nothing would come again. A place before frames without anything may be lost, and the ack would not tell."""
    if cursor.topic_id != log.id or cursor.rewound_from is not None or start.position < cursor.position:
        return False
    between = range(start.seen.offset, cursor.next_offset)
    return (
        cursor.next_offset >= start.seen.offset
        and len(between) <= LATE_FRAMES
        and all(map(_is_empty, map(log.at, between)))
    )


def _missed(cursor: Cursor | None, log: RawLog, start: Start) -> Missed:
    """Of a lane that begins behind what retention has taken."""
    if cursor is None or cursor.topic_id != log.id:
        return NONE
    return cursor.missed.and_from(cursor.next_offset, start.seen.offset)


def _is_beyond(cursor: Cursor, ack: Ack | None, log: RawLog, start: Start) -> bool:
    """Nothing would come again, and what stands between would never come: rows of snapshots move no position, so the
    place may be at a position that the sink has, and behind frames that it has not."""
    header = start.seen.header
    place = start.position if header.kind in _MOVING else header.first
    if cursor.topic_id != log.id or cursor.next_offset < log.beginning or place < cursor.position:
        return False
    acked = ack.offset + 1 if ack is not None and ack.topic_id == log.id else 0
    return start.seen.offset > max(cursor.next_offset, acked)


def _is_empty(seen: Seen | None) -> bool:
    """Rows of snapshots move no position, and marks are told."""
    return seen is not None and seen.header.kind in _MOVING and not seen.header.messages


def _epoch_in(log: RawLog, cursor: Cursor | None, ack: Ack | None) -> int:
    """The newest that anything was claimed in; epochs count within one topic."""
    of_cursor = cursor.newest_epoch if cursor and cursor.topic_id == log.id else 0
    return max(of_cursor, ack.epoch if ack and ack.topic_id == log.id else 0)


@dataclass(frozen=True, slots=True)
class Has:
    """What a sink has: all up to `position`, and behind it nothing that commits before `safe_lsn`."""

    position: Position
    safe_lsn: Lsn

    @property
    def covered(self) -> Position:
        return max(self.position, before(self.safe_lsn))


def _has(cursor: Cursor | None, ack: Ack | None) -> Has:
    """A lane that was rewound before is not where it had been; its ack still is."""
    known = [Has(BEGINNING, BEGINNING.commit_lsn)]
    if ack is not None:
        known.append(Has(ack.position, ack.safe_lsn))
    if cursor is not None:
        known.append(Has(max(cursor.position, cursor.rewound_from or cursor.position), cursor.safe_lsn))
    return Has(max(has.position for has in known), max(has.safe_lsn for has in known))


def _start(request: LaneRequest, log: RawLog, walked: list[Epoch], has: Has) -> Start:
    if request.position is not None:
        return _behind(request.position, log, walked)
    if request.offset is not None:
        return _from_offset(request.offset, log, walked)
    if request.since is not None:
        offset = log.offset_since(request.since)
        return _from_offset(log.end - 1 if offset is None else offset, log, walked)
    return _first_that_skips_nothing(log, walked, has) or _beginning(log, walked)


def _behind(wanted: Position, log: RawLog, walked: list[Epoch]) -> Start:
    for epoch in walked:
        first = first_frame(log, epoch)
        if first is not None and (_place(first) <= wanted or epoch.is_first):
            return Start(_last_at(wanted, log, epoch, first), wanted)
    start = _beginning(log, walked)
    raise StreamError(
        f"the raw topic reaches back to {start.position} only",
        code="REWIND_TOO_FAR",
        remedy="Retention took what lies before. Rewind to the beginning of what is left, or take a new snapshot.",
    )


def _last_at(wanted: Position, log: RawLog, epoch: Epoch, first: Seen) -> Seen:
    """The last frame that begins at or before the place; what stands before it lies at or before the place too."""
    found, low, high = first, first.offset + 1, epoch.stop
    while low < high:
        middle = (low + high) // 2
        seen = next_frame(log, epoch, middle, high)
        if seen is not None and seen.header.first <= wanted:
            found, low = seen, seen.offset + 1
        else:
            high = middle
    return found


def _from_offset(offset: int, log: RawLog, walked: list[Epoch]) -> Start:
    """The last frame at or before an offset that a lane may begin with."""
    if not log.beginning <= offset < log.end:
        raise StreamError(
            f"the raw topic holds the offsets {log.beginning} to {log.end - 1}",
            code="REWIND_OFFSET_UNKNOWN",
            remedy="Name one of them.",
        )
    for epoch in walked:
        first = first_frame(log, epoch)
        if first is not None and first.offset <= offset:
            return _starting(_last_before(offset, log, epoch, first))
    return _beginning(log, walked)


def _last_before(offset: int, log: RawLog, epoch: Epoch, first: Seen) -> Seen:
    for back in range(min(offset, epoch.stop - 1), first.offset, -1):
        seen = log.at(back)
        if seen is not None and seen.offset == back and epoch.owns(seen):
            return seen
        if offset - back > LATE_FRAMES:
            break
    return first


def _first_that_skips_nothing(log: RawLog, walked: list[Epoch], has: Has) -> Start | None:
    """A re-feed goes back to what sinks still lack, while what is left before it may begin beyond that."""
    return next((start for start in _beginnings(log, walked) if start.position <= has.covered), None)


def _beginning(log: RawLog, walked: list[Epoch]) -> Start:
    start = next(_beginnings(log, walked), None)
    if start is None:
        raise _nothing_there()
    return start


def _beginnings(log: RawLog, walked: list[Epoch]) -> Iterator[Start]:
    for epoch in reversed(walked):
        first = first_frame(log, epoch)
        if first is not None:
            yield _starting(first)


def _nothing_there() -> StreamError:
    return StreamError(
        "the raw topic holds no frame to go back to", code="REWIND_EMPTY", remedy="There is nothing to deliver."
    )


def _starting(seen: Seen) -> Start:
    return Start(seen, _place(seen))


def _place(seen: Seen) -> Position:
    """The last position that lies before everything in this frame."""
    header, epoch = seen.header, seen.epoch
    if epoch is not None and epoch.mode is not EpochMode.CONTINUE:
        # Its own position is that of the last transaction before, and between the two there is nothing.
        return max(header.first, before(epoch.start_lsn))
    if not header.messages and not header.parts:
        return header.first
    commit_lsn, ordinal = header.first
    return Position(commit_lsn, ordinal - 1) if ordinal else before(commit_lsn)


def _safe_lsn(position: Position) -> Lsn:
    """What ends at or below it has its COMMIT at or before the position."""
    return Lsn(position.commit_lsn + 1) if position.ordinal == MAX_ORDINAL else position.commit_lsn


def _is_to_the_beginning(request: LaneRequest) -> bool:
    return request.position is None and request.offset is None and request.since is None
