"""The epochs that the raw topic still holds, from the newest back: only a newer one tells what of an older is void.

Invariant: a lane that begins at a frame which its epoch owns misses nothing of that epoch from there on.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from tidegate.contracts.epoch import EpochRecord
from tidegate.contracts.frame import FrameHeader, FrameKind
from tidegate.errors import TransientError

LATE_FRAMES = 256
"""Of older epochs: as many as a reader may still have had under way stand at most behind a newer one."""


@dataclass(frozen=True, slots=True)
class Seen:
    offset: int
    header: FrameHeader
    epoch: EpochRecord | None = None
    """What an epoch frame says."""


class RawLog(Protocol):
    """The raw topic as it is now."""

    id: str
    beginning: int
    end: int

    def at(self, offset: int) -> Seen | None:
        """The first frame at or behind an offset."""
        ...

    def offset_since(self, time: int) -> int | None:
        """Of the first frame that was written at or after a time, in unix microseconds; none: there is none."""
        ...


@dataclass(frozen=True, slots=True)
class Epoch:
    """What is left of one: its frames stand from `start` up to before `stop`, with void ones among them, perhaps."""

    start: int
    stop: int
    newest: FrameHeader
    is_first: bool = False
    """Before it there was nothing: the slot's first epoch, and it is all there."""

    def owns(self, seen: Seen) -> bool:
        """Whether a lane may begin here: valid, and nothing is missing before it."""
        header = seen.header
        if (header.epoch, header.epoch_nonce) != (self.newest.epoch, self.newest.epoch_nonce):
            return False
        return header.kind is FrameKind.EPOCH or (header.is_in_step(seen.offset) and header.part <= 1)


def epochs(log: RawLog) -> Iterator[Epoch]:
    """The newest first, as far back as they are left and as they are of its generation."""
    top = _newest(log)
    stop = log.end
    generation = top.header.generation.id if top else ""
    while top is not None and top.header.generation.id == generation:
        newest = top.header
        start = top.offset if newest.kind is FrameKind.EPOCH else newest.epoch_offset
        if start < log.beginning:
            yield Epoch(log.beginning, stop, newest)
            return
        began = log.at(start)
        if began is None or began.offset != start or began.epoch is None or began.header.epoch != newest.epoch:
            raise TransientError(
                f"no epoch begins at raw offset {start}, where a later frame has it",
                code="REWIND_LOG_CHANGED",
                remedy="Ask again: the raw topic changed under the look.",
            )
        previous = began.epoch.previous
        yield Epoch(start, stop, newest, is_first=previous is None)
        # A frame that landed in a log which the brokers had lost meanwhile names what stood there before, or itself.
        if previous is None or not log.beginning <= previous.last_offset < start:
            return
        top, stop = log.at(previous.last_offset), previous.last_offset + 1


def _newest(log: RawLog) -> Seen | None:
    """A frame of the newest epoch. The last frame may be a late one of an older epoch."""
    found: Seen | None = None
    offset = max(log.beginning, log.end - LATE_FRAMES)
    while offset < log.end:
        seen = log.at(offset)
        if seen is None:
            break
        offset = seen.offset + 1
        is_foreign = seen.epoch is not None and not seen.epoch.is_of(log.id, seen.offset)
        if not is_foreign and (found is None or seen.header.epoch > found.header.epoch):
            found = seen
    return found


def first_frame(log: RawLog, epoch: Epoch) -> Seen | None:
    return next_frame(log, epoch, epoch.start, epoch.stop)


def next_frame(log: RawLog, epoch: Epoch, offset: int, stop: int) -> Seen | None:
    """The first frame from an offset on that a lane may begin with."""
    while offset < stop:
        seen = log.at(offset)
        if seen is None or seen.offset >= stop:
            return None
        if epoch.owns(seen):
            return seen
        offset = seen.offset + 1
    return None
