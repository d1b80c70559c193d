"""source → framer → publisher: one loop that never waits while something can be read.

Invariant: when the publisher has no room this loop stands still, and with it the server's sending; statuses go on.
"""

import asyncio
import time

from tidegate.failpoints import Failpoint, reach
from tidegate_reader.feedback import SILENCE_SECONDS, Feedback
from tidegate_reader.framer import Framer
from tidegate_reader.frames import SealedFrame
from tidegate_reader.metrics import ReaderMetrics
from tidegate_reader.progress import Progress
from tidegate_reader.publisher import Publisher
from tidegate_reader.schema_topic import SchemaTopic
from tidegate_reader.snapshot.outlet import Outlet
from tidegate_reader.sources.postgres_wal.failures import silent
from tidegate_reader.sources.postgres_wal.stream import ReplicationStream

_LONGEST_WAIT_SECONDS = 5.0
_TURNS_ALONE = 16
"""Of about 16 KiB each: as much as a frame."""
_SMALL_BYTES = 8192
_SMALL_IN_A_ROW = 8
_NAP_SECONDS = 0.001
"""While a server sends without a pause, each look finds a few messages, and the looks cost more than the messages:
after some such looks there is a short pause. It is as good as an empty link: what has lingered is framed before it,
or frames would close by their size alone. A link that was found empty in between is read at once, as ever."""


class Intake:
    def __init__(
        self,
        stream: ReplicationStream,
        framer: Framer,
        publisher: Publisher,
        feedback: Feedback,
        metrics: ReaderMetrics,
        progress: Progress,
        schemas: SchemaTopic | None = None,
        outlet: Outlet | None = None,
    ) -> None:
        self._stream, self._framer, self._publisher = stream, framer, publisher
        self._feedback, self._metrics, self._progress = feedback, metrics, progress
        self._schemas, self._outlet = schemas, outlet
        self._listening_since = time.monotonic()
        self._replies = self._dropped = self._turns = self._small = 0

    async def run(self, stop: asyncio.Event) -> None:
        """Until `stop`; then everything read is in the raw topic."""
        self._listening_since = time.monotonic()
        while not stop.is_set():
            await self._turn()
        await self._publish(self._framer.finish(time.monotonic()))
        await self._publisher.drained()

    async def _turn(self) -> None:
        batch = self._stream.read()
        now = time.monotonic()
        if batch:
            frames = self._framer.feed(batch, now)
            self._small = self._small + 1 if self._note(batch) < _SMALL_BYTES else 0
        else:
            frames = []
            self._small = 0
        may_nap = self._small >= _SMALL_IN_A_ROW
        if not batch or may_nap:
            frames += self._framer.empty_link(now)
        if self._outlet is not None:
            frames += self._outlet.take(self._framer, now)
        self._turns += 1
        if frames:
            reach(Failpoint.READER_RECEIVED)
            await self._publish(frames)
        elif not batch:
            await self._wait(now)
        elif may_nap:
            await asyncio.sleep(_NAP_SECONDS)
        elif self._turns % _TURNS_ALONE == 0:
            await asyncio.sleep(0)  # What is skipped gives no frames, for as long as it takes.

    async def _publish(self, frames: list[SealedFrame]) -> None:
        if self._schemas is not None and (new := self._framer.shapes.take_new()):
            await self._schemas.write(new)
        if self._publisher.is_blocked:
            await self._publisher.publish(frames)
            self._listening_since = time.monotonic()
        else:
            await self._publisher.publish(frames)
            await asyncio.sleep(0)  # Sending suspends nobody; the other tasks get their turn once a frame.

    async def _wait(self, now: float) -> None:
        if now - max(self._stream.last_heard, self._listening_since) > SILENCE_SECONDS:
            raise silent()
        deadline = self._framer.deadline()
        wait = _LONGEST_WAIT_SECONDS if deadline is None else min(max(deadline - now, 0.0), _LONGEST_WAIT_SECONDS)
        await self._stream.readable(wait)

    def _note(self, batch: list[bytes | memoryview]) -> int:
        """How many bytes that was."""
        size = sum(map(len, batch))
        self._metrics.received.add(len(batch))
        self._metrics.received_bytes.add(size)
        self._progress.received_lsn = self._framer.received_lsn
        if self._framer.keepalives.reply_requests != self._replies:
            self._replies = self._framer.keepalives.reply_requests
            self._feedback.reply_requested()
        if self._framer.dropped_messages != self._dropped:
            self._metrics.dropped.add(self._framer.dropped_messages - self._dropped)
            self._dropped = self._framer.dropped_messages
        return size
