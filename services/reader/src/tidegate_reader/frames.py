"""What the framer hands to the publisher, and who stamps and numbers it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tidegate.contracts.frame import FrameHeader, FrameKind, OpenTransaction, SchemaEntry, encode_frame
from tidegate.contracts.generation import Generation
from tidegate.lsn import Lsn
from tidegate.position import Position

Piece = bytes | memoryview
_LEAST_PART = 4096
TICK_BYTES = 1536
"""A little longer than the processor's socket buffer (1024), so that it pushes the frame before it through."""


@dataclass(frozen=True, slots=True)
class SentFrame:
    """What the acknowledgement of a frame will prove. Its bytes are let go, for Kafka's client has copied them."""

    seq: int
    last: Position
    safe_lsn: Lsn
    changes: int
    created: int
    """Unix microseconds, as its header says."""
    size: int


@dataclass(frozen=True, slots=True)
class SealedFrame(SentFrame):
    data: bytes

    def sent(self) -> SentFrame:
        return SentFrame(self.seq, self.last, self.safe_lsn, self.changes, self.created, self.size)


@dataclass(frozen=True, slots=True)
class EpochStamp:
    """This run of the reader, as every frame of it says."""

    generation: Generation
    number: int
    nonce: bytes
    offset: int
    """Raw offset of the epoch frame."""


@dataclass(frozen=True, slots=True)
class Span:
    """Where a frame stands in the stream, and what it counts."""

    first: Position
    last: Position
    safe_lsn: Lsn
    opened: OpenTransaction | None
    changes: int = 0
    messages: int = 0
    part: int = 0
    parts: int = 0


class Sealer:
    """Gives frames their seq, gapless within the epoch, and keeps them until they are taken."""

    def __init__(self, stamp: EpochStamp, *, next_seq: int, safe_lsn: Lsn, wall_clock: Callable[[], int]) -> None:
        self._stamp, self._wall_clock = stamp, wall_clock
        self._next_seq = next_seq
        self._sealed: list[SealedFrame] = []
        self.safe_lsn = safe_lsn
        """What the newest frame says."""
        self.at = float("-inf")
        """When the newest frame was sealed."""
        self.tick_owed = True
        """Nothing stands behind the newest frame yet (or behind the epoch frame, at first)."""

    def seal(
        self,
        kind: FrameKind,
        now: float,
        span: Span,
        *,
        schema: tuple[SchemaEntry, ...] = (),
        body: Sequence[Piece] = (),
        min_bytes: int = 0,
    ) -> None:
        header = FrameHeader(
            kind=kind,
            generation=self._stamp.generation,
            epoch=self._stamp.number,
            epoch_nonce=self._stamp.nonce,
            epoch_offset=self._stamp.offset,
            seq=self._next_seq,
            first=span.first,
            last=span.last,
            safe_lsn=span.safe_lsn,
            created=self._wall_clock(),
            messages=span.messages,
            changes=span.changes,
            part=span.part,
            parts=span.parts,
            open_transaction=span.opened,
        )
        data = encode_frame(header, schema, (b"".join(body),), min_bytes=min_bytes)
        self._sealed.append(
            SealedFrame(header.seq, span.last, span.safe_lsn, span.changes, header.created, len(data), data)
        )
        self._next_seq += 1
        self.safe_lsn, self.at, self.tick_owed = span.safe_lsn, now, min_bytes == 0

    def seal_in_parts(
        self,
        kind: FrameKind,
        now: float,
        span: Span,
        last: Position,
        schema: tuple[SchemaEntry, ...],
        body: bytes,
        room: int,
    ) -> None:
        """What is larger than a frame, in numbered pieces of one body. Only the final one stands at `last`."""
        piece = max(_LEAST_PART, room - sum(len(entry.message) for entry in schema))
        parts, view = -(-len(body) // piece), memoryview(body)
        for part in range(1, parts + 1):
            numbered = replace(span, last=last if part == parts else span.last, part=part, parts=parts)
            self.seal(kind, now, numbered, schema=schema, body=(view[(part - 1) * piece : part * piece],))

    def take(self) -> list[SealedFrame]:
        sealed, self._sealed = self._sealed, []
        return sealed
