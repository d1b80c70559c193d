"""What the server hears from us: from a timer of its own, whatever the rest of the reader is doing.

| cause | status |
| --- | --- |
| an epoch begins, `STATUS_SECONDS` are over | 0/0: we live |
| `STATUS_SECONDS` are over | write = received, flush = apply = confirmed |
| confirmed has grown | the same, within `COALESCE_SECONDS`, so that many acks make one status |
| the server asks for a reply | the same, at once |
| nothing heard for a while | the same, and asks the server for a keepalive |

The server that shuts down asks again after every reply until we have confirmed all that it sent; a reply storm at one
LSN means exactly that, and closing the link is what lets it go.

Invariant: flush never passes the gate, and no status waits for reading, publishing or acks.
"""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from tidegate.errors import TransientError
from tidegate.events import POSTGRES_EPOCH_UNIX_US
from tidegate.failpoints import Failpoint, reach
from tidegate.lsn import Lsn
from tidegate.pgoutput.wire import encode_status
from tidegate_reader.metrics import ReaderMetrics
from tidegate_reader.sources.postgres_wal.stream import ReplicationStream

STATUS_SECONDS = 1.0
COALESCE_SECONDS = 0.1
PULL_AFTER_SECONDS = 10.0
SILENCE_SECONDS = 60.0
"""As `wal_sender_timeout`, which the session sets: the server gives us up after that, and we the server."""
STORM_REQUESTS = 20
STORM_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Levels:
    received: Lsn
    confirmed: Lsn


@asynccontextmanager
async def answering(stream: ReplicationStream) -> AsyncIterator[None]:
    """While an epoch begins, nothing is read and nothing confirmed; Kafka may take its time, and the server would give
    us up."""
    task = asyncio.create_task(_answer(stream), name="answering")
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


async def _answer(stream: ReplicationStream) -> None:
    with suppress(TransientError):  # whoever reads next finds that the link is broken
        while True:
            await asyncio.sleep(STATUS_SECONDS)
            if stream.is_started:
                await stream.send(_status(Levels(Lsn(0), Lsn(0)), reply_requested=False))


def _status(levels: Levels, *, reply_requested: bool) -> bytes:
    """0/0 says only that we live: the server takes no confirmation from it."""
    return encode_status(
        write=levels.received,
        flush=levels.confirmed,
        apply=levels.confirmed,
        clock=time.time_ns() // 1000 - POSTGRES_EPOCH_UNIX_US,
        reply_requested=reply_requested,
    )


class StormWatch:
    """Reply requests at one LSN: at least `STORM_REQUESTS` within `STORM_SECONDS`."""

    def __init__(self) -> None:
        self._times: deque[float] = deque(maxlen=STORM_REQUESTS)
        self._lsn = Lsn(0)

    def request(self, lsn: Lsn, now: float) -> bool:
        if lsn != self._lsn:
            self._times.clear()
            self._lsn = lsn
        self._times.append(now)
        return len(self._times) == STORM_REQUESTS and now - self._times[0] <= STORM_SECONDS


class Feedback:
    def __init__(self, stream: ReplicationStream, levels: Callable[[], Levels], metrics: ReaderMetrics) -> None:
        self._stream, self._levels, self._metrics = stream, levels, metrics
        self._due = asyncio.Event()
        self._storm = StormWatch()
        self._coalescing: asyncio.TimerHandle | None = None

    def reply_requested(self) -> None:
        """Raises when the server is shutting down."""
        if self._storm.request(self._levels().received, time.monotonic()):
            raise TransientError(
                "the server is shutting down: it asks for the same confirmation again and again",
                code="SOURCE_SHUTTING_DOWN",
                remedy="The reader has closed the link, so that the server can stop; it connects again later.",
            )
        self._due.set()

    async def run(self) -> None:
        while True:
            await self._wait()
            await self.send()

    async def send(self) -> None:
        self._due.clear()
        if self._coalescing is not None:
            self._coalescing.cancel()
            self._coalescing = None
        quiet = time.monotonic() - self._stream.last_heard
        status = _status(self._levels(), reply_requested=quiet > PULL_AFTER_SECONDS)
        reach(Failpoint.READER_STATUS_DUE)
        await self._stream.send(status)
        reach(Failpoint.READER_STATUS_SENT)
        self._metrics.statuses.add()

    def confirmed_grew(self) -> None:
        """Many acks make one status."""
        if self._coalescing is None:
            self._coalescing = asyncio.get_running_loop().call_later(COALESCE_SECONDS, self._due.set)

    async def _wait(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(STATUS_SECONDS):
                await self._due.wait()
