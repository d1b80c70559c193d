"""The brokers lost the raw topic, and it grew anew under a lane that reads on."""

import pytest
from kit.frames import RawLog, row

from tidegate.errors import TransientError
from tidegate_processor.ingest import Ingest


def taken(ingest: Ingest, frames: list[bytes], start: int = 0) -> list[int]:
    """The offsets that were taken."""
    return [found.offset for at, frame in enumerate(frames, start) for found in ingest.feed(at, frame)]


def test_log_wiped_under_a_lane_that_reads_on() -> None:
    """It had read epoch 1 where epoch 2 begins now. That is no hole, and nobody would ever end it."""
    old, new = RawLog(), RawLog()
    ingest = Ingest(None, "topic", lambda: "topic")
    new.epoch(2)

    assert taken(ingest, [old.epoch(1)]) == [0]
    with pytest.raises(TransientError) as raised:
        taken(ingest, [new.transaction(row(1))], start=1)
    assert raised.value.code == "RAW_TOPIC_REWRITTEN"


def test_a_late_frame_of_a_log_that_was_lost_is_no_reason_to_start_anew() -> None:
    """Out of step: it would be met again, before the epoch that ends it."""
    lost, new = RawLog(), RawLog()
    lost.epoch(7)
    lost.tick()
    frames = [new.epoch(1), lost.tick(), new.epoch(8), new.transaction(row(1))]

    assert taken(Ingest(None, "topic", lambda: "topic"), frames) == [0, 2, 3]


def test_log_wiped_and_read_again_by_spark_from_before_the_lanes_place() -> None:
    """It is shorter than it was: nothing may ever come that is new to the lane (seed 891947)."""
    old, new = RawLog(), RawLog()
    ingest = Ingest(None, "topic", lambda: "topic")
    assert taken(ingest, [old.epoch(1), *(old.transaction(row(at)) for at in range(5))]) == list(range(6))
    with pytest.raises(TransientError) as raised:
        taken(ingest, [new.epoch(2), new.transaction(row(1))])
    assert raised.value.code == "RAW_TOPIC_REWRITTEN"


def test_what_spark_reads_again_is_dropped() -> None:
    log = RawLog()
    frames = [log.epoch(1), log.transaction(row(1)), log.epoch(2), log.transaction(row(2))]
    ingest = Ingest(None, "topic", lambda: "topic")
    assert (taken(ingest, frames), taken(ingest, frames)) == ([0, 1, 2, 3], [])
