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
    monkeypatch.setattr(portion, "_EVENTS_A_PARTITION", 0)  # so that a few events are many
    return lambda events: monkeypatch.setattr(portion, "_EVENTS", (events, events))


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


def of_size(events: int, partitions: int, *, seconds: float = 0.0, size: int = 2**30) -> portion.Portion:
    """After a commit of 200 partitions, and so many bytes, that took so long."""
    made = portion.Portion()
    made.add(200, size, 200)
    made.committed(seconds)
    made.clear()
    made.add(events, 0, partitions)
    made.ends(is_whole=True)
    return made


@pytest.mark.parametrize(
    ("events", "partitions", "seconds", "is_full"),
    [
        (9_999, 1, 0.2, False),
        (40_000, 1, 0.2, True),
        (39_999, 1, 0.2, False),
        (10_000, 500, 0.2, False),
        (100_000, 500, 0.2, True),
        (199_999, 1_999, 0.2, False),
        (200_000, 1_999, 0.2, True),
        (2_000, 1_999, 0.2, False),
        (2_000, 2_000, 0.2, True),
        (2_000, 200, 9.0, True),
        (2_000, 4_999, 0.001, False),
        (5_000, 5_000, 0.001, True),
    ],
)
def test_it_has_many_events_for_each_partition_and_no_more_of_these_than_brokers_commit_in_time(
    events: int, partitions: int, seconds: float, is_full: bool
) -> None:
    assert of_size(events, partitions, seconds=seconds).is_full is is_full


@pytest.mark.parametrize(
    ("events", "partitions", "waits_for_more"),
    [(1, 1, False), (1, 50, False), (1, 51, True), (10_199, 51, True), (10_200, 51, False), (99_999, 500, True)],
)
def test_with_a_few_events_for_each_of_many_partitions_it_goes_on_while_more_waits(
    events: int, partitions: int, waits_for_more: bool
) -> None:
    made = of_size(events, partitions, seconds=0.2)

    assert made.may_end_now(more_waits=True) is not waits_for_more
    assert made.may_end_now(more_waits=False)


@pytest.mark.parametrize(
    ("mebibytes", "partitions", "is_full"),
    [(15, 1, False), (16, 1, True), (31, 512, False), (32, 512, True), (64, 1_999, True)],
)
def test_it_has_many_bytes_for_each_partition(mebibytes: int, partitions: int, is_full: bool) -> None:
    made = of_size(1, partitions, seconds=0.2)
    made.add(0, mebibytes * 2**20, partitions)
    assert made.is_full is is_full


@pytest.mark.parametrize(("mebibytes", "is_full"), [(15, False), (16, True)])
def test_it_has_no_more_bytes_than_slow_brokers_take_in_time(mebibytes: int, is_full: bool) -> None:
    """It would be aborted, and again by the lane that comes after it."""
    made = of_size(1, 1_999, seconds=0.2, size=2**20)
    made.add(0, mebibytes * 2**20, 1_999)
    assert made.is_full is is_full


@pytest.mark.parametrize(
    ("events", "partitions", "more_waits", "may_end"),
    [
        (10, 1, True, True),
        (9_999, 50, True, True),
        (10, 51, True, False),
        (10, 51, False, True),
        (10_200, 51, True, True),
    ],
)
def test_while_more_waits_it_goes_on_until_each_of_many_partitions_has_enough(
    events: int, partitions: int, more_waits: bool, may_end: bool
) -> None:
    assert of_size(events, partitions, seconds=0.2).may_end_now(more_waits=more_waits) is may_end


def test_before_brokers_are_known_it_has_few_partitions() -> None:
    made = portion.Portion()
    made.add(200, 0, 200)
    made.ends(is_whole=True)
    assert made.is_full


def test_what_is_old_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    made = of_size(1, 1)
    assert not made.is_full
    begun = made._begun
    monkeypatch.setattr(portion.time, "monotonic", lambda: begun + portion._LONGEST_SECONDS)
    assert made.is_full
