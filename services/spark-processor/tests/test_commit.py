"""From raw records to durable events and an ack: what is delivered, once, and what may be said to be durable."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit.frames import ORDERS, RawLog, row
from kit.memory_sink import MemorySink, delivery_into

from tidegate.config.sinks import Operation, Route, SinkConfig, SinkType
from tidegate.config.tables import TablePattern
from tidegate.contracts.ack import Ack
from tidegate.errors import StreamError, TransientError
from tidegate.lsn import Lsn
from tidegate.pgoutput.messages import Insert, LogicalMessage, Truncate
from tidegate.position import BEGINNING, Position
from tidegate_processor.commit import Delivery
from tidegate_processor.kafka_clients import RawTopicView

SINK = SinkConfig(name="events", type=SinkType.KAFKA_TOPICS)

RAW = RawTopicView("topic", 0, 1000)
MADE_AGAIN = RawTopicView("made again", 0, 1000)


def deliver(sink: MemorySink, config: SinkConfig = SINK) -> Delivery:
    return delivery_into(sink, config=config)


def feed(delivery: Delivery, log: RawLog, start: int = 0, stop: int | None = None) -> None:
    delivery.feed(enumerate(log.frames[start:stop], start))
    delivery.commit()


def notes(sink: MemorySink) -> list[int]:
    return [int(change.message.new[0]) for change in sink.delivered if isinstance(change.message, Insert)]


def test_changes_arrive_in_order_with_their_positions() -> None:
    log, sink = RawLog(), MemorySink()
    log.epoch()
    log.transaction(row(1), row(2))
    log.transaction(row(3))

    feed(deliver(sink), log)

    assert notes(sink) == [1, 2, 3]
    assert [change.position for change in sink.delivered] == [(0x1010, 0), (0x1010, 1), (0x1050, 0)]


def test_the_ack_says_what_the_last_commit_made_durable() -> None:
    log, sink = RawLog(), MemorySink()
    log.epoch()
    log.transaction(row(1))
    delivery = deliver(sink)

    feed(delivery, log)
    ack = delivery.ack()

    assert ack is not None
    assert (1, Position(Lsn(0x1010), 1), Lsn(0x1040)) == (ack.offset, ack.position, ack.safe_lsn)
    assert log.generation.id == ack.generation


def test_a_lane_that_has_seen_nothing_acks_nothing() -> None:
    assert deliver(MemorySink()).ack() is None


def test_a_commit_that_fails_leaves_nothing_and_a_new_stage_delivers_all_once() -> None:
    log, sink = RawLog(), MemorySink()
    log.epoch()
    log.transaction(row(1))
    log.transaction(row(2))
    first = deliver(sink)
    feed(first, log, stop=2)
    sink.fail_next_commit = True

    with pytest.raises(TransientError):
        feed(first, log, start=2)
    feed(deliver(sink), log)

    assert notes(sink) == [1, 2]


def test_what_a_new_epoch_sends_again_is_dropped_by_position() -> None:
    log, sink = RawLog(), MemorySink()
    log.epoch()
    log.transaction(row(1))
    again = RawLog()
    again.epoch(2)
    again.transaction(row(1))
    again.transaction(row(2))
    log.frames += again.frames

    feed(deliver(sink), log)

    assert notes(sink) == [1, 2]


def test_frames_without_rows_cause_no_write() -> None:
    log, sink = RawLog(), MemorySink()
    log.epoch()
    delivery = deliver(sink)
    feed(delivery, log)
    begun = sink.commits
    log.tick()
    log.tick()

    feed(delivery, log, start=1)

    assert (begun, sink.commits) == (1, 1)
    ack = delivery.ack()
    assert ack is not None
    assert (ack.offset, ack.safe_lsn) == (0, log.safe_lsn)  # the offset is the cursor's, the rest is news


def test_a_logical_message_moves_the_position_and_is_no_event() -> None:
    log, sink = RawLog(), MemorySink()
    log.epoch()
    log.transaction(LogicalMessage(1, Lsn(0x1000), "tidegate", b"beat"), row(1))

    feed(deliver(sink), log)

    assert [Position(Lsn(0x1010), 1)] == [change.position for change in sink.delivered]


def test_a_poisoned_row_becomes_a_dead_letter_and_the_rest_arrives() -> None:
    log = RawLog()
    sink = MemorySink(poison=lambda change: isinstance(change.message, Insert) and change.message.new[0] == b"2")
    log.epoch()
    log.transaction(row(1), row(2), row(3))

    feed(deliver(sink), log)

    assert notes(sink) == [1, 3]
    (letter,) = sink.dead_letters
    assert ("POISON", Position(Lsn(0x1010), 1), 1) == (letter.code, letter.position, letter.frame.offset)


def test_a_route_lets_only_its_tables_and_operations_pass() -> None:
    route = Route(tables=(TablePattern.parse("public.orders"),), operations=(Operation.TRUNCATE,))
    config = SINK.model_copy(update={"routes": (route,)})
    log, sink = RawLog(), MemorySink(config=config)
    log.epoch()
    log.transaction(row(1), Truncate((ORDERS.relation_id,), 0))

    feed(deliver(sink, config), log)

    assert [Truncate] == [type(change.message) for change in sink.delivered]


def test_a_lane_without_a_past_begins_with_the_first_whole_transaction() -> None:
    """The log's beginning was trimmed in the middle of a transaction."""
    log, sink = RawLog(), MemorySink()
    log.epoch()
    log.split_transaction([row(1), row(2)], [row(3)])
    log.transaction(row(4))

    feed(deliver(sink, SINK.model_copy(update={"required": False})), log, start=2)

    assert notes(sink) == [4]


@given(
    st.lists(st.integers(1, 3), min_size=1, max_size=12),
    st.lists(st.tuples(st.integers(0, 14), st.booleans()), max_size=6),
)
def test_whatever_dies_when_every_change_arrives_once(sizes: list[int], crashes: list[tuple[int, bool]]) -> None:
    """A stage dies before or after any commit; the next one starts at the committed cursor."""
    log, sink = RawLog(), MemorySink()
    log.epoch()
    number = 0
    for size in sizes:
        log.transaction(*(row(number + n) for n in range(size)))
        number += size
    for stop, committed in crashes:
        delivery = deliver(sink)
        delivery.feed(enumerate(log.frames[:stop]))
        if committed:
            delivery.commit()
        delivery.close()

    last = deliver(sink)
    feed(last, log)

    assert list(range(number)) == notes(sink)
    assert last.position == log.position if number else last.position >= BEGINNING


def test_in_a_topic_that_was_made_again_the_position_counts_and_the_offset_does_not() -> None:
    log, sink = RawLog(), MemorySink()
    log.epoch()
    log.transaction(row(1))
    log.transaction(row(2))
    feed(deliver(sink), log)

    again = RawLog(topic_id="made again")
    again.epoch(2)
    again.transaction(row(1))
    again.transaction(row(2))
    again.transaction(row(3))
    feed(late_delivery(sink, acked=None), again)

    assert notes(sink) == [1, 2, 3]


def test_a_re_feed_that_starts_beyond_what_the_sink_has_is_a_gap() -> None:
    """The source let go of what a best-effort sink had not got, and the raw topic lost it."""
    log, sink = RawLog(), MemorySink()
    log.epoch()
    log.transaction(row(1))
    feed(deliver(sink), log)
    again = RawLog(topic_id="made again")
    again.epoch(2, refeed_from=Lsn(0x9000))
    late = late_delivery(sink, acked=None)

    with pytest.raises(StreamError) as raised:
        feed(late, again)

    assert raised.value.code == "GAP_LOST"


def test_a_re_feed_from_where_the_ack_stands_is_no_gap() -> None:
    """An idle lane commits its cursor now and then only; its ack knows more."""
    log, sink = RawLog(), MemorySink()
    log.epoch()
    log.transaction(row(1))
    delivery = deliver(sink)
    feed(delivery, log)
    ack = delivery.ack()
    assert ack is not None
    again = RawLog(topic_id="made again")
    again.safe_lsn = Lsn(0x9000)
    again.epoch(2, refeed_from=Lsn(0x9000))
    again.transaction(row(2))

    feed(late_delivery(sink, acked=replace(ack, safe_lsn=Lsn(0x9000))), again)

    assert notes(sink) == [1, 2]


def test_a_cursor_that_is_gone_is_not_guessed() -> None:
    log, sink = RawLog(), MemorySink()
    log.epoch()
    log.transaction(row(1))
    delivery = deliver(sink)
    feed(delivery, log)
    sink.cursor = None
    forgetful = late_delivery(sink, acked=delivery.ack(), raw=RAW)

    with pytest.raises(StreamError) as raised:
        feed(forgetful, log)

    assert raised.value.code == "CURSOR_MISSING"
    assert notes(sink) == [1]


def late_delivery(sink: MemorySink, *, acked: Ack | None, raw: RawTopicView = MADE_AGAIN) -> Delivery:
    return Delivery(
        "shop",
        SINK,
        sink,
        look=lambda: raw,
        acked=lambda _: acked,
        lineage=lambda: None,
        config_epoch="c1",
        incarnation=2,
    )
