"""A transaction of the source becomes visible at once, unless it is too large or its end does not come."""

from typing import Any

import pytest
from kit.frames import RawLog, row
from kit.memory_sink import MemorySink, delivery_into

from tidegate_processor import portion
from tidegate_processor.commit import Delivery


@pytest.fixture
def log() -> RawLog:
    """Offsets 1: a whole transaction, 2 to 4: one in three frames."""
    log = RawLog()
    log.epoch()
    log.transaction(row(1), row(2))
    log.split_transaction([row(3), row(4)], [row(5), row(6)])
    return log


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> Any:
    return lambda events: monkeypatch.setattr(portion, "_LIMITS", (events, 2**20, 100))


def fed(log: RawLog, stop: int) -> tuple[Delivery, MemorySink]:
    sink = MemorySink()
    delivery = delivery_into(sink)
    delivery.feed(list(enumerate(log.frames))[:stop])
    return delivery, sink


def test_half_of_one_is_not_committed_and_not_acked_before_its_end(log: RawLog) -> None:
    delivery, sink = fed(log, 3)
    assert (delivery.commit(), sink.commits) == (False, 0)

    delivery.feed(list(enumerate(log.frames))[3:])

    assert (delivery.commit(), sink.commits, len(sink.delivered)) == (True, 1, 6)


def test_a_limit_that_is_reached_inside_one_waits_for_its_end(log: RawLog, limits: Any) -> None:
    """What was there before is not its own."""
    limits(3)
    delivery, sink = fed(log, 3)
    assert (delivery.commit(), sink.commits) == (False, 0)


def test_one_that_is_larger_is_cut(log: RawLog, limits: Any) -> None:
    limits(2)
    _, sink = fed(log, 3)
    assert (sink.commits, len(sink.delivered)) == (2, 4)


def test_the_end_of_one_is_not_waited_for_for_ever(log: RawLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Brokers abort a transaction that stays open, and the reader may be away for long."""
    delivery, sink = fed(log, 3)
    begun = delivery._uncommitted._begun
    monkeypatch.setattr(portion.time, "monotonic", lambda: begun + portion._LONGEST_SECONDS)
    assert (delivery.commit(), sink.commits) == (True, 1)


def test_at_the_end_of_an_input_all_is_committed(log: RawLog) -> None:
    delivery, sink = fed(log, 3)
    assert (delivery.commit(at_the_end=True), sink.commits) == (True, 1)
