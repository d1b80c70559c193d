"""The writing thread's round: what it takes at once, and that the lane is heard of meanwhile."""

from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
from kit.frames import RawLog, row
from kit.memory_sink import MemorySink, delivery_into

from tidegate.contracts.control import Command, LaneControl
from tidegate.contracts.status import State
from tidegate_processor import stage
from tidegate_processor.commit import Delivery
from tidegate_processor.frame_queue import FrameQueue
from tidegate_processor.stage import Stage

FRAME_SECONDS = 0.4
SILENCE_SECONDS = 2.0


class SlowSink(MemorySink):
    """A frame takes it long, as one does whose rows are all dead letters."""

    def __init__(self, clock: list[float]) -> None:
        super().__init__()
        self._clock = clock

    def write(self, *frame: Any) -> Any:
        self._clock[0] += FRAME_SECONDS
        return super().write(*frame)


class Link:
    def __init__(self, clock: list[float], stop_after: float = 1e9) -> None:
        self.reports: list[tuple[float, State]] = []
        self.acks: list[int] = []
        self._clock, self._stop_after = clock, stop_after

    def control(self) -> LaneControl:
        return LaneControl(1, Command.STOP if self._clock[0] > self._stop_after else Command.RUN)

    def acknowledge(self, ack: Any) -> None:
        self.acks += [] if ack is None else [ack.offset]

    def report(self, state: State, _: Delivery) -> None:
        self.reports.append((self._clock[0], state))


class Fed(Stage):
    """With a whole queue before it, and no server behind it."""

    def __init__(self, log: RawLog, sink: MemorySink, link: Link) -> None:
        self.settings = SimpleNamespace(incarnation=1, until=None)  # type: ignore[assignment]
        self._link = link  # type: ignore[assignment]
        self._state = State.RUNNING
        self._queue = FrameQueue()
        for record in [*enumerate(log.frames), None]:
            self._queue.put(record)
        self._delivery = None
        self._made = delivery_into(sink)

    def _opened(self) -> Delivery:
        return self._made


def backlog(frames: int) -> RawLog:
    log = RawLog()
    log.epoch()
    for number in range(frames):
        log.transaction(row(number))
    return log


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [1000.0]
    monkeypatch.setattr(stage, "time", SimpleNamespace(monotonic=lambda: now[0]))
    return now


def test_a_backlog_of_frames_that_take_long_does_not_silence_the_lane(clock: list[float]) -> None:
    link, sink = Link(clock), SlowSink(clock)

    Fed(backlog(50), sink, link)._write()

    times = [time for time, _ in link.reports]
    assert len(sink.delivered) == 50
    assert max(later - earlier for earlier, later in pairwise(times)) < SILENCE_SECONDS
    assert link.acks == list(range(1, 51))


def test_a_lane_that_is_told_to_stop_does_not_work_its_backlog_off_first(clock: list[float]) -> None:
    link, sink = Link(clock, stop_after=1000.0 + 3 * FRAME_SECONDS), SlowSink(clock)

    Fed(backlog(50), sink, link)._write()

    assert len(sink.delivered) < 10
    assert {state for _, state in link.reports[-1:]} == {State.DRAINED}
    assert link.acks[-1] == len(sink.delivered)


def test_a_stop_that_was_told_to_an_earlier_incarnation_is_not_obeyed(clock: list[float], monkeypatch) -> None:
    """Redis was set back to when the lane was paused: the one that had gone on drained, and stood for ever."""
    link, sink = Link(clock), MemorySink()
    monkeypatch.setattr(link, "control", lambda: LaneControl(0, Command.STOP))

    Fed(backlog(50), sink, link)._write()

    assert len(sink.delivered) == 50
    assert {state for _, state in link.reports} == {State.RUNNING}


def test_frames_that_take_no_time_share_a_commit(clock: list[float]) -> None:
    link, sink = Link(clock), MemorySink()

    Fed(backlog(50), sink, link)._write()

    assert len(sink.delivered) == 50
    assert sink.commits == 1
