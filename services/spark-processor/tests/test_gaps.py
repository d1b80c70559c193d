"""A gap that is announced: a lane goes on behind it whatever it lacks, says so, and passes over nothing else."""

import logging
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit.frames import RawLog, row
from kit.memory_sink import MemorySink

from tidegate.config.sinks import SinkConfig, SinkType, StartFrom
from tidegate.config.values import ToastPolicy
from tidegate.contracts.frame import decode_frame, encode_frame
from tidegate.errors import DecodeError, StreamError, TransientError
from tidegate.events import Operation
from tidegate.lsn import Lsn
from tidegate.pgoutput.messages import Insert
from tidegate.position import Position
from tidegate_processor.commit import Delivery
from tidegate_processor.kafka_clients import RawTopicView

SINK = SinkConfig(name="events", type=SinkType.KAFKA_TOPICS)
BEYOND = Lsn(0x9000)


def deliver(sink: MemorySink, log: RawLog, config: SinkConfig = SINK, beginning: int = 0) -> Delivery:
    return Delivery(
        "shop",
        config,
        sink,
        look=lambda: RawTopicView("topic", beginning, len(log.frames)),
        acked=lambda _: None,
        lineage=lambda: None,
        config_epoch="c1",
        incarnation=1,
    )


def feed(delivery: Delivery, log: RawLog, start: int = 0) -> Delivery:
    delivery.feed(enumerate(log.frames[start:], start))
    delivery.commit()
    return delivery


def numbers(sink: MemorySink) -> list[int]:
    return [int(change.message.new[0]) for change in sink.delivered if isinstance(change.message, Insert)]


def gapped() -> RawLog:
    """One transaction, the gap, a row that was there behind it, and a transaction."""
    log = RawLog()
    log.epoch()
    log.transaction(row(1))
    log.epoch(2, gap_to=BEYOND)
    log.snapshot((b"7", b"there"))
    log.transaction(row(2))
    return log


def test_what_stands_before_a_gap_comes_first_then_its_rows_then_what_goes_on() -> None:
    log, sink = gapped(), MemorySink()

    delivery = feed(deliver(sink, log), log)
    ack = delivery.ack()

    assert numbers(sink) == [1, 7, 2]
    assert [change.operation is Operation.SNAPSHOT for change in sink.delivered] == [False, True, False]
    assert (1, log.safe_lsn) == (delivery.counters.gaps, ack and ack.safe_lsn)


def test_a_gap_is_told_with_both_places(caplog: pytest.LogCaptureFixture) -> None:
    log = gapped()
    with caplog.at_level(logging.WARNING):
        feed(deliver(MemorySink(), log), log)

    [record] = [each for each in caplog.records if each.getMessage() == "gap_passed"]
    fields = vars(record)["tidegate_fields"]
    assert (fields["sink_has_all_to"], fields["goes_on"]) == ("0/1040", "0/9000")
    assert ("slot_missing", bytes(16).hex()) == (fields["reason"], fields["snapshot"])


def test_a_lane_that_lacks_nothing_passes_no_gap() -> None:
    """Another sink lacked it; the slot had moved within what the raw topic holds."""
    log, sink = RawLog(), MemorySink()
    log.epoch()
    log.transaction(row(1))
    log.transaction(row(2))
    has = log.safe_lsn
    log.epoch(2, gap_to=Lsn(0x1040))
    again = log.transaction(row(2))
    assert again
    log.transaction(row(3))

    delivery = feed(deliver(sink, log), log)

    assert (numbers(sink), delivery.counters.gaps) == ([1, 2, 3], 0)
    assert delivery.safe_lsn > has


def test_a_lane_whose_place_was_trimmed_comes_in_at_the_gap() -> None:
    log, sink = RawLog(), MemorySink()
    log.epoch()
    log.transaction(row(1))
    feed(deliver(sink, log), log)
    log.transaction(row(2))
    log.transaction(row(3))
    log.epoch(2, gap_to=BEYOND)
    log.snapshot((b"2", b"there"))

    late = feed(deliver(sink, log, beginning=3), log, start=3)

    assert numbers(sink) == [1, 2], "what is left before the gap may lack what came before it"
    assert (late.counters.gaps, late.waits_for) == (1, "")


def test_a_required_lane_that_has_nothing_begins_at_a_gap() -> None:
    log, sink = gapped(), MemorySink()
    config = SINK.model_copy(update={"start_from": StartFrom.EARLIEST})

    delivery = feed(deliver(sink, log, config, beginning=2), log, start=2)

    assert (numbers(sink), delivery.counters.gaps) == ([7, 2], 0)


def test_a_re_feed_beyond_what_the_sink_has_is_still_lost() -> None:
    log, sink = RawLog(), MemorySink()
    log.epoch()
    log.transaction(row(1))
    log.epoch(2, refeed_from=BEYOND)

    with pytest.raises(StreamError) as lost:
        feed(deliver(sink, log), log)

    assert lost.value.code == "GAP_LOST"


def test_a_rewound_lane_without_a_place_is_asked_about() -> None:
    """The sink has had beyond the gap; what a person wants again lies before it, and is gone."""
    log, sink = gapped(), MemorySink()
    delivery = feed(deliver(sink, log), log)
    has = delivery.position
    assert sink.cursor is not None
    sink.cursor = replace(sink.cursor, position=Position(Lsn(0x1000), 0), safe_lsn=Lsn(0x1000), rewound_from=has)
    sink.cursor = replace(sink.cursor, next_offset=0, epoch=1)

    with pytest.raises(StreamError) as lost:
        feed(deliver(sink, log, beginning=2), log, start=2)

    assert lost.value.code == "REWIND_TRIMMED"


def test_remembered_rows_are_forgotten_at_a_gap() -> None:
    """The lane starts anew behind it: what it had seen may have changed where nobody looked."""
    log, sink = gapped(), MemorySink()
    config = SINK.model_copy(update={"toast": ToastPolicy.PREVIOUS})
    first = deliver(sink, log, config)

    with pytest.raises(TransientError) as anew:
        feed(first, log)
    assert (anew.value.code, sink.cursor and sink.cursor.next_offset) == ("LANE_FORGETS", 3)
    second = feed(deliver(sink, log, config), log, start=3)

    assert (numbers(sink), second.counters.gaps) == ([1, 7, 2], 0)


def test_a_mode_that_a_lane_does_not_know_stops_it() -> None:
    log = RawLog()
    log.epoch()
    frame = decode_frame(log.frames[0])
    body = frame.body.replace(b'"mode":"continue"', b'"mode":"leapfrog"')

    with pytest.raises(DecodeError) as refused:
        deliver(MemorySink(), log).feed([(0, encode_frame(frame.header, body=(body,)))])

    assert refused.value.code == "EPOCH_MODE_UNKNOWN"


STEPS = st.lists(st.sampled_from(["rows", "rows", "gap", "refeed", "restart"]), min_size=1, max_size=14)


@given(STEPS, st.integers(0, 8))
def test_no_row_is_skipped_but_between_a_place_and_an_announced_gap(steps: list[str], trimmed: int) -> None:
    """Whatever epochs there are, and wherever the log begins: a lane has every row of the log that stands behind its
    place, or it is lost, or waits; and a sink lacks a row only if a gap was counted."""
    log, kept = RawLog(), list[tuple[int, int]]()
    log.epoch()
    for number, step in enumerate(steps, 1):
        if step == "rows":
            log.transaction(row(number))
            kept.append((len(log.frames) - 1, number))
        elif step == "gap":
            log.epoch(gap_to=Lsn(log.safe_lsn + 0x500))
        elif step == "refeed":
            log.epoch(refeed_from=log.safe_lsn)
    whole = MemorySink()
    feed(deliver(whole, log), log)
    assert [number for _, number in kept] == numbers(whole)

    beginning = min(trimmed, len(log.frames) - 1)
    sink = MemorySink()
    cut = deliver(sink, log, beginning=0)
    cut.feed(enumerate(log.frames[: min(2, len(log.frames))]))
    cut.commit()
    has = set(numbers(sink))
    late = deliver(sink, log, beginning=beginning)
    try:
        feed(late, log, start=beginning)
    except StreamError:
        return
    lacks = {number for _, number in kept} - set(numbers(sink))
    assert len(numbers(sink)) == len(set(numbers(sink))) >= len(has)
    if lacks and not late.waits_for:
        assert late.counters.gaps > 0
