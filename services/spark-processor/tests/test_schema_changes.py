"""A table changes its shape: told in order, before the first row of the new shape, or the lane stops there."""

from dataclasses import replace
from typing import Any

import pytest
from kit.deliveries import ADDED, REFUSING, deliver, feed
from kit.frames import ORDERS, RawLog, row
from kit.memory_sink import MemorySink

from tidegate.contracts.mark import MarkKind
from tidegate.errors import StreamError
from tidegate.pgoutput.decode import decode_message
from tidegate.pgoutput.messages import Column, Delete, Insert, OldKind, Truncate
from tidegate_processor.touches import touched_by_letter

RENAMED = replace(ORDERS, columns=(ORDERS.columns[0], replace(ORDERS.columns[1], name="remark")))


def changed(current: Any = ADDED) -> RawLog:
    log = RawLog()
    log.epoch()
    log.transaction(row(1))
    log.schema_change(ORDERS, current)
    log.transaction(Insert(ORDERS.relation_id, (b"2", b"", b"1.5")), relation=ADDED)
    return log


def keys(sink: MemorySink) -> list[bytes]:
    return [change.message.new[0] for change in sink.delivered]


def test_the_sink_is_told_and_rows_go_on() -> None:
    sink = MemorySink()
    feed(deliver(sink), changed())

    assert [mark.kind for mark in sink.marks] == [MarkKind.SCHEMA_CHANGE]
    assert keys(sink) == [b"1", b"2"]


def test_a_sink_that_ignores_it_is_told_nothing_and_rows_go_on() -> None:
    sink = MemorySink()
    feed(deliver(sink, schema_changes={"column_added": "ignore"}), changed())

    assert sink.marks == []
    assert keys(sink) == [b"1", b"2"]


def test_the_kind_of_change_decides() -> None:
    sink = MemorySink()
    feed(deliver(sink, schema_changes={"column_added": "halt", "column_renamed": "ignore"}), changed(RENAMED))

    assert sink.marks == []
    assert keys(sink) == [b"1", b"2"]


def test_the_lane_stops_before_the_first_row_of_the_new_shape_and_has_all_before_it() -> None:
    log, sink = changed(), MemorySink()
    halting = {"schema_changes": {"column_added": "halt"}}
    for _ in range(2):
        with pytest.raises(StreamError) as halted:
            feed(deliver(sink, **halting), log)
        assert halted.value.code == "SCHEMA_CHANGE_HALTED"
        assert "public.orders has changed: column_added weight" in halted.value.message
        assert "dead_letter" in halted.value.remedy
        assert keys(sink) == [b"1"]

    feed(deliver(sink), log)

    assert keys(sink) == [b"1", b"2"]
    assert len(sink.marks) == 1


def test_a_table_that_the_sink_does_not_take_is_none_of_its_business() -> None:
    sink = MemorySink()
    feed(deliver(sink, routes=[{"tables": ["public.people"]}], schema_changes={"column_added": "halt"}), changed())

    assert sink.marks == []


def test_what_was_told_is_not_told_again_where_an_epoch_sends_changes_again() -> None:
    log, sink = changed(), MemorySink()
    again = RawLog()
    again.epoch(2)
    again.transaction(row(1))
    again.schema_change(ORDERS, ADDED)
    again.transaction(Insert(ORDERS.relation_id, (b"2", b"", b"1.5")), relation=ADDED)
    log.frames += again.frames

    feed(deliver(sink), log)

    assert len(sink.marks) == 1


def test_begin_and_end_of_a_snapshot_are_told() -> None:
    log, sink = RawLog(), MemorySink()
    log.epoch()
    log.snapshot_mark(MarkKind.SNAPSHOT_STARTED)
    log.snapshot((b"1", b""))
    log.snapshot_mark(MarkKind.SNAPSHOT_COMPLETED, rows=1)

    feed(deliver(sink), log)

    assert [mark.kind for mark in sink.marks] == [MarkKind.SNAPSHOT_STARTED, MarkKind.SNAPSHOT_COMPLETED]
    assert keys(sink) == [b"1"]


PEOPLE = replace(ORDERS, relation_id=16390, name="people")


def added(log: RawLog, number: int, operation: type[Insert | Delete] = Insert) -> None:
    number_text = str(number).encode()
    change: Insert | Delete = Insert(ORDERS.relation_id, (number_text, b"", b"1.5"))
    if operation is Delete:
        change = Delete(ORDERS.relation_id, OldKind.KEY, (number_text, None, None))
    log.transaction(change, relation=ADDED)


def refused_keys(sink: MemorySink) -> list[bytes]:
    """Of dead letters, as a replay reads them."""
    rows = []
    for letter in sink.dead_letters:
        change = decode_message(letter.payload)
        rows.append(change.old[0] if isinstance(change, Delete) else change.new[0])
    return rows


def test_rows_of_a_refused_shape_are_dead_letters_and_other_tables_go_on() -> None:
    log, sink = changed(), MemorySink()
    log.transaction(replace(row(3), relation_id=PEOPLE.relation_id), relation=PEOPLE)
    added(log, 2, Delete)
    log.transaction(Truncate((ORDERS.relation_id,), 0), relation=ADDED)

    feed(deliver(sink, **REFUSING), log)

    changes = [change.message for change in sink.delivered]
    assert [type(change) for change in changes] == [Insert, Insert, Truncate]
    assert [change.new[0] for change in changes[:2]] == [b"1", b"3"]
    assert refused_keys(sink) == [b"2", b"2"]
    assert {letter.code for letter in sink.dead_letters} == {"SCHEMA_CHANGE_REFUSED"}
    touched = [touched_by_letter(letter) for letter in sink.dead_letters]  # as a replay asks: they can be delivered
    assert [each.keys for each in touched if each is not None] == [frozenset({(b"2",)})] * 2
    assert [mark.kind for mark in sink.marks] == [MarkKind.SCHEMA_CHANGE]


def test_others_of_the_same_transaction_keep_their_ordinals() -> None:
    """A partition and its neighbour in one frame: ids are made from ordinals."""
    log, sink = changed(), MemorySink()
    insert = Insert(ORDERS.relation_id, (b"4", b"", b"1"))
    log.transaction(insert, replace(row(5), relation_id=PEOPLE.relation_id), insert, relations=(ADDED, PEOPLE))

    feed(deliver(sink, **REFUSING), log)

    assert [(change.message.new[0], change.ordinal) for change in sink.delivered] == [(b"1", 0), (b"5", 1)]
    assert [letter.position.ordinal for letter in sink.dead_letters] == [0, 0, 2]


def test_a_lane_that_starts_behind_the_mark_refuses_the_same_rows() -> None:
    log, sink = changed(), MemorySink()
    feed(deliver(sink, **REFUSING), log)
    added(log, 3)

    feed(deliver(sink, **REFUSING), log)

    assert (keys(sink), refused_keys(sink)) == ([b"1"], [b"2", b"3"])


def test_rows_go_on_once_the_policy_says_so() -> None:
    log, sink = changed(), MemorySink()
    feed(deliver(sink, **REFUSING), log)
    added(log, 3)

    feed(deliver(sink, schema_changes={"type_changed": "dead_letter"}), log)

    assert (keys(sink), refused_keys(sink)) == ([b"1", b"3"], [b"2"])
    assert sink.cursor is not None
    assert sink.cursor.refused == ()


def test_the_shape_that_was_accepted_before_is_accepted_again_and_no_other() -> None:
    log, sink = changed(), MemorySink()
    wider = replace(ADDED, columns=(*ADDED.columns, Column(0, "height", 701, -1)))
    log.schema_change(ADDED, wider)
    log.transaction(Insert(ORDERS.relation_id, (b"3", b"", b"1", b"1")), relation=wider)
    log.schema_change(wider, ORDERS)
    log.transaction(row(4))

    feed(deliver(sink, **REFUSING), log)

    assert (keys(sink), refused_keys(sink)) == ([b"1", b"4"], [b"2", b"3"])


def test_rows_of_a_snapshot_in_a_refused_shape_are_dead_letters_too() -> None:
    log, sink = changed(), MemorySink()
    log.snapshot((b"7", b"", b"1"), relation=ADDED)

    feed(deliver(sink, **REFUSING), log)

    assert [letter.operation for letter in sink.dead_letters] == ["INSERT", "SNAPSHOT"]
    assert keys(sink) == [b"1"]


def test_a_letter_of_a_masked_table_says_only_where_the_change_stands() -> None:
    sink = MemorySink()
    mask = {"type": "mask", "options": {"columns": ["note"], "how": "redact"}}

    feed(deliver(sink, transforms=[mask], **REFUSING), changed())

    (letter,) = sink.dead_letters
    assert (letter.payload, letter.schema, letter.channel) == (b"", (), "public.orders")


def test_more_refused_shapes_than_a_cursor_holds_halt_the_lane() -> None:
    log, sink = RawLog(), MemorySink()
    log.epoch()
    tables = [replace(ORDERS, relation_id=20000 + at, name=f"t{at}") for at in range(30)]
    for table in tables:
        log.schema_change(table, replace(table, columns=ADDED.columns))

    with pytest.raises(StreamError) as halted:
        feed(deliver(sink, **REFUSING), log)

    assert halted.value.code == "SCHEMA_CHANGE_HALTED"
    assert sink.cursor is not None
    assert len(sink.cursor.refused) >= 14
    assert len(sink.cursor.encode()) < 4096
