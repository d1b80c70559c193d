"""A lane set back delivers again what lies behind the place, all of it, and skips nothing that it has not had."""

from typing import Any

import pytest
from kit.frames import RawLog, row
from kit.memory_sink import MemorySink
from kit.rewinds import deliver, lsn, rewind, rows, written

from tidegate.checkpoint.store import AckOutcome, compare
from tidegate.contracts.ack import Ack
from tidegate.contracts.cursor import decode_cursor
from tidegate.errors import StreamError
from tidegate.lsn import Lsn
from tidegate.position import Position, before


@pytest.mark.parametrize("offset", [1, 2, 3, 5, 6])
def test_everything_behind_an_lsn_comes_again_and_nothing_else(offset: int) -> None:
    log, sink = written(), MemorySink()
    deliver(log, sink)

    rewind(log, sink, position=before(lsn(log, offset)))
    deliver(log, sink)

    again = {1: [1, 2, 3, 4, 5], 2: [2, 3, 4, 5], 3: [3, 4, 5], 5: [4, 5], 6: [5]}[offset]
    assert rows(sink) == [1, 2, 3, 4, 5, *again]


def test_it_is_not_read_from_further_back_than_needed() -> None:
    log, sink = written(), MemorySink()
    deliver(log, sink)
    assert rewind(log, sink, position=before(lsn(log, 6))).next_offset == 5


@pytest.mark.parametrize(("to", "again"), [({"offset": 3}, [3, 4, 5]), ({"since": 5}, [4, 5]), ({}, [1, 2, 3, 4, 5])])
def test_an_offset_a_time_and_the_beginning_are_places_too(to: dict[str, int], again: list[int]) -> None:
    log, sink = written(), MemorySink()
    deliver(log, sink)

    rewind(log, sink, **to)
    deliver(log, sink)

    assert rows(sink) == [1, 2, 3, 4, 5, *again]


def test_in_the_middle_of_a_transaction_and_of_a_message_in_parts_no_half_is_delivered() -> None:
    log, sink = RawLog(), MemorySink()
    log.epoch()
    log.split_transaction([row(1), row(2)], [row(3)])
    log.in_parts(row(4, "x" * 100), 3)
    deliver(log, sink)

    rewind(log, sink, offset=4)  # the second part
    deliver(log, sink)
    rewind(log, sink, position=Position(lsn(log, 1), 0))
    deliver(log, sink)

    assert rows(sink) == [1, 2, 3, 4, 4, 2, 3, 4]


def test_what_retention_has_taken_is_refused_and_the_beginning_is_what_is_left() -> None:
    log, sink = written(), MemorySink()
    deliver(log, sink)
    with pytest.raises(StreamError) as raised:
        rewind(log, sink, beginning=2, position=before(lsn(log, 1)))
    rewind(log, sink, beginning=2)
    deliver(log, sink, beginning=2)
    assert (raised.value.code, rows(sink)) == ("REWIND_TOO_FAR", [1, 2, 3, 4, 5, 2, 3, 4, 5])


def test_a_rewind_never_goes_forward() -> None:
    log, sink = written(), MemorySink()
    deliver(log, sink, stop=3)
    for place in ({"position": before(lsn(log, 5))}, {"offset": 5}):
        with pytest.raises(StreamError) as raised:
            rewind(log, sink, **place)
        assert raised.value.code == "REWIND_AHEAD"


def test_beyond_a_loss_only_the_beginning_and_only_if_it_may_be_skipped() -> None:
    """Retention took what a lane had not read."""
    log, sink = written(), MemorySink()
    deliver(log, sink, stop=2)
    with pytest.raises(StreamError):
        rewind(log, sink, beginning=5)
    rewind(log, sink, beginning=5, may_skip=True)
    deliver(log, sink, beginning=5)
    assert rows(sink) == [1, 4, 5]


def test_void_frames_of_an_older_epoch_are_no_place_to_begin() -> None:
    log, sink = written(), MemorySink()
    late = RawLog()
    late.epoch()
    late.transaction(row(9))
    log.frames.append(late.frames[1])
    deliver(log, sink)

    cursor = rewind(log, sink, offset=7)

    assert (cursor.next_offset, cursor.epoch) == (6, 2)


def test_a_re_feed_is_gone_back_to_rather_than_what_stands_before_it() -> None:
    log, sink = RawLog(), MemorySink()
    log.epoch()
    log.transaction(row(1))
    first = lsn(log, 1)
    log.epoch(refeed_from=Lsn(0x1000))
    log.safe_lsn = Lsn(0x1000)
    log.transaction(row(1))
    log.transaction(row(2))
    deliver(log, sink)

    cursor = rewind(log, sink, position=before(first))
    deliver(log, sink)

    assert (cursor.next_offset >= 2, rows(sink)) == (True, [1, 2, 1, 2])


def test_a_re_feed_begins_where_the_server_starts_though_it_remembers_what_was_before() -> None:
    """Of a log that has only that left: the lane was set to the transaction before, and took what follows for a gap."""
    log, sink = RawLog(), MemorySink()
    log.epoch()
    log.transaction(row(1))
    log.safe_lsn = Lsn(log.safe_lsn + 1000)
    log.tick()
    log.epoch(refeed_from=log.safe_lsn, behind=log.position)
    log.transaction(row(2))
    deliver(log, sink)

    rewind(log, sink, beginning=3)
    deliver(log, sink, beginning=3)

    assert rows(sink) == [1, 2, 2]


def rewound_to(log: RawLog, offset: int) -> tuple[MemorySink, Ack]:
    sink = MemorySink()
    ack = deliver(log, sink).ack()
    assert ack is not None
    rewind(log, sink, position=before(lsn(log, offset)), acked=ack)
    return sink, ack


def test_the_cursor_says_that_it_was_rewound_until_the_lane_has_passed_its_ack() -> None:
    log = written()
    sink, ack = rewound_to(log, 2)
    said = [sink.cursor.rewound_from if sink.cursor else None]
    for stop in (4, None):
        deliver(log, sink, stop=stop, acked=ack)
        assert sink.cursor is not None
        said.append(decode_cursor(sink.cursor.encode()).rewound_from)
    assert said == [ack.position, ack.position, None]


def test_rewound_before_an_epoch_that_was_acked() -> None:
    """A reader died within a transaction. In the name of the epoch before nothing is claimed: it may have had more."""
    log, sink = RawLog(), MemorySink()
    log.epoch()
    log.transaction(row(1))
    beginning = log.safe_lsn
    log.transaction(row(2))
    log.epoch(refeed_from=beginning)
    acked = deliver(log, sink, beginning=3).ack()
    rewind(log, sink, position=before(lsn(log, 1)), acked=acked)

    in_the_older = deliver(log, sink, stop=3, acked=acked).ack()
    in_the_newer = deliver(log, sink, acked=acked).ack()

    assert acked is not None
    assert (in_the_older, rows(sink)) == (None, [1, 2])
    assert in_the_newer is not None
    assert (in_the_newer.epoch, compare(acked, in_the_newer)) == (acked.epoch, AckOutcome.ACCEPTED)


@pytest.mark.parametrize(("has_rows", "next_offset"), [(False, 2), (True, 0)])
def test_a_rewind_to_where_the_lane_stands_keeps_its_place(has_rows: bool, next_offset: int) -> None:
    """It was set before an epoch frame that its ack said it had read, and waited for ever when retention took that one.
    But rows of a snapshot move no position, and come again."""
    log, sink = RawLog(), MemorySink()
    log.epoch()
    log.snapshot([b"1", b"a"]) if has_rows else log.tick()
    ack = deliver(log, sink).ack()
    assert rewind(log, sink, offset=0, acked=ack).next_offset == next_offset


@pytest.mark.parametrize("to", [{"offset": 4}, {"since": 4}, {"position": Position(Lsn(1), 0)}])
def test_rows_of_a_snapshot_that_a_sink_has_not_had_are_not_skipped_though_their_position_is_one_that_it_has(
    to: dict[str, Any],
) -> None:
    log, sink = RawLog(), MemorySink()
    log.epoch()
    for at in range(1, 6):
        log.snapshot([b"%d" % at, b"a"])
    ack = deliver(log, sink, stop=3).ack()
    assert ack is not None
    if "position" in to:
        to = {"position": ack.position}

    rewind(log, sink, **to, acked=ack)
    deliver(log, sink, acked=ack)

    assert rows(sink) == [1, 2, 3, 4, 5]


def test_a_rewound_lane_that_retention_overtakes_is_lost_and_does_not_go_by_its_ack() -> None:
    log = written()
    sink, ack = rewound_to(log, 2)
    with pytest.raises(StreamError) as raised:
        deliver(log, sink, beginning=5, acked=ack)
    rewind(log, sink, beginning=5, acked=ack)
    deliver(log, sink, beginning=5, acked=ack)
    assert (raised.value.code, rows(sink)) == ("REWIND_TRIMMED", [1, 2, 3, 4, 5, 4, 5])
