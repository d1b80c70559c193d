"""A rewound lane whose place retention took, beyond what its sink has had: the rewind is given up."""

from kit.frames import RawLog, row
from kit.memory_sink import MemorySink
from kit.rewinds import deliver, lsn, rewind, rows, written

from tidegate.checkpoint.store import AckOutcome, compare
from tidegate.contracts.ack import Ack
from tidegate.lsn import Lsn
from tidegate.position import before


def overtaken() -> tuple[RawLog, MemorySink, Ack]:
    """The sink had transactions 1 and 2, was set back to 2, and the log begins at offset 5, with transaction 4."""
    log, sink = written(), MemorySink()
    ack = deliver(log, sink, stop=3).ack()
    assert ack is not None
    rewind(log, sink, position=before(lsn(log, 2)), acked=ack)
    return log, sink, ack


def feed_again(log: RawLog, ack: Ack) -> None:
    """The reader's answer to what the sink acked: transactions 3 to 5 once more."""
    third = lsn(log, 3)
    log.epoch(refeed_from=ack.safe_lsn)
    log.safe_lsn = Lsn(third - 0x10)
    for number in (3, 4, 5):
        log.transaction(row(number))


def test_a_rewound_lane_that_retention_overtakes_with_its_sink_behind_is_fed_again() -> None:
    log, sink, ack = overtaken()
    late = deliver(log, sink, beginning=5, acked=ack)
    assert late.waits_for != ""
    assert rows(sink) == [1, 2]

    feed_again(log, ack)
    deliver(log, sink, beginning=5, acked=ack)

    assert rows(sink) == [1, 2, 3, 4, 5]


def test_the_beginning_is_where_nothing_is_skipped_although_more_is_left() -> None:
    log, sink, ack = overtaken()
    feed_again(log, ack)
    rewind(log, sink, beginning=5, acked=ack, may_skip=True)
    deliver(log, sink, beginning=5, acked=ack)
    assert rows(sink) == [1, 2, 3, 4, 5]


def test_a_rewind_given_up_goes_on_right_behind_what_the_sink_has_acked() -> None:
    """The log begins with the frame behind the ack's: it is whole, so nobody feeds it again (seed 740395)."""
    log, sink = RawLog(), MemorySink()
    log.epoch()
    log.split_transaction([row(1)], [row(2)])
    ack = deliver(log, sink, stop=2).ack()
    rewind(log, sink, offset=0, acked=ack)

    late = deliver(log, sink, beginning=2, acked=ack)

    assert (rows(sink), late.waits_for) == ([1, 2], "")


def test_a_rewind_given_up_claims_what_the_sink_has_in_the_epoch_that_it_was_in() -> None:
    """It was ended between commit and ack; before the epoch frame it had been in none (seed 761302)."""
    log, sink = written(), MemorySink()
    acked = deliver(log, sink, stop=2).ack()
    deliver(log, sink, stop=3, acked=acked)
    rewind(log, sink, offset=0, acked=acked)

    late = deliver(log, sink, beginning=4, acked=acked)
    said = late.ack()

    assert (rows(sink), late.waits_for != "") == ([1, 2], True)
    assert acked is not None
    assert said is not None
    assert compare(acked, said) is AckOutcome.ACCEPTED
