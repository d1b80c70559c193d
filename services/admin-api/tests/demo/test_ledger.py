"""The books find what is lost, doubled, reordered, altered or never happened."""

from hypothesis import given
from hypothesis import strategies as st

from tidegate_admin.demo.ledger import Event, Ledger, Verdict, quantile
from tidegate_admin.demo.shop import Change

ORDER = Change("orders", "UPDATE", (1,))
OTHER = Change("orders", "UPDATE", (2,))


def event(xid: int, seq: int = 1, change: Change = ORDER) -> Event:
    return Event(xid, seq, change, 0.01)


def test_what_is_entered_and_arrives_once_is_even() -> None:
    ledger = Ledger()
    ledger.enter(7, [ORDER, OTHER])
    assert [ledger.deliver(event(7)), ledger.deliver(event(7, 2, OTHER))] == [Verdict.DELIVERED] * 2
    assert ledger.balance().is_even


def test_what_never_arrives_is_lost() -> None:
    ledger = Ledger()
    ledger.enter(7, [ORDER, OTHER])
    ledger.deliver(event(7))
    assert ledger.balance().lost == 1
    assert not ledger.balance().is_even


def test_a_second_delivery_is_a_duplicate_and_no_loss() -> None:
    ledger = Ledger()
    ledger.enter(7, [ORDER])
    ledger.deliver(event(7))
    assert ledger.deliver(event(7)) is Verdict.DUPLICATE
    assert ledger.balance().is_even


def test_order_counts_per_key() -> None:
    """Between keys the topics promise none."""
    ledger = Ledger()
    for xid, change in ((1, ORDER), (2, OTHER), (3, ORDER)):
        ledger.enter(xid, [change])
    assert ledger.deliver(event(3)) is Verdict.DELIVERED
    assert ledger.deliver(event(2, change=OTHER)) is Verdict.DELIVERED
    assert ledger.deliver(event(1)) is Verdict.OUT_OF_ORDER
    assert not ledger.balance().is_even


def test_an_event_of_a_rolled_back_transaction_is_a_phantom() -> None:
    ledger = Ledger()
    ledger.rolled_back(7)
    assert ledger.deliver(event(7)) is Verdict.PHANTOM
    assert not ledger.balance().is_even


def test_an_event_that_says_something_else_is_wrong() -> None:
    ledger = Ledger()
    ledger.enter(7, [ORDER])
    assert ledger.deliver(event(7, change=OTHER)) is Verdict.WRONG
    assert not ledger.balance().is_even


def test_somebody_elses_change_is_neither_ours_nor_a_fault() -> None:
    """A person with psql, or what an earlier run left behind."""
    ledger = Ledger()
    assert ledger.deliver(event(99)) is Verdict.FOREIGN
    assert ledger.balance().is_even


def test_an_xid_beyond_32_bits_meets_its_event() -> None:
    """Events carry what the WAL carries: 32 bits."""
    ledger = Ledger()
    ledger.enter(2**32 + 5, [ORDER])
    assert ledger.deliver(event(5)) is Verdict.DELIVERED


def test_the_books_stay_small() -> None:
    ledger = Ledger(remembered=10)
    for xid in range(100):
        ledger.enter(xid, [Change("orders", "DELETE", (xid,))])
        ledger.deliver(event(xid, change=Change("orders", "DELETE", (xid,))))
    assert (len(ledger._due), len(ledger._seen), len(ledger._newest)) == (0, 10, 0)


@given(st.permutations(range(6)), st.sets(st.integers(0, 5)))
def test_written_is_delivered_and_lost(order: list[int], dropped: set[int]) -> None:
    """Whatever arrives in whatever order, every change is accounted for once."""
    ledger = Ledger()
    for xid in range(6):
        ledger.enter(xid, [ORDER])
    for xid in order:
        if xid not in dropped:
            ledger.deliver(event(xid))
    balance = ledger.balance()
    assert balance.written == balance.delivered + balance.lost == 6
    assert balance.lost == len(dropped)
    arrived = [xid for xid in order if xid not in dropped]
    assert (balance.out_of_order == 0) == (arrived == sorted(arrived))


def test_quantiles_of_nothing_are_unknown() -> None:
    assert quantile([], 0.5) is None
    assert quantile([3.0, 1.0, 2.0], 0.5) == 2.0
