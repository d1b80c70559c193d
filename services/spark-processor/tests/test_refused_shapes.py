"""From where to where a shape is refused: the same rows, however often the lane comes by."""

from dataclasses import replace
from typing import Any

from kit.deliveries import ADDED, REFUSING, deliver, feed, to_the_beginning, weighed
from kit.frames import ORDERS, RawLog, row
from kit.memory_sink import MemorySink

from tidegate.contracts.ack import decode_ack
from tidegate.pgoutput.messages import Column, Insert

NARROW = replace(ORDERS, columns=ORDERS.columns[:1])
RETYPED = replace(ORDERS, columns=(ORDERS.columns[0], Column(0, "note", 1043, -1)))


def outcome(sink: MemorySink) -> tuple[list[int], list[int]]:
    """Rows that were delivered, and the offsets of frames with dead letters."""
    return [int(change.message.new[0]) for change in sink.delivered], [each.frame.offset for each in sink.dead_letters]


def rewound(sink: MemorySink) -> MemorySink:
    again = MemorySink()
    assert sink.cursor is not None
    again.cursor = to_the_beginning(sink.cursor)
    return again


def both_times(log: RawLog, **settings: Any) -> list[tuple[list[int], list[int]]]:
    """Delivered once, and again after a rewind to the beginning."""
    sink = MemorySink()
    feed(deliver(sink, **settings), log)
    again = rewound(sink)
    feed(deliver(again, **settings), log)
    return [outcome(sink), outcome(again)]


def test_a_rewind_delivers_rows_of_a_shape_that_was_accepted_before_it_was_refused() -> None:
    log = RawLog()
    log.epoch()
    log.transaction(weighed(1), relation=ADDED)
    log.schema_change(ADDED, ORDERS)
    log.transaction(row(2))
    log.schema_change(ORDERS, ADDED)
    log.transaction(weighed(3), relation=ADDED)

    assert both_times(log, **REFUSING) == [([1, 2], [5])] * 2


def test_a_refused_shape_that_is_reached_by_changes_that_are_accepted_is_delivered() -> None:
    log = RawLog()
    log.epoch()
    log.transaction(row(1))
    log.schema_change(ORDERS, RETYPED)
    log.transaction(row(2), relation=RETYPED)
    log.schema_change(RETYPED, ORDERS)
    log.transaction(row(3))
    log.schema_change(ORDERS, NARROW)
    log.transaction(Insert(ORDERS.relation_id, (b"4",)), relation=NARROW)
    log.schema_change(NARROW, RETYPED)
    log.transaction(row(5), relation=RETYPED)
    log.schema_change(RETYPED, ORDERS)
    log.schema_change(ORDERS, RETYPED)
    log.transaction(row(6), relation=RETYPED)

    assert both_times(log, schema_changes={"type_changed": "dead_letter"}) == [([1, 3, 4, 5], [3, 12])] * 2


def test_rows_of_a_snapshot_are_refused_where_their_frame_stands() -> None:
    log = RawLog()
    log.epoch()
    log.transaction(row(1))
    log.snapshot((b"2", b"", b"1"), relation=ADDED)
    log.schema_change(ORDERS, ADDED)
    log.transaction(weighed(3), relation=ADDED)
    log.snapshot((b"4", b"", b"1"), relation=ADDED)

    assert both_times(log, **REFUSING) == [([1, 2], [4, 5])] * 2


def test_another_reason_for_refusing_a_shape_counts_from_its_own_mark() -> None:
    """A table that comes to the shape from another one is accepted again where it goes back to that."""
    log, sink = RawLog(), MemorySink()
    log.epoch()
    log.schema_change(ORDERS, ADDED)
    log.transaction(weighed(1), relation=ADDED)
    log.schema_change(ADDED, ORDERS)
    log.schema_change(ORDERS, NARROW)
    log.transaction(Insert(ORDERS.relation_id, (b"2",)), relation=NARROW)
    log.schema_change(NARROW, ADDED)
    log.transaction(weighed(3), relation=ADDED)
    log.schema_change(ADDED, NARROW)
    log.transaction(Insert(ORDERS.relation_id, (b"4",)), relation=NARROW)

    feed(deliver(sink, **REFUSING), log)

    assert outcome(sink) == ([2, 4], [2, 7])
    assert sink.cursor is not None
    assert [each.until is None for each in sink.cursor.refused] == [False, True]


def test_what_is_refused_is_not_forgotten_with_the_raw_topic() -> None:
    """Kafka forgets the cursor with the topic; the ack stands for it."""
    log, sink = RawLog(), MemorySink()
    log.epoch()
    log.transaction(row(1))
    log.schema_change(ORDERS, ADDED)
    log.transaction(weighed(2), relation=ADDED)
    delivery = deliver(sink, **REFUSING)
    feed(delivery, log)
    stored = delivery.ack()
    assert stored is not None
    ack = decode_ack(stored.encode(), sink="events", generation=stored.generation)
    again = RawLog(topic_id="made again")
    again.safe_lsn, again.position = log.safe_lsn, log.position
    again.epoch(2)
    again.transaction(weighed(3), relation=ADDED)

    sink.cursor = None
    feed(deliver(sink, topic="made again", acked=lambda _: ack, **REFUSING), again)

    assert outcome(sink) == ([1], [3, 1])
    assert sink.cursor is not None
    assert sink.cursor.refused == ack.refused
