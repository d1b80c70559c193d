"""Which frames count for the live stream, and that memory is the window's, however many listen."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from kit.frames import RawLog, row
from kit.wait import wait_async

from tidegate_admin.events import stream
from tidegate_admin.events.stream import Sieve, Tail, follow
from tidegate_admin.frames.raw import Bounds, Record


class Log:
    """A topic in memory, read as the real one is."""

    def __init__(self, frames: list[bytes]) -> None:
        self.frames = frames
        self.grown = asyncio.Event()

    async def bounds(self) -> Bounds:
        return Bounds(0, len(self.frames))

    async def read(self, offset: int, count: int, *, wait_seconds: float = 0) -> list[Record]:
        if offset >= len(self.frames):
            self.grown.clear()
            try:
                await asyncio.wait_for(self.grown.wait(), wait_seconds)
            except TimeoutError:
                return []
        return records(self.frames)[offset : offset + count]

    async def close(self) -> None:
        return None

    def grow(self, frames: list[bytes]) -> None:
        self.frames = frames
        self.grown.set()


def records(frames: list[bytes]) -> list[Record]:
    return [Record(offset, 0, None, frame) for offset, frame in enumerate(frames)]


def ids(sieve: Sieve, frames: list[bytes]) -> list[str]:
    return [event.id for record in records(frames) for event in sieve.take(record).events]


def test_what_an_ended_epoch_still_wrote_is_left_out() -> None:
    """As lanes judge it: void is what lies behind the frame of a newer epoch."""
    log = RawLog()
    log.epoch()
    log.transaction(row(1))
    late = RawLog()
    late.epoch()
    late.transaction(row(1))
    log.epoch()
    void = late.transaction(row(2))
    log.frames.append(void)
    log.transaction(row(3))
    assert ids(Sieve(), log.frames) == ["1.0", "4.0"]


def test_what_is_fed_again_comes_once() -> None:
    log = RawLog()
    log.epoch()
    begin = log.safe_lsn
    log.transaction(row(1))
    log.epoch(refeed_from=begin)
    log.safe_lsn = begin
    log.transaction(row(1))
    log.transaction(row(2))
    assert ids(Sieve(), log.frames) == ["1.0", "4.0"]


def test_bytes_that_are_no_frame_end_no_stream() -> None:
    log = RawLog()
    log.epoch()
    log.frames.append(b"junk")
    log.transaction(row(1))
    assert ids(Sieve(), log.frames) == ["2.0"]


async def kinds(messages: AsyncIterator[str], count: int) -> list[str]:
    found = []
    async for text in messages:
        if not text.startswith(":"):
            found.append(text.partition("event: ")[2].partition("\n")[0])
        if len(found) == count:
            break
    return found


def test_one_that_reads_too_slowly_is_told_and_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """It says where to go on; the window stays as small as it is for everybody else."""
    monkeypatch.setattr(stream, "WINDOW_FRAMES", 4)

    async def play() -> tuple[list[str], int]:
        source = RawLog()
        source.epoch()
        topic = Log(list(source.frames))
        tail = Tail(topic)  # type: ignore[arg-type]
        slow = follow(tail, None, lambda _: True)
        first = await kinds(slow, 1)
        for number in range(50):
            source.transaction(row(number))
        topic.grow(list(source.frames))
        await wait_async(lambda: tail.oldest >= 40, 10, "the window has moved on")
        rest = [text async for text in slow]
        await tail.close()
        return first + [text.partition("event: ")[2].partition("\n")[0] for text in rest], len(tail.window)

    told, kept = asyncio.run(asyncio.wait_for(play(), 20))
    assert told == ["open", "dropped"]
    assert kept == 4


def test_one_that_resumes_far_back_catches_up_and_goes_on_live(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "HISTORY_FRAMES", 3)

    async def play() -> list[str]:
        source = RawLog()
        source.epoch()
        for number in range(20):
            source.transaction(row(number))
        topic = Log(list(source.frames))
        tail = Tail(topic)  # type: ignore[arg-type]
        messages = follow(tail, (0, -1), lambda _: True)
        found = await kinds(messages, 21)
        source.transaction(row(99))
        topic.grow(list(source.frames))
        found += await kinds(messages, 1)
        await tail.close()
        return found

    assert asyncio.run(asyncio.wait_for(play(), 20)) == ["open", *["change"] * 21]
