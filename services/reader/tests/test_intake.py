"""The loop that reads must leave the others their turn, whatever comes in."""

import asyncio
import itertools
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tidegate.contracts.frame import body_messages, decode_frame
from tidegate.contracts.generation import Generation
from tidegate.lsn import Lsn
from tidegate.pgoutput.decode import decode_message
from tidegate.pgoutput.encode import encode_message
from tidegate.pgoutput.messages import Begin, Commit, LogicalMessage
from tidegate.pgoutput.wire import XLogData, encode_envelope
from tidegate.position import BEGINNING, Position
from tidegate_reader import intake as subject
from tidegate_reader.framer import Framer
from tidegate_reader.frames import EpochStamp, SealedFrame
from tidegate_reader.intake import Intake
from tidegate_reader.metrics import ReaderMetrics
from tidegate_reader.progress import Progress

ENOUGH = 20_000
LINGER_SECONDS, LOOK_SECONDS, MESSAGE_SECONDS = 0.003, 150e-6, 3e-6
EVERYTHING = Position(Lsn(2**60), 0)


class SkippedBacklog:
    """A server that sends again what the raw topic has, faster than it can be read."""

    last_heard = 0.0

    def __init__(self) -> None:
        self.reads = itertools.count(1)

    def read(self) -> list[memoryview]:
        number = next(self.reads)
        assert number < ENOUGH, "nobody else has had a turn"
        commit_lsn, end_lsn = Lsn(number * 100), Lsn(number * 100 + 50)
        messages = (Begin(commit_lsn, 0, 1), Commit(commit_lsn, end_lsn, 0))
        return [memoryview(encode_envelope(XLogData(end_lsn, end_lsn, 0, encode_message(each)))) for each in messages]


class Publisher:
    is_blocked = False

    async def publish(self, frames: object) -> None:
        pass

    async def drained(self) -> None:
        pass


def intake_of(stream: object, publisher: object, progress: Progress, *, skip_to: Position = BEGINNING) -> Intake:
    framer = Framer(
        EpochStamp(Generation(7, 1, "shop", "slot", b"n" * 16), 2, b"e" * 16, 0),
        max_frame_bytes=256 * 1024,
        linger_seconds=LINGER_SECONDS,
        position=skip_to,
        safe_lsn=Lsn(0),
        skip_to=skip_to,
        next_seq=1,
        wall_clock=lambda: 0,
    )
    parts: tuple[Any, ...] = (stream, framer, publisher, SimpleNamespace(), ReaderMetrics(progress, []))
    return Intake(*cast(Any, parts), progress)


def test_a_skipped_backlog_starves_nobody() -> None:
    progress = Progress("p", 1)
    intake = intake_of(SkippedBacklog(), Publisher(), progress, skip_to=EVERYTHING)

    async def run() -> None:
        stop = asyncio.Event()
        asyncio.get_running_loop().call_soon(stop.set)
        await intake.run(stop)

    asyncio.run(run())
    assert progress.received_lsn > 0


class SteadyLoad:
    """A second of small transactions at a fixed rate, by a clock of its own: each is there from its commit on."""

    def __init__(self, rate: int) -> None:
        self.rate, self.now, self.last_heard = rate, 0.0, 0.0
        self.sent = self.looks = self.naps = 0
        self.over = asyncio.Event()
        self.took: list[float] = []

    def read(self) -> list[memoryview]:
        self.looks += 1
        due = min(int(self.now * self.rate), self.rate)
        found = [each for number in range(self.sent, due) for each in _small(number)]
        self.sent, self.now = due, self.now + LOOK_SECONDS + MESSAGE_SECONDS * len(found)
        if self.sent == self.rate and not found:
            self.over.set()
        return found

    async def readable(self, wait_seconds: float) -> None:
        self.now += min(wait_seconds, 1 / self.rate)

    async def sleep(self, seconds: float) -> None:
        self.naps += seconds > 0
        self.now += seconds

    async def publish(self, frames: list[SealedFrame]) -> None:
        messages = (bytes(each) for frame in frames for _, each in body_messages(decode_frame(frame.data)))
        numbers = (cast(Begin, decode_message(each)).xid for each in messages if each[:1] == b"B")
        self.took += [self.now - number / self.rate for number in numbers]


def _small(number: int) -> list[memoryview]:
    commit_lsn, end_lsn = Lsn(number * 100 + 100), Lsn(number * 100 + 150)
    change = LogicalMessage(True, commit_lsn, "x", b"some text of a usual length")
    messages = (Begin(commit_lsn, 0, number), change, Commit(commit_lsn, end_lsn, 0))
    return [memoryview(encode_envelope(XLogData(end_lsn, end_lsn, 0, encode_message(each)))) for each in messages]


def played(rate: int, monkeypatch: pytest.MonkeyPatch) -> SteadyLoad:
    load = SteadyLoad(rate)
    monkeypatch.setattr(subject, "time", SimpleNamespace(monotonic=lambda: load.now))
    monkeypatch.setattr(subject, "asyncio", SimpleNamespace(sleep=load.sleep))
    publisher = SimpleNamespace(is_blocked=False, publish=load.publish, drained=Publisher().drained)
    asyncio.run(intake_of(load, publisher, Progress("p", 1)).run(load.over))
    return load


@pytest.mark.parametrize("rate", [1_000, 5_000, 8_000, 10_000, 20_000])
def test_a_nap_is_no_state_in_which_frames_close_by_size_alone(rate: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Steady small transactions kept the reader napping, and each waited until a whole frame was full."""
    load = played(rate, monkeypatch)
    took = sorted(load.took)
    assert len(took) == rate
    assert took[rate // 2] <= LINGER_SECONDS
    assert took[-1] <= 3 * LINGER_SECONDS


def test_under_a_load_without_pauses_naps_save_most_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    load = played(30_000, monkeypatch)
    assert load.naps > 300
    assert load.looks < 4_000
