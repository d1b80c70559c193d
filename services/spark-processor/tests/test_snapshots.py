"""Rows of a snapshot: delivered once, and never over what has changed since they were read."""

from collections.abc import Iterable
from dataclasses import replace

import pytest
from kit.frames import ORDERS, RawLog, row
from kit.memory_sink import MemorySink, delivery_into

from tidegate.contracts.frame import decode_frame
from tidegate.errors import StreamError, TransientError
from tidegate.events import SNAPSHOT_ORDINALS, Operation
from tidegate.lsn import Lsn
from tidegate.pgoutput.messages import UNCHANGED, Column, Delete, Insert, OldKind, Truncate, Update
from tidegate.position import BEGINNING, Position
from tidegate_processor.commit import Delivery
from tidegate_processor.decode import decode_changes
from tidegate_processor.redelivery import frame_of
from tidegate_processor.snapshots import Record
from tidegate_processor.speaking import speaking

ID = ORDERS.relation_id
Delivered = list[tuple[str, tuple[bytes | None, ...]]]


def feed(delivery: Delivery, log: RawLog, start: int = 0, stop: int | None = None) -> None:
    delivery.feed(enumerate(log.frames[start:stop], start))
    delivery.commit()


def rows(sink: MemorySink) -> Delivered:
    """What was delivered of the snapshot, and what beside it."""
    return [(change.operation, getattr(change.message, "new", ())) for change in sink.delivered]


def snapshot_rows(sink: MemorySink) -> list[tuple[bytes | None, ...]]:
    return [new for operation, new in rows(sink) if operation is Operation.SNAPSHOT]


def change_of(number: int, note: bytes | None = b"new") -> Update:
    return Update(ID, None, None, (str(number).encode(), UNCHANGED if note is None else note))


def removal(number: int) -> Delete:
    return Delete(ID, OldKind.KEY, (str(number).encode(), None))


def move(old: int, new: int, note: bytes | None = b"new") -> Update:
    value = UNCHANGED if note is None else note
    return Update(ID, OldKind.KEY, (str(old).encode(), None), (str(new).encode(), value))


def window_of(*changes: Insert | Update | Delete | Truncate, before: int = 0) -> tuple[RawLog, Position]:
    """A log with one transaction below the window, `changes` in it, and rows 1 to 4 as they were read before."""
    log = RawLog()
    log.epoch()
    log.transaction(row(1, "older"))
    low = log.position
    for change in changes:
        log.transaction(change)
    log.snapshot(*((b"%d" % number, b"read") for number in range(1, 5)), low=low, low_offset=2)
    return log, low


def kept(*changes: Insert | Update | Delete | Truncate) -> list[tuple[bytes | None, ...]]:
    log, _ = window_of(*changes)
    sink = MemorySink()
    feed(delivery_into(sink), log)
    return snapshot_rows(sink)


def test_rows_before_every_change_are_delivered_as_they_are() -> None:
    log, sink = RawLog(), MemorySink()
    log.epoch()
    log.snapshot((b"1", b"a\tb\\"), (b"2", None))
    log.transaction(row(3))

    feed(delivery_into(sink), log)

    assert rows(sink) == [("SNAPSHOT", (b"1", b"a\tb\\")), ("SNAPSHOT", (b"2", None)), ("INSERT", (b"3", b""))]


def test_a_row_that_has_not_changed_is_delivered() -> None:
    assert kept() == [(b"%d" % number, b"read") for number in range(1, 5)]


def test_a_change_below_the_window_drops_nothing() -> None:
    assert (b"1", b"read") in kept(change_of(2))


@pytest.mark.parametrize(
    ("changes", "dropped"),
    [
        ([change_of(2)], {b"2"}),
        ([row(3, "inserted")], {b"3"}),
        ([removal(4)], {b"4"}),
        ([removal(4), row(4, "again")], {b"4"}),
        ([move(1, 9)], {b"1"}),
        ([move(9, 1)], {b"1"}),
        ([move(1, 2)], {b"1", b"2"}),
        ([Truncate((ID,), 0)], {b"1", b"2", b"3", b"4"}),
        ([Truncate((ID,), 0), row(2)], {b"1", b"2", b"3", b"4"}),
    ],
)
def test_a_row_that_has_changed_in_the_window_is_not(
    changes: list[Insert | Update | Delete], dropped: set[bytes]
) -> None:
    assert {number for number, _ in kept(*changes)} == {b"1", b"2", b"3", b"4"} - dropped


@pytest.mark.parametrize(
    ("changes", "row_now"),
    [
        ([change_of(2, None)], (b"2", b"read")),
        ([change_of(2, b"newer"), change_of(2, None)], None),
        ([change_of(2, None), removal(2)], None),
        ([change_of(2, None), change_of(2, b"newer")], None),
        ([move(2, 7, None)], (b"7", b"read")),
        ([move(2, 7, None), move(7, 8, None)], (b"8", b"read")),
        ([move(2, 7, None), removal(7)], None),
        ([move(2, 7, None), change_of(7)], None),
        ([move(2, 7, None), row(2, "another")], None),
    ],
)
def test_what_a_change_did_not_send_comes_from_the_row(
    changes: list[Insert | Update | Delete], row_now: tuple[bytes, bytes] | None
) -> None:
    others = [(number, b"read") for number in (b"1", b"3", b"4")]
    assert sorted(kept(*changes)) == sorted([*others, row_now] if row_now else others)


WIDE = replace(ORDERS, columns=(*ORDERS.columns, Column(0, "big", 25, -1), Column(0, "huge", 25, -1)))


def test_the_newest_value_that_was_sent_stands_in_the_row() -> None:
    log, sink = RawLog(), MemorySink()
    log.epoch()
    for sent in [(b"1", b"a", b"sent", UNCHANGED), (b"1", b"b", UNCHANGED, UNCHANGED)]:
        log.transaction(Update(ID, None, None, sent), relation=WIDE)
    log.snapshot((b"1", b"read", b"read", b"r\\ead\t"), low=BEGINNING, low_offset=1, relation=WIDE)

    feed(delivery_into(sink), log)

    assert snapshot_rows(sink) == [(b"1", b"b", b"sent", b"r\\ead\t")]


def test_rows_without_a_key_are_all_delivered() -> None:
    keyless = replace(ORDERS, columns=tuple(replace(column, flags=0) for column in ORDERS.columns))
    log, sink = RawLog(), MemorySink()
    log.epoch()
    log.transaction(row(1), relation=keyless)
    log.snapshot((b"1", b""), low=BEGINNING, low_offset=1, relation=keyless)

    feed(delivery_into(sink), log)

    assert snapshot_rows(sink) == [(b"1", b"")]


def test_a_row_keeps_its_id_whatever_is_left_out_before_it() -> None:
    log, _ = window_of(change_of(1))
    sink = MemorySink()
    feed(delivery_into(sink), log)

    assert [change.ordinal for change in sink.delivered if change.operation is Operation.SNAPSHOT] == [1, 2, 3]


@pytest.mark.parametrize("resumes_at", range(1, 6))
def test_a_lane_that_begins_inside_a_window_reads_back(resumes_at: int) -> None:
    log, _ = window_of(change_of(2), change_of(3, None))
    whole, sink, asked = MemorySink(), MemorySink(), []
    feed(delivery_into(whole), log)

    def again(start: int, stop: int) -> Iterable[Record]:
        asked.append(start)
        return enumerate(log.frames[start:stop], start)

    feed(delivery_into(sink), log, stop=resumes_at)
    feed(delivery_into(sink, again), log, start=resumes_at)

    assert rows(sink) == rows(whole)
    assert asked == ([2] if 2 < resumes_at < 5 else [])


def test_what_stands_before_rows_is_committed_before_the_log_is_read_once_more() -> None:
    """An open transaction would be aborted meanwhile; and whoever dies there begins with the rows again."""
    log, _ = window_of(change_of(2), change_of(3))
    whole, sink = MemorySink(), MemorySink()
    feed(delivery_into(whole), log)
    feed(delivery_into(sink), log, stop=3)
    at = []

    def dies(_start: int, _stop: int) -> Iterable[Record]:
        at.append((sink.cursor.next_offset, len(sink.delivered)))
        raise TransientError("the worker dies", code="DIES")

    with pytest.raises(TransientError):
        feed(delivery_into(sink, dies), log, start=3)
    feed(delivery_into(sink, lambda start, stop: enumerate(log.frames[start:stop], start)), log, start=4)

    assert at == [(4, 3)]
    assert rows(sink) == rows(whole)


def test_a_table_without_a_key_asks_for_no_window() -> None:
    keyless = replace(ORDERS, columns=tuple(replace(column, flags=0) for column in ORDERS.columns))
    log, sink = RawLog(), MemorySink()
    log.epoch()
    log.transaction(row(1), relation=keyless)
    log.snapshot((b"1", b""), low=BEGINNING, low_offset=1, relation=keyless)
    feed(delivery_into(sink), log, stop=2)

    feed(delivery_into(sink), log, start=2)  # which can't look back

    assert snapshot_rows(sink) == [(b"1", b"")]


def test_a_long_way_back_is_no_silence() -> None:
    now, spoken = iter(range(100)), []
    records = [(offset, None) for offset in range(10)]

    found = list(speaking(records, lambda: spoken.append(True), lambda: next(now) / 4))

    assert found == records
    assert 2 <= len(spoken) < 10


def test_a_row_is_neither_lost_nor_doubled_by_a_commit_that_fails() -> None:
    log, sink = RawLog(), MemorySink()
    log.epoch()
    log.snapshot((b"1", b""), (b"2", b""))
    log.snapshot((b"3", b""), first_row=2)
    first = delivery_into(sink)
    feed(first, log, stop=2)
    sink.fail_next_commit = True
    with pytest.raises(TransientError):
        feed(first, log, start=2)

    feed(delivery_into(sink), log)

    assert [new[0] for new in snapshot_rows(sink)] == [b"1", b"2", b"3"]


def test_a_window_that_the_log_has_lost_stops_the_lane() -> None:
    log, _ = window_of(change_of(2))
    sink = MemorySink()
    feed(delivery_into(sink), log, stop=3)

    with pytest.raises(StreamError) as lost:
        feed(delivery_into(sink), log, start=3)

    assert lost.value.code == "SNAPSHOT_WINDOW_TRIMMED"
    assert decode_frame(log.frames[3]).header.messages == 4


def test_a_row_that_is_refused_is_a_dead_letter_and_can_be_delivered_after_all() -> None:
    log, sink = RawLog(), MemorySink(poison=lambda change: change.message.new[0] == b"2")
    log.epoch()
    for reading in (1, 2):
        log.snapshot((b"1", b""), (b"2", b""), reading=reading)
    good = MemorySink()
    feed(delivery_into(sink), log)
    feed(delivery_into(good), log)
    wanted = [change for change in good.delivered if change.message.new[0] == b"2"]
    letters = sink.dead_letters

    assert [letter.operation for letter in letters] == ["SNAPSHOT", "SNAPSHOT"]
    assert len({letter.id for letter in letters}) == 2
    assert {letter.position for letter in letters} == {Position(Lsn(0), SNAPSHOT_ORDINALS + 1)}
    again = [change for letter in letters for change in decode_changes(frame_of(letter, log.generation), BEGINNING)]
    assert again == wanted


def test_frames_of_one_reading_are_each_compared_with_all_before_them() -> None:
    log, sink = RawLog(), MemorySink()
    log.epoch()
    low = log.position
    for number, is_last in ((1, False), (2, True), (3, False)):
        log.transaction(change_of(number))
        rest = [(b"%d" % each, b"read") for each in range(1, 5)]
        log.snapshot(*rest, reading=number, low=low, low_offset=1, is_last=is_last)

    feed(delivery_into(sink), log)

    assert [number for number, _ in snapshot_rows(sink)] == [b"2", b"3", b"4", b"3", b"4", b"4"]
