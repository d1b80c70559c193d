"""The brokers lost the raw topic's log under its id, and it grew anew: nothing that stood elsewhere counts there."""

from kit.deliveries import deliver, feed
from kit.frames import RawLog, row
from kit.memory_sink import MemorySink

from tidegate_processor.ingest import Ingest


def test_an_epoch_frame_in_a_log_that_was_lost_under_it_is_void() -> None:
    """What it goes on behind is not there: a rewound lane took its position, and skipped what it was to deliver."""
    log = RawLog()
    log.epoch()
    log.transaction(row(1))
    log.epoch()
    ingest = Ingest(None, "topic", lambda: "topic")

    assert list(ingest.feed(0, log.frames[-1])) == []
    assert (ingest.epoch, ingest.void_frames) == (0, 1)


def test_a_frame_that_is_only_passed_over_is_no_place() -> None:
    """The brokers lost the log, and it grew anew beyond the lane, which had lost its place once before: its cursor said
    that it stood in the new epoch, and the next incarnation skipped what stood before."""
    log, anew, sink = RawLog(), RawLog(), MemorySink()
    log.epoch()
    log.transaction(row(1))
    feed(deliver(sink), log)
    log.tick()
    log.tick()
    lane = deliver(sink, beginning=3)
    feed(lane, log, start=3)
    assert lane.ingest.has_place
    anew.epoch(2)
    for number in range(4):
        anew.transaction(row(number))
    lane.feed([(4, anew.frames[4])])
    lane.commit(at_the_end=True)

    assert not lane.ingest.has_place
    assert sink.cursor is not None
    ack = lane.ack()
    assert ack is not None
    assert (sink.cursor.epoch, sink.cursor.next_offset, ack.epoch) == (1, 4, 1)
