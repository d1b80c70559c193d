"""Where rows of snapshots join the stream: between two transactions, in the one task that numbers frames.

    readers ─put─▶ outlet ─take (intake)─▶ framer.insert ─▶ publisher ─durable─▶ outlet ─▶ whoever waits for it

Invariant: what waits here is bounded in bytes, and none is taken while the stream fills what may be in flight.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from tidegate.contracts.frame import FrameKind, SchemaEntry
from tidegate.lsn import Lsn
from tidegate_reader.framer import Framer
from tidegate_reader.frames import SealedFrame, Span

WAITING_BYTES = 2 * 2**20
"""Of rows that wait to be framed, all readers together."""
_AT_ONCE = 2
"""Frames of rows between two looks at the socket."""


@dataclass(slots=True, eq=False)
class Insert:
    """One frame to be."""

    kind: FrameKind
    schema: tuple[SchemaEntry, ...]
    body: Sequence[bytes]
    rows: int = 0
    placed: "asyncio.Future[int]" = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    """Its raw offset, once it is framed: that of its last part."""

    @property
    def size(self) -> int:
        return sum(map(len, self.body))


class Outlet:
    def __init__(
        self, epoch_offset: int, *, in_flight: Callable[[], int], most_in_flight: int, wake: Callable[[], None]
    ) -> None:
        """`most_in_flight`: above it rows wait, so that the stream's frames find room."""
        self.durable_offset = epoch_offset
        """Last raw offset that is known to be acknowledged."""
        self.stream_bytes = 0
        """Acknowledged in this epoch, rows of snapshots left out."""
        self.passed = Lsn(0)
        """The stream has brought every transaction that ends at or below it."""
        self._epoch_offset, self._wake = epoch_offset, wake
        self._in_flight, self._most_in_flight = in_flight, most_in_flight
        self._waiting: deque[Insert] = deque()
        self._waiting_bytes = 0
        self._changed = asyncio.Event()
        self._rows_in_flight: set[int] = set()

    async def put(self, insert: Insert) -> None:
        """Marks find room always, so that they stand before what comes behind them."""
        while insert.rows and self._waiting_bytes >= WAITING_BYTES:
            await self._change()
        self._waiting.append(insert)
        self._waiting_bytes += insert.size
        self._tell()
        self._wake()

    def take(self, framer: Framer, now: float, *, is_alone: bool = False) -> list[SealedFrame]:
        """Called by the task that feeds the framer, whenever it has looked at the socket."""
        if framer.passed_lsn > self.passed:
            self.passed = framer.passed_lsn
            self._tell()
        has_room = is_alone or self._in_flight() <= self._most_in_flight
        if not self._waiting or not has_room or (span := framer.pause(now)) is None:
            return []
        # The stream's own frame, which the pause has closed, counts as what it is.
        frames, rows = framer.sealer.take(), list[SealedFrame]()
        for _ in range(min(_AT_ONCE, len(self._waiting))):
            insert = self._waiting.popleft()
            self._waiting_bytes -= insert.size
            _seal(framer, insert, replace(span, messages=insert.rows), now)
            rows += framer.sealer.take()
            if not insert.placed.cancelled():
                insert.placed.set_result(self._epoch_offset + rows[-1].seq)
        self._rows_in_flight.update(frame.seq for frame in rows)
        self._tell()
        return frames + rows

    def before(self, then: Callable[[SealedFrame, int], None]) -> Callable[[SealedFrame, int], None]:
        """What the publisher tells: a frame is acknowledged at this offset."""

        def durable(frame: SealedFrame, offset: int) -> None:
            self.durable_offset = offset
            if frame.seq in self._rows_in_flight:
                self._rows_in_flight.discard(frame.seq)
            else:
                self.stream_bytes += len(frame.data)
            then(frame, offset)
            self._tell()
            if self._waiting:
                self._wake()

        return durable

    def clear(self) -> None:
        """What waits is not to be framed any more: it would come too late."""
        self._waiting.clear()
        self._waiting_bytes = 0
        self._tell()

    async def until_durable(self, offset: int) -> None:
        while self.durable_offset < offset:
            await self._change()

    async def until_passed(self, lsn: Lsn) -> None:
        while self.passed <= lsn:
            await self._change()

    async def until_something_waits(self) -> None:
        while not self._waiting:
            await self._change()

    async def _change(self) -> None:
        """Everybody who waits looks again."""
        changed = self._changed
        await changed.wait()

    def _tell(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


def _seal(framer: Framer, insert: Insert, span: Span, now: float) -> None:
    if insert.size <= framer.room:
        framer.sealer.seal(insert.kind, now, span, schema=insert.schema, body=insert.body)
    else:
        body = b"".join(insert.body)
        framer.sealer.seal_in_parts(insert.kind, now, span, span.last, insert.schema, body, framer.room)
