"""Where a lane comes into a log that does not hold its place: never behind something it needs and has not got."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from kit.frames import RawLog, row
from kit.memory_sink import MemorySink, delivery_into

from tidegate.config.sinks import SinkConfig, SinkType, StartFrom
from tidegate.contracts.ack import Ack
from tidegate.contracts.cursor import Cursor
from tidegate.contracts.epoch import decode_epoch
from tidegate.contracts.frame import decode_frame
from tidegate.contracts.lineage import Lineage
from tidegate.errors import StreamError, TransientError
from tidegate.lsn import Lsn
from tidegate.pgoutput.messages import Insert
from tidegate_processor import place
from tidegate_processor.commit import Delivery
from tidegate_processor.epoch_walk import Seen
from tidegate_processor.kafka_clients import RawTopicView

SINK = SinkConfig(name="events", type=SinkType.KAFKA_TOPICS)
BEST_EFFORT = SINK.model_copy(update={"required": False})
RAW = RawTopicView("topic", 0, 1000)
FROM_NOW = SINK.model_copy(update={"start_from": StartFrom.NOW})
FROM_SNAPSHOT = SINK.model_copy(update={"start_from": StartFrom.SNAPSHOT})


def deliver(
    sink: MemorySink,
    config: SinkConfig = SINK,
    raw: RawTopicView = RAW,
    acked: Ack | None = None,
    lineage: Lineage | None = None,
    head: Callable[[], Seen | None] = lambda: None,
) -> Delivery:
    return delivery_into(sink, config=config, raw=raw, acked=lambda _: acked, lineage=lineage, head=head)


def feed(delivery: Delivery, log: RawLog, start: int = 0, stop: int | None = None) -> None:
    delivery.feed(enumerate(log.frames[start:stop], start))
    delivery.commit(at_the_end=True)


def notes(sink: MemorySink) -> list[int]:
    return [int(change.message.new[0]) for change in sink.delivered if isinstance(change.message, Insert)]


def three_transactions() -> tuple[RawLog, MemorySink]:
    """The first of them is delivered."""
    log, sink = RawLog(), MemorySink()
    log.epoch()
    for number in (1, 2, 3):
        log.transaction(row(number))
    feed(deliver(sink), log, stop=2)
    return log, sink


def trimmed(log: RawLog, beginning: int) -> RawTopicView:
    return RawTopicView("topic", beginning, len(log.frames))


def test_a_lane_that_retention_overtook_waits_and_is_fed_again() -> None:
    log, sink = three_transactions()
    late = deliver(sink, raw=trimmed(log, 3))
    before = late.ack()
    feed(late, log, start=3)
    assert (notes(sink), late.waits_for != "") == ([1], True)
    assert before is not None
    assert replace(late.ack() or before, time=0) == replace(before, time=0)

    again = RawLog()
    again.transaction(row(1))
    again.frames.clear()
    again.epoch(2, refeed_from=again.safe_lsn)
    again._epoch_offset = 4
    again.transaction(row(2))
    again.transaction(row(3))
    late.feed(enumerate(again.frames, 4))
    late.commit()

    assert (notes(sink), late.waits_for) == ([1, 2, 3], "")


def test_a_lane_whose_place_was_trimmed_goes_on_where_the_log_reaches_back_to_it() -> None:
    """Only what had no rows is gone: the first frame left stands where the lane does."""
    log, sink = RawLog(), MemorySink()
    log.epoch()
    log.transaction(row(1))
    feed(deliver(sink), log)
    log.tick()
    log.tick()
    log.transaction(row(2))

    feed(deliver(sink, raw=trimmed(log, 3)), log, start=3)

    assert notes(sink) == [1, 2]


def test_a_hole_that_was_trimmed_away_still_voids_what_stands_behind_it() -> None:
    log, sink = RawLog(), MemorySink()
    log.epoch()
    feed(deliver(sink), log)
    log.transaction(row(1))
    log.frames.pop()  # lost on its way
    log.tick()
    log.tick()

    late = deliver(sink, raw=trimmed(log, 2), lineage=lineage(log, 0x9000))
    feed(late, log, start=2)

    assert "frames are missing" in late.waits_for


def test_a_best_effort_lane_that_retention_overtook_is_lost() -> None:
    log, sink = three_transactions()
    late = deliver(sink, BEST_EFFORT, trimmed(log, 3))

    with pytest.raises(StreamError) as raised:
        feed(late, log, start=3)

    assert (raised.value.code, notes(sink)) == ("RAW_TOPIC_TRIMMED", [1])


def test_a_re_feed_above_what_a_waiting_lane_has_is_a_gap() -> None:
    log, sink = three_transactions()
    late = deliver(sink, raw=trimmed(log, 3))
    feed(late, log, start=3)
    log.epoch(2, refeed_from=log.safe_lsn)

    with pytest.raises(StreamError) as raised:
        feed(late, log, start=4)

    assert raised.value.code == "GAP_LOST"


def lineage(log: RawLog, kept_from: int) -> Lineage:
    return Lineage(log.generation, 1, "topic", Lsn(kept_from), ("events",), ())


@pytest.mark.parametrize(
    "config", [SINK, BEST_EFFORT, FROM_NOW, FROM_SNAPSHOT], ids=["required", "best effort", "from now", "from snapshot"]
)
def test_a_new_lane_begins_behind_a_trimmed_beginning_only_if_nothing_is_owed_to_it(config: SinkConfig) -> None:
    log, _ = three_transactions()
    sink = MemorySink()

    feed(deliver(sink, config, trimmed(log, 2), lineage=lineage(log, 0x1000)), log, start=2)

    assert notes(sink) == ([] if config is SINK else [2, 3])
    assert (sink.cursor is None) == (config is SINK)


def test_a_new_lane_begins_where_the_log_reaches_back_to_what_the_source_keeps() -> None:
    log, _ = three_transactions()
    sink = MemorySink()

    feed(deliver(sink, raw=trimmed(log, 2), lineage=lineage(log, log.safe_lsn)), log, start=2)

    assert notes(sink) == [2, 3]


@pytest.mark.parametrize("topic_id", [None, "another"])
def test_a_new_lane_does_not_guess_what_the_source_keeps(topic_id: str | None) -> None:
    log, _ = three_transactions()
    said = None if topic_id is None else replace(lineage(log, 0x9000), topic_id=topic_id)

    with pytest.raises(TransientError) as raised:
        feed(deliver(MemorySink(), raw=trimmed(log, 2), lineage=said), log, start=2)

    assert raised.value.code == "LINEAGE_UNKNOWN"


def test_a_new_lane_that_waits_starts_anew_when_less_is_owed_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sink was added: the reader that ran before it said where it had begun, long ago."""
    monkeypatch.setattr(place, "_LOOK_SECONDS", 0.0)
    log, _ = three_transactions()
    sink, known = MemorySink(), [lineage(log, 0x1000)]
    waiting = deliver(sink, raw=trimmed(log, 2))
    waiting._place._lineage = lambda: known[0]
    feed(waiting, log, start=2)
    assert waiting.waits_for

    known[0] = lineage(log, log.safe_lsn)
    with pytest.raises(TransientError) as raised:
        waiting.feed([])

    assert raised.value.code == "LANE_MAY_BEGIN"


@pytest.mark.parametrize(("refed", "meant_for"), [(True, "topic"), (True, "topic before"), (False, "topic")])
def test_a_new_lane_that_was_not_given_the_beginning_starts_anew_where_it_can_begin_there(
    refed: bool, meant_for: str
) -> None:
    """The brokers lost the log when its query had asked where it begins: it waited for ever behind a re-feed."""
    log = RawLog(topic_id=meant_for)
    log.epoch()
    log.transaction(row(1))
    log.epoch(refeed_from=Lsn(0x1000) if refed else None)
    log.transaction(row(1))
    said, begins = lineage(log, 0x1000), len(log.frames) - 2
    frame = decode_frame(log.frames[begins])
    head = Seen(begins, frame.header, decode_epoch(frame.body))
    waiting = deliver(MemorySink(), raw=trimmed(log, begins), lineage=said, head=lambda: head)

    if refed and meant_for == "topic":
        with pytest.raises(TransientError) as raised:
            feed(waiting, log, start=begins + 1)
        assert raised.value.code == "LANE_MAY_BEGIN"
    else:
        feed(waiting, log, start=begins + 1)
        assert waiting.waits_for


@pytest.mark.parametrize(("names", "kept_from"), [(("another",), 0x1000), (("events",), 0x100)])
def test_a_new_lane_does_not_begin_with_what_others_are_fed_again(names: tuple[str, ...], kept_from: int) -> None:
    """A sink was added while a reader fed another one again: what is kept for the new one may begin before that."""
    log = RawLog()
    log.epoch(refeed_from=Lsn(0x1000))
    log.transaction(row(1))
    said = replace(lineage(log, kept_from), required=names)
    new = deliver(sink := MemorySink(), raw=trimmed(log, 0), lineage=said)

    if "events" in names:
        feed(new, log)
        assert new.waits_for
    else:
        with pytest.raises(TransientError) as raised:
            feed(new, log)
        assert raised.value.code == "LINEAGE_UNKNOWN"
    assert sink.commits == 0


def test_in_a_topic_that_was_made_again_the_ack_is_said_again_at_once() -> None:
    """Redis may have lost it, and the reader must know it before it decides where to begin."""
    _, sink = three_transactions()

    ack = deliver(sink, raw=RawTopicView("made again", 0, 0)).ack()

    assert ack is not None
    assert (ack.topic_id, ack.offset) == ("topic", 1)


def test_a_log_that_ends_before_the_cursor_stops_the_lane() -> None:
    log, sink = RawLog(), MemorySink()
    log.epoch()
    log.transaction(row(1))
    feed(deliver(sink), log)

    with pytest.raises(StreamError) as raised:
        deliver(sink, raw=RawTopicView("topic", 0, 1))

    assert raised.value.code == "RAW_TOPIC_TRUNCATED"


def test_the_log_is_looked_at_after_the_fence() -> None:
    """Until then the stage before may have committed what came after an earlier look."""
    _, sink = three_transactions()
    ends = [2]
    open_it = sink.open

    def slow_open() -> Cursor | None:
        sink.cursor, ends[0] = replace(sink.cursor, next_offset=4) if sink.cursor else None, 4
        return open_it()

    sink.open = slow_open  # type: ignore[method-assign]
    late = Delivery(
        "shop",
        SINK,
        sink,
        look=lambda: RawTopicView("topic", 0, ends[0]),
        acked=lambda _: None,
        lineage=lambda: None,
        config_epoch="c1",
        incarnation=2,
    )

    assert late.ingest.next_offset == 4


def test_a_re_feed_from_a_transaction_that_a_sink_has_in_part_is_no_gap() -> None:
    """What commits before it is there, whatever the log last said to be safe (seed 106085)."""
    log, sink = RawLog(), MemorySink()
    log.epoch()
    log.split_transaction([row(1), row(2)], [row(3)])
    log.frames.pop()
    feed(deliver(sink), log)
    log.safe_lsn = Lsn(log.position.commit_lsn - 0x10)
    log.epoch(2, refeed_from=log.position.commit_lsn)
    log.transaction(row(1), row(2), row(3))

    feed(deliver(sink), log, start=2)

    assert notes(sink) == [1, 2, 3]
