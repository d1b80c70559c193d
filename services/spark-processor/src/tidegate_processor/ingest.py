"""Judges every raw record before anything else looks at it: is it whole, ours, valid in its epoch, next in line?

| what arrives                                   | verdict                                                            |
| ---------------------------------------------- | ------------------------------------------------------------------ |
| offset below the cursor                        | seen: dropped                                                      |
| offset beyond the next one                     | the lane starts anew, and looks whether its cursor is there        |
| another generation                             | LOST: positions do not compare                                     |
| epoch frame written into another topic         | if it was made again under us the lane starts anew; else void       |
| epoch frame, number above the current          | that epoch begins; parts that wait are void                        |
| epoch frame, number not above the current      | void: its writer lost the slot and exits                           |
| frame of a lower epoch, or of another nonce    | void                                                               |
| frame of the current epoch, seq as expected    | taken                                                              |
| frame of the current epoch, any other seq      | a hole: this epoch is void from here, until a new epoch begins     |
| frame of a higher epoch that never began here  | a hole likewise                                                    |
| part of a message, not the next one            | LOST: the writer broke the format                                  |

A lane without a past believes an epoch that began before it came in. Nothing behind a hole is delivered or acked. An
offset counts only with its topic's id: in a topic that was made again a lane begins at the start and goes by positions
alone.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from tidegate.contracts.cursor import Cursor
from tidegate.contracts.epoch import EpochRecord, decode_epoch
from tidegate.contracts.frame import Frame, FrameHeader, FrameKind, decode_frame
from tidegate.errors import StreamError, TransientError


@dataclass(frozen=True, slots=True)
class Taken:
    """A frame to be delivered; parts arrive here re-joined, under the offset and seq of their last."""

    offset: int
    frame: Frame
    epoch: EpochRecord | None = None
    """What an epoch frame says."""


class Ingest:
    def __init__(self, cursor: Cursor | None, topic_id: str, current_topic_id: Callable[[], str]) -> None:
        self.topic_id = topic_id
        self._current_topic_id = current_topic_id
        self.generation = cursor.generation if cursor else None
        # Offsets and epochs are the topic's: where it was made again, both begin anew and only the position counts.
        here = cursor if cursor and cursor.topic_id == topic_id else None
        self.next_offset = here.next_offset if here else None
        self.epoch = here.epoch if here else 0
        self.epoch_nonce = bytes.fromhex(here.epoch_nonce) if here else b""
        self.seq = here.seq if here else -1
        self.void_frames = 0
        self.hole_at: int | None = None
        """Raw offset of the first frame behind a hole that no epoch frame has voided yet."""
        self._parts: list[Frame] = []
        self._began_at: int | None = None
        """Where a lane without a past came in: it can't have seen the beginning of an epoch before that."""

    @property
    def resume_offset(self) -> int | None:
        """Where the next incarnation may begin: behind what is void for ever, before parts that wait or a hole."""
        return None if self._parts or self.hole_at is not None else self.next_offset

    def feed(self, offset: int, value: bytes | None) -> Iterator[Taken]:
        if self.next_offset is not None and offset < self.next_offset:
            return
        if self.next_offset is not None and offset > self.next_offset:
            raise TransientError(
                f"offset {offset} came where {self.next_offset} was expected",
                code="RAW_OFFSET_SKIPPED",
                remedy="Nothing: the lane starts anew at its cursor, and looks whether that is there.",
            )
        frame = decode_frame(value or b"")
        if self.next_offset is None and self.epoch == 0:
            self._began_at = offset
        self._check_generation(frame)
        self.next_offset = offset + 1
        if frame.header.kind is FrameKind.EPOCH:
            yield from self._begin_epoch(offset, frame)
        elif self._is_next(offset, frame.header):
            yield from self._join(offset, frame)

    def _begin_epoch(self, offset: int, frame: Frame) -> Iterator[Taken]:
        header = frame.header
        if header.epoch <= self.epoch:
            self.void_frames += 1
            return
        record = decode_epoch(frame.body)
        if record.topic_id != self.topic_id:
            self._check_topic()
            self.void_frames += 1  # its writer had looked before the topic was made again
            return
        self.generation = header.generation.id
        self.epoch, self.epoch_nonce, self.seq = header.epoch, header.epoch_nonce, header.seq
        self.hole_at = None
        self._parts.clear()
        yield Taken(offset, frame, record)

    def _check_topic(self) -> None:
        if self._current_topic_id() != self.topic_id:
            raise TransientError(
                "the raw topic is not the one this lane was started on",
                code="RAW_TOPIC_RECREATED",
                remedy="It was deleted and made again; the lane starts anew and goes by positions.",
            )

    def _is_next(self, offset: int, header: FrameHeader) -> bool:
        if self._comes_in_here(header):
            self.generation = header.generation.id
            self.epoch, self.epoch_nonce, self.seq = header.epoch, header.epoch_nonce, header.seq - 1
        is_older = header.epoch < self.epoch or self.epoch == 0
        if is_older or (header.epoch == self.epoch and header.epoch_nonce != self.epoch_nonce):
            self.void_frames += 1
            return False
        if header.epoch > self.epoch or header.seq != self.seq + 1 or self.hole_at is not None:
            self.hole_at = offset if self.hole_at is None else self.hole_at
            self.void_frames += 1
            return False
        self.seq = header.seq
        return True

    def _comes_in_here(self, header: FrameHeader) -> bool:
        """A lane without a past believes an epoch that began before it came in; a higher one proves it void."""
        return self._began_at is not None and header.epoch > self.epoch and header.epoch_offset < self._began_at

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
        if self._began_at is not None and not self._parts and header.part > 1:
            return  # the log begins in the middle of this change, and so of its transaction
        if header.part != len(self._parts) + 1:
            raise StreamError(
                f"part {header.part} of {header.parts} came after {len(self._parts)} parts",
                code="PARTS_OUT_OF_ORDER",
                remedy="The frame's writer broke the format. Report this with the raw offset in the log.",
            )
        self._parts.append(frame)
        if header.part == header.parts:
            body = b"".join(part.body for part in self._parts)
            schema = self._parts[0].schema
            self._parts.clear()
            yield Taken(offset, Frame(replace(header, part=0, parts=0), schema, body))


def raw_topic_trimmed(begins: int, wanted: int) -> StreamError:
    return StreamError(
        f"the raw topic begins at offset {begins}, the lane stands at {wanted}",
        code="RAW_TOPIC_TRIMMED",
        remedy="The frames between are gone. Take a new snapshot for this sink, or rewind it to what is left.",
    )
