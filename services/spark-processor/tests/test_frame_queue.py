"""Frames between a stage's threads take a bounded room, however large they are."""

import queue
from itertools import count

import pytest

from tidegate_processor import frame_queue
from tidegate_processor.frame_queue import MOST_FRAMES, FrameQueue


@pytest.fixture
def frames(monkeypatch: pytest.MonkeyPatch) -> FrameQueue:
    monkeypatch.setattr(frame_queue, "_MOST_BYTES", 100)
    return FrameQueue()


def filled(frames: FrameQueue, size: int) -> int:
    """How many of that size go in."""
    for number in count():
        try:
            frames.put_nowait((number, bytes(size)))
        except queue.Full:
            return number
    raise AssertionError


@pytest.mark.parametrize(("size", "most"), [(0, MOST_FRAMES), (1, MOST_FRAMES), (30, 4), (100, 1), (5000, 1)])
def test_as_many_as_their_bytes_allow(frames: FrameQueue, size: int, most: int) -> None:
    assert filled(frames, size) == most
    taken, has_ended = frames.take(0)
    assert ([offset for offset, _ in taken], has_ended) == (list(range(most)), False)
    assert filled(frames, size) == most


def test_no_more_is_taken_than_may_wait(frames: FrameQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    """Though the other thread goes on meanwhile."""
    monkeypatch.setattr(frames, "get", lambda timeout: (0, bytes(40)))
    monkeypatch.setattr(frames, "get_nowait", lambda: (0, bytes(40)))
    assert len(frames.take(0)[0]) == 3


def test_the_end_comes_behind_what_waits(frames: FrameQueue) -> None:
    frames.put((1, b"a"))
    frames.put(None)
    taken, has_ended = frames.take(0)
    assert (len(taken), has_ended) == (1, True)
    assert frames.take(0) == (queue.deque(), False)
