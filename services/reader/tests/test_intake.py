"""The loop that reads must leave the others their turn, whatever comes in."""

import asyncio
import itertools
from types import SimpleNamespace
from typing import Any, cast

from tidegate.contracts.generation import Generation
from tidegate.lsn import Lsn
from tidegate.pgoutput.encode import encode_message
from tidegate.pgoutput.messages import Begin, Commit
from tidegate.pgoutput.wire import XLogData, encode_envelope
from tidegate.position import Position
from tidegate_reader.framer import Framer
from tidegate_reader.frames import EpochStamp
from tidegate_reader.intake import Intake
from tidegate_reader.metrics import ReaderMetrics
from tidegate_reader.progress import Progress

ENOUGH = 20_000
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


def test_a_skipped_backlog_starves_nobody() -> None:
    progress = Progress("p", 1)
    framer = Framer(
        EpochStamp(Generation(7, 1, "shop", "slot", b"n" * 16), 2, b"e" * 16, 0),
        max_frame_bytes=4096,
        linger_seconds=0.003,
        position=EVERYTHING,
        safe_lsn=Lsn(0),
        skip_to=EVERYTHING,
        next_seq=1,
        wall_clock=lambda: 0,
    )
    parts: tuple[Any, ...] = (SkippedBacklog(), framer, Publisher(), SimpleNamespace(), ReaderMetrics(progress, []))
    intake = Intake(*cast(Any, parts), progress)

    async def run() -> None:
        stop = asyncio.Event()
        asyncio.get_running_loop().call_soon(stop.set)
        await intake.run(stop)

    asyncio.run(run())
    assert progress.received_lsn > 0
