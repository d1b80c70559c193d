"""Judges every raw record before anything else looks at it: is it whole, ours, valid in its epoch, next in line?

| what arrives                                   | verdict                                                            |
| ---------------------------------------------- | ------------------------------------------------------------------ |
| offset below the cursor                        | seen: dropped; if it is in step and of a higher epoch than any     |
|                                                | that was seen, the lane starts anew                                |
| offset beyond the next one                     | the lane starts anew, and looks whether its cursor is there        |
| another generation                             | LOST: positions do not compare                                     |
| epoch frame written for another topic or place | if it was made again under us the lane starts anew; else void       |
| epoch frame, number above the current          | that epoch begins; parts that wait are void                        |
| epoch frame, number not above the current      | void: its writer lost the slot and exits                           |
| frame of a lower epoch, or of another nonce    | void                                                               |
| frame of the current epoch, seq as expected    | taken                                                              |
| frame of the current epoch, any other seq      | a hole: this epoch is void from here, until a new epoch begins     |
| frame of a higher epoch that never began here  | a hole likewise                                                    |
| of an epoch that began before the lane's place | LOST: the brokers lost the log, and it grew anew                   |
| in step, of one that began where it read since | the lane starts anew, and looks whether its cursor is there        |
| the 257th frame of one epoch behind a hole     | LOST: its writer goes on over it                                   |
| part of a message, not the next one            | LOST: the writer broke the format                                  |
| the first seen of an epoch that began before   | valid, if its offset tells that nothing is missing before it       |
| valid, but the lane has no place in this log   | passed over until one reaches back to what the lane needs          |

A lane has no place if it has no cursor, if the log was trimmed beyond its cursor, or if the topic was made again. It
comes in at the first valid frame that `comes_in` takes, also in the middle of an epoch that began before what it sees.
Nothing behind a hole is delivered or acked. An offset counts only with its topic's id.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tidegate.contracts.cursor import Cursor
from tidegate.contracts.epoch import EpochRecord, decode_epoch
from tidegate.contracts.frame import Frame, FrameHeader, FrameKind, decode_frame, decode_header
from tidegate.errors import StreamError, TransientError
from tidegate_processor.parts import joined

# A reader has at most 64 frames under way when it learns of a failed produce, and sends none after that.
_MOST_BEHIND_A_HOLE = 256

ComesIn = Callable[[FrameHeader, EpochRecord | None], bool]
"""Whether all that the lane needs stands in this frame and behind it."""


@dataclass(frozen=True, slots=True)
class Taken:
    """A frame to be delivered; parts arrive here re-joined, under the offset and seq of their last."""

    offset: int
    frame: Frame
    epoch: EpochRecord | None = None
    """What an epoch frame says."""


class Ingest:
    def __init__(
        self,
        cursor: Cursor | None,
        topic_id: str,
        current_topic_id: Callable[[], str],
        *,
        beginning: int = 0,
        comes_in: ComesIn = lambda *_: True,
    ) -> None:
        self.topic_id = topic_id
        self._current_topic_id = current_topic_id
        self._comes_in = comes_in
        self.generation = cursor.generation if cursor else None
        # Offsets and epochs are the topic's: where it was made again, both begin anew and only the position counts.
        here = cursor if cursor and cursor.topic_id == topic_id else None
        self.has_place = here is not None and here.next_offset >= beginning
        self.next_offset = here.next_offset if here and self.has_place else None
        self._opened_at = self.next_offset or 0
        self.epoch = here.epoch if here else 0
        self.epoch_nonce = bytes.fromhex(here.epoch_nonce) if here else b""
        self.seq = here.seq if here else -1
        self.void_frames = 0
        self.hole_at: int | None = None
        """Raw offset of the first frame behind a hole that no epoch frame has voided yet."""
        self._behind_hole = 0
        self._parts: list[Frame] = []
        self.sees_from: int | None = None
        """First offset that a lane without a place has seen: the beginning of an epoch may lie before it."""
        self._left_off_in = self.epoch_nonce if here and not self.has_place else b""
        """The epoch that went on behind what was trimmed, if nothing of it has been seen since."""

    @property
    def resume_offset(self) -> int | None:
        """Where the next incarnation may begin: behind what is void for ever, before parts that wait or a hole."""
        is_behind_all = self.has_place and not self._parts and self.hole_at is None
        return self.next_offset if is_behind_all else None

    def feed(self, offset: int, value: bytes | None) -> Iterator[Taken]:
        if self.next_offset is not None and offset < self.next_offset:
            self._check_is_what_was_seen(offset, value)
            return
        if self.next_offset is not None and offset > self.next_offset:
            raise TransientError(
                f"offset {offset} came where {self.next_offset} was expected",
                code="RAW_OFFSET_SKIPPED",
                remedy="Nothing: the lane starts anew at its cursor, and looks whether that is there.",
            )
        frame = decode_frame(value or b"")
        if self.next_offset is None:
            self.sees_from = offset
        self._check_generation(frame)
        self.next_offset = offset + 1
        if frame.header.kind is FrameKind.EPOCH:
            yield from self._begin_epoch(offset, frame)
            return
        self._check_began_in_sight(frame.header.epoch, frame.header.epoch_offset)
        self._check_read_anew(offset, frame.header)
        if self._is_next(offset, frame.header) and self.has_place:
            yield from self._join(offset, frame)

    def _begin_epoch(self, offset: int, frame: Frame) -> Iterator[Taken]:
        header = frame.header
        if header.epoch <= self.epoch:
            self.void_frames += 1
            return
        record = decode_epoch(frame.body)
        if not record.is_of(self.topic_id, offset):
            self._check_topic()
            self.void_frames += 1
            return
        if record.previous is not None and record.previous.last_seq > 0:
            self._check_began_in_sight(record.previous.number, record.previous.epoch_offset)
        self.generation = header.generation.id
        self.epoch, self.epoch_nonce, self.seq = header.epoch, header.epoch_nonce, header.seq
        self.hole_at, self._behind_hole = None, 0
        self._left_off_in = b""
        self._parts.clear()
        self.has_place = self.has_place or self._comes_in(header, record)
        if self.has_place:
            yield Taken(offset, frame, record)

    def _check_topic(self) -> None:
        if self._current_topic_id() != self.topic_id:
            raise TransientError(
                "the raw topic is not the one this lane was started on",
                code="RAW_TOPIC_RECREATED",
                remedy="It was deleted and made again; the lane starts anew and goes by positions.",
            )

    def _is_next(self, offset: int, header: FrameHeader) -> bool:
        if self._began_unseen(header):
            self.generation = header.generation.id
            self.epoch, self.epoch_nonce, self.seq = header.epoch, header.epoch_nonce, header.seq - 1
            self._left_off_in = b""
            self._parts.clear()
            if not header.is_in_step(offset):
                self.has_place = False
                self._find_hole(offset)
                return False
            self.has_place = self._comes_in(header, None)
        is_older = header.epoch < self.epoch or self.epoch == 0
        if is_older or (header.epoch == self.epoch and header.epoch_nonce != self.epoch_nonce):
            self.void_frames += 1
            return False
        if header.epoch > self.epoch or header.seq != self.seq + 1 or self.hole_at is not None:
            self._find_hole(offset)
            return False
        self.seq = header.seq
        return True

    def _find_hole(self, offset: int) -> None:
        self.hole_at = offset if self.hole_at is None else self.hole_at
        self.void_frames += 1
        self._behind_hole += 1
        if self._behind_hole > _MOST_BEHIND_A_HOLE:
            raise StreamError(
                f"frames are missing before raw offset {self.hole_at}, and their writer goes on",
                code="RAW_TOPIC_HOLE",
                remedy="Restart the reader: its next epoch voids what stands behind the hole and sends it again.",
            )

    def _began_unseen(self, header: FrameHeader) -> bool:
        """A lane that came in where the log begins believes an epoch that began before that. A higher one proves the
        one it believed to be void; the lane's own, which it left off in, goes on behind what was trimmed."""
        if self.sees_from is None or header.epoch_offset >= self.sees_from:
            return False
        return header.epoch > self.epoch or (header.epoch == self.epoch and header.epoch_nonce == self._left_off_in)

    def _check_began_in_sight(self, epoch: int, epoch_offset: int) -> None:
        """An epoch with frames that began where the lane has read something else: the brokers lost the log and it grew
        anew, as far as the lane's place and beyond. What stands before that place now, the lane has never seen."""
        if self.has_place and epoch > self.epoch and epoch_offset < self._opened_at:
            raise log_lost(self._opened_at, "and other frames are there now")

    def _check_read_anew(self, offset: int, header: FrameHeader) -> None:
        """The same, where the lane has read that since: from its cursor it may go on. A frame out of step is a late
        one of the log that was lost; it would be met again and again."""
        since = self._opened_at if self.sees_from is None else self.sees_from
        if header.epoch > self.epoch > 0 and header.epoch_offset >= since and header.is_in_step(offset):
            raise _rewritten(header)

    def _check_is_what_was_seen(self, offset: int, value: bytes | None) -> None:
        """Of records that Spark reads again: a shorter log may not grow beyond the lane's place for long."""
        header = decode_header(value or b"")
        if header.kind is not FrameKind.EPOCH and header.epoch > self.epoch > 0 and header.is_in_step(offset):
            raise _rewritten(header)

    def _check_generation(self, frame: Frame) -> None:
        """A lane without a past has the generation of the first frame it takes."""
        if self.generation not in (None, frame.header.generation.id):
            raise StreamError(
                "the raw topic goes on with another generation: the slot was re-created or the cluster was changed",
                code="GENERATION_CHANGED",
                remedy="Positions of the two do not compare. Take a new snapshot for this sink.",
            )

    def _join(self, offset: int, frame: Frame) -> Iterator[Taken]:
        header = frame.header
        if header.parts == 0 and not self._parts:
            yield Taken(offset, frame)
            return
        if self.sees_from is not None and not self._parts and header.part > 1:
            return  # the log begins in the middle of this change, and so of its transaction
        if header.part != len(self._parts) + 1:
            raise StreamError(
                f"part {header.part} of {header.parts} came after {len(self._parts)} parts",
                code="PARTS_OUT_OF_ORDER",
                remedy="The frame's writer broke the format. Report this with the raw offset in the log.",
            )
        self._parts.append(frame)
        if header.part == header.parts:
            whole = joined(self._parts)
            self._parts.clear()
            yield Taken(offset, whole)


def _rewritten(header: FrameHeader) -> TransientError:
    return TransientError(
        f"epoch {header.epoch} began at raw offset {header.epoch_offset}, where something else was read",
        code="RAW_TOPIC_REWRITTEN",
        remedy="The brokers lost the log, and it grew anew. The lane starts anew at its cursor, and looks whether that "
        "is there.",
    )


def log_lost(read_to: int, what: str) -> StreamError:
    return StreamError(
        f"the raw topic was read up to offset {read_to}, {what}",
        code="RAW_TOPIC_TRUNCATED",
        remedy="The brokers lost acknowledged frames (unclean election, lost disk). Start over with a new raw "
        "topic: the reader sends again what the source still has, and sinks go by their positions there.",
    )
