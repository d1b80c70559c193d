"""Where the raw topic ends: the last valid frame of the newest valid epoch. Judged from headers alone.

| frame | in the window's order | verdict |
| --- | --- | --- |
| epoch, number higher than the newest | | valid: it is the newest now |
| epoch, any other number | | void: its writer was late |
| newest epoch, seq = last + 1 | | valid |
| newest epoch, any other seq | | void, and so is all that follows of that epoch |
| older epoch | behind the newest's epoch frame | void |
| newer epoch, its epoch frame before the window | in step | valid: it is the newest now |
| newer epoch, its epoch frame before the window | not in step | there is a hole before the window: all of it is void |

Invariant: what is void here is void for every reader of the log, so nothing void is ever counted as delivered.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tidegate.contracts.frame import FrameHeader, FrameKind
from tidegate.contracts.generation import Generation
from tidegate.lsn import Lsn
from tidegate.position import Position


@dataclass(frozen=True, slots=True)
class Tail:
    generation: Generation
    number: int
    nonce: bytes
    epoch_offset: int
    last_seq: int
    last_offset: int
    position: Position
    safe_lsn: Lsn

    @property
    def reach(self) -> Lsn:
        return reach_of(self.position, self.safe_lsn)


def reach_of(position: Position, safe_lsn: Lsn) -> Lsn:
    """A commit record that begins before the end of another record is whole there, so its first byte stands for it."""
    return max(Lsn(position.commit_lsn + 1), safe_lsn)


def find_tail(records: Iterable[tuple[int, FrameHeader]], *, window_start: int) -> Tail | None:
    """`records` are the frames from `window_start` to the end, with their offsets. None if nothing of the newest epoch
    is known to be valid."""
    tails = [None, *valid_tails(records, window_start=window_start)]
    return tails[-1]


def valid_tails(records: Iterable[tuple[int, FrameHeader]], *, window_start: int) -> Iterator[Tail | None]:
    """What is the tail behind each frame."""
    newest: Tail | None = None
    last_valid: Tail | None = None
    for offset, header in records:
        if _begins_newest(newest, header, window_start):
            newest = _tail_at(offset, header)
            is_whole = header.kind is FrameKind.EPOCH or header.is_in_step(offset)
            last_valid = newest if is_whole else None
        elif newest is not None and _belongs_to(newest, header):
            is_next = last_valid is not None and last_valid is newest and header.seq == newest.last_seq + 1
            newest = _tail_at(offset, header)
            last_valid = newest if is_next else last_valid
        yield last_valid


def _begins_newest(newest: Tail | None, header: FrameHeader, window_start: int) -> bool:
    """An epoch frame, or the first frame seen of an epoch that began before the window."""
    is_newer = newest is None or header.epoch > newest.number
    return is_newer and (header.kind is FrameKind.EPOCH or header.epoch_offset < window_start)


def _belongs_to(newest: Tail, header: FrameHeader) -> bool:
    return (header.epoch, header.epoch_nonce, header.epoch_offset) == (newest.number, newest.nonce, newest.epoch_offset)


def _tail_at(offset: int, header: FrameHeader) -> Tail:
    return Tail(
        generation=header.generation,
        number=header.epoch,
        nonce=header.epoch_nonce,
        epoch_offset=offset if header.kind is FrameKind.EPOCH else header.epoch_offset,
        last_seq=header.seq,
        last_offset=offset,
        position=header.last,
        safe_lsn=header.safe_lsn,
    )
