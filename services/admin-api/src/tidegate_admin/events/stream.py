"""The live stream: one tail a pipeline reads the raw topic, every client reads from it at its own pace.

    raw topic ──tail──▶ window (bounded) ──pull──▶ client, client, client …

A client holds a place, not a queue: however many there are and however slowly they read, memory is the window's. One
that was live and has fallen out of the window is told where it may go on, and ended.

Invariant: changes come in commit order, each once: frames of an ended epoch and what a re-feed repeats are left out.
"""

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

from tidegate.contracts.frame import decode_frame
from tidegate.errors import DecodeError, TidegateError
from tidegate.observability import logs
from tidegate.position import BEGINNING, Position
from tidegate_admin.frames.decoded import Change, changes
from tidegate_admin.frames.raw import Record, TopicReader

WINDOW_FRAMES = 1024
WINDOW_BYTES = 8 * 2**20
HISTORY_FRAMES = 32
"""Read at once for a client that is behind the window."""
STREAMS = 256
"""Of the service, whichever pipelines they follow."""
LARGEST_EVENT = 64 * 1024
IDLE_SECONDS = 30.0
"""How long the tail goes on when nobody listens any more."""
KEEPALIVE_SECONDS = 15.0
_POLL_SECONDS = 0.5

_log = logs.get("events")


@dataclass(frozen=True, slots=True)
class Event:
    id: str
    """`<offset>.<index>`: what Last-Event-ID gives back."""
    table: str
    operation: str
    data: str


@dataclass(frozen=True, slots=True)
class FrameEvents:
    offset: int
    events: tuple[Event, ...]
    bytes: int


@dataclass(slots=True)
class Sieve:
    """Which frames count, seen in the order of the log."""

    epoch: int = 0
    position: Position = BEGINNING
    generation: str = ""

    def take(self, record: Record) -> FrameEvents:
        try:
            frame = decode_frame(record.value)
            header = frame.header
            if header.generation.id != self.generation:
                self.generation, self.epoch, self.position = header.generation.id, 0, BEGINNING
            if header.epoch < self.epoch:
                return FrameEvents(record.offset, (), 0)
            self.epoch = header.epoch
            found = [change for change in changes(frame) if change.position > self.position]
            self.position = max(self.position, header.last)
        except DecodeError as error:
            _log.failure("frame_undecodable", error, offset=record.offset)
            return FrameEvents(record.offset, (), 0)
        events = tuple(_event(record.offset, index, change) for index, change in enumerate(found))
        return FrameEvents(record.offset, events, sum(len(event.data) for event in events))


@dataclass(slots=True)
class Tail:
    """Runs while somebody listens."""

    topic: TopicReader
    window: deque[FrameEvents] = field(default_factory=deque)
    bytes: int = 0
    listeners: int = 0
    _changed: asyncio.Condition = field(default_factory=asyncio.Condition)
    _task: asyncio.Task[None] | None = None
    _next: int = -1

    async def open(self) -> int:
        """The offset that the next frame gets."""
        self.listeners += 1
        if self._task is None or self._task.done():
            self.window.clear()
            self.bytes, self._next = 0, (await self.topic.bounds()).end
            self._task = asyncio.create_task(self._run(), name="events tail")
        return self._next

    def leave(self) -> None:
        self.listeners -= 1

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    @property
    def is_running(self) -> bool:
        return self._task is not None and not self._task.done()

    @property
    def oldest(self) -> int:
        return self.window[0].offset if self.window else self._next

    async def after(self, offset: int, seconds: float) -> list[FrameEvents]:
        """The frames of the window from `offset` on; none if there is no newer one within `seconds`."""
        async with self._changed:
            if offset >= self._next:
                try:
                    await asyncio.wait_for(self._changed.wait(), seconds)
                except TimeoutError:
                    return []
        # Offsets have no gaps, so the place in the window is a difference.
        begin = max(0, offset - self.oldest)
        return [self.window[index] for index in range(begin, min(len(self.window), begin + HISTORY_FRAMES))]

    async def _run(self) -> None:
        sieve, idle_since = Sieve(), None
        loop = asyncio.get_running_loop()
        while self.listeners or idle_since is None or loop.time() - idle_since < IDLE_SECONDS:
            idle_since = None if self.listeners else (idle_since or loop.time())
            try:
                records = await self.topic.read(self._next, HISTORY_FRAMES, wait_seconds=_POLL_SECONDS)
            except TidegateError as error:
                _log.failure("tail_late", error)
                self._task = None
                return
            if records:
                await self._append([sieve.take(record) for record in records])

    async def _append(self, frames: list[FrameEvents]) -> None:
        async with self._changed:
            for frame in frames:
                self.window.append(frame)
                self.bytes += frame.bytes
            while len(self.window) > WINDOW_FRAMES or (self.bytes > WINDOW_BYTES and len(self.window) > 1):
                self.bytes -= self.window.popleft().bytes
            self._next = frames[-1].offset + 1
            self._changed.notify_all()


Wanted = Callable[[Event], bool]


async def follow(tail: Tail, resume: tuple[int, int] | None, wanted: Wanted) -> AsyncIterator[str]:
    """What one client is sent. `resume`: the offset and index of the last event it has."""
    live_from = await tail.open()
    try:
        bounds = await tail.topic.bounds()
        offset, index = (live_from, -1) if resume is None else resume
        if not bounds.beginning <= offset <= bounds.end:
            start = bounds.beginning if offset < bounds.beginning else bounds.end
            yield message("gap", {"from": offset, "to": start}, f"{start}.-1")
            offset, index = start, -1
        yield message("open", {"next": offset}, None)
        sieve, is_live = Sieve(), resume is None
        while True:
            if offset < tail.oldest:
                if is_live:
                    yield message("dropped", {"reason": "too slow", "resume": f"{offset}.{index}"}, None)
                    return
                records = await tail.topic.read(offset, HISTORY_FRAMES)
                frames = [sieve.take(record) for record in records]
            else:
                is_live = True
                frames = await tail.after(offset, KEEPALIVE_SECONDS)
                if not frames and tail.is_running:
                    yield ": nothing new\n\n"
                elif not frames:
                    yield message("dropped", {"reason": "the log does not answer", "resume": f"{offset}.{index}"}, None)
                    return
            for frame in frames:
                for at, event in enumerate(frame.events):
                    if (frame.offset, at) > (offset, index) and wanted(event):
                        yield f"id: {event.id}\nevent: change\ndata: {event.data}\n\n"
                offset, index = frame.offset + 1, -1
    finally:
        tail.leave()


def message(kind: str, data: object, identity: str | None) -> str:
    named = f"id: {identity}\n" if identity else ""
    return f"{named}event: {kind}\ndata: {json.dumps(data)}\n\n"


def _event(offset: int, index: int, change: Change) -> Event:
    identity = f"{offset}.{index}"
    document = {"id": identity, **change.to_json()}
    data = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
    if len(data) > LARGEST_EVENT:
        cut = document | {"row": None, "old": None, "details": {"cut": "larger than an event may be; see the frame"}}
        data = json.dumps(cut, ensure_ascii=False, separators=(",", ":"))
    return Event(identity, change.channel, change.operation.value.lower(), data)
