"""Where rows of snapshots join the stream: between two transactions, in the one task that numbers frames.

    readers ─put─▶ outlet ─take (intake)─▶ framer.insert ─▶ publisher ─durable─▶ outlet ─▶ whoever waits for it

Invariant: what waits here and what is on its way is bounded in bytes, and none is taken while the stream fills what
may be in flight.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tidegate.contracts.frame import FrameKind, SchemaEntry
from tidegate.lsn import Lsn
from tidegate_reader.framer import Framer
from tidegate_reader.frames import SealedFrame, SentFrame, Span

WAITING_BYTES = 2**18
"""Of rows that wait to be framed, all readers together: a frame as it is by default. Each reader fills another one."""
_ALONE_BYTES = 2**20
"""Of rows in flight before the stream: a batch on its way to Kafka, and the next one filling. Twice as much is no
faster."""
_BESIDE_BYTES = 2**18
"""Of rows in flight beside the stream, whose own frames queue behind them: a frame as it is by default, or some small
ones."""
_FLOWS_SECONDS = 0.2
"""The stream flows if it brought a change so lately."""
_REST = 3.0
"""While it flows, rows rest for so many times as long as the last frame of them took to be acknowledged: server, reader
and broker are the stream's for the most part, and the more so the longer the three take. After a small frame they rest
as much less as it is smaller: pieces of a few rows went ten times slower."""
_LONGEST_REST_SECONDS = 0.2
"""Brokers that are slow for another reason slow rows down enough."""


@dataclass(slots=True, eq=False)
class Insert:
    """One frame to be."""

    kind: FrameKind
    schema: tuple[SchemaEntry, ...]
    body: Sequence[bytes]
    rows: int = 0
    placed: "asyncio.Future[int]" = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    """Its raw offset, once it is framed: that of its last part."""
    size: int = field(init=False)

    def __post_init__(self) -> None:
        self.size = sum(map(len, self.body))


class Outlet:
    def __init__(
        self,
        epoch_offset: int,
        *,
        in_flight: Callable[[], int],
        most_in_flight: int,
        wake: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`most_in_flight`: above it rows wait, so that the stream's frames find room."""
        self.durable_offset = epoch_offset
        """Last raw offset that is known to be acknowledged."""
        self.stream_bytes = 0
        """Acknowledged in this epoch, rows of snapshots left out."""
        self.passed = Lsn(0)
        """The stream has brought every transaction that ends at or below it."""
        self._epoch_offset, self._wake, self._clock = epoch_offset, wake, clock
        self._in_flight, self._most_in_flight = in_flight, most_in_flight
        self._waiting: deque[Insert] = deque()
        self._waiting_bytes = 0
        self._changed = asyncio.Event()
        self._rows_in_flight: dict[int, int] = {}
        """Seq to bytes."""
        self._taken_at = self._rests_until = self._flowed_at = float("-inf")

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
        if not self._may_take(is_alone=is_alone) or (not is_alone and self._rests(now)):
            return []
        if (span := framer.pause(now)) is None:
            return []
        self._taken_at = now
        # The stream's own frame, which the pause has closed, counts as what it is.
        frames = framer.sealer.take()
        insert = self._waiting.popleft()
        self._waiting_bytes -= insert.size
        _seal(framer, insert, replace(span, messages=insert.rows), now)
        rows = framer.sealer.take()
        if not insert.placed.cancelled():
            insert.placed.set_result(self._epoch_offset + rows[-1].seq)
        self._rows_in_flight |= {frame.seq: frame.size for frame in rows}
        self._tell()
        return frames + rows

    def before(self, then: Callable[[SentFrame, int], None]) -> Callable[[SentFrame, int], None]:
        """What the publisher tells: a frame is acknowledged at this offset."""

        def durable(frame: SentFrame, offset: int) -> None:
            self.durable_offset = offset
            if (size := self._rows_in_flight.pop(frame.seq, None)) is None:
                self.stream_bytes += frame.size
                self._flowed_at = self._clock() if frame.changes else self._flowed_at
            else:
                self._rest(size)
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

    async def until_something_may_go_or(self, done: asyncio.Task[Any], seconds: float) -> None:
        """Of what is taken alone."""
        waiting = asyncio.create_task(self._until_something_may_go())
        await asyncio.wait({done, waiting}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()

    async def _until_something_may_go(self) -> None:
        while not self._may_take(is_alone=True):
            await self._change()

    def _rest(self, size: int) -> None:
        """A frame of rows has arrived."""
        now = self._clock()
        rest = min(_REST * (now - self._taken_at), _LONGEST_REST_SECONDS)
        self._rests_until = now + rest * min(1.0, size / _BESIDE_BYTES)
        if self._rests(now):
            asyncio.get_running_loop().call_later(self._rests_until - now, self._wake)

    def _rests(self, now: float) -> bool:
        return now < self._rests_until and now - self._flowed_at < _FLOWS_SECONDS

    def _may_take(self, *, is_alone: bool) -> bool:
        """A frame larger than all that may be in flight goes when nothing else is."""
        if not self._waiting or not (is_alone or self._in_flight() <= self._most_in_flight):
            return False
        flying, most = sum(self._rows_in_flight.values()), _ALONE_BYTES if is_alone else _BESIDE_BYTES
        return not flying or flying + self._waiting[0].size <= most

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
