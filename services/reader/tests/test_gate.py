"""Whatever acks, frames and lost acks: confirmed is covered by all of them, and never falls."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.contracts.ack import Ack
from tidegate.contracts.epoch import StreamOptions
from tidegate.errors import StreamError
from tidegate.lsn import Lsn
from tidegate.position import BEGINNING, MAX_ORDINAL
from tidegate_reader.gate import Gate
from tidegate_reader.history import HistoryCheck, Told


def ack(sink: str, safe_lsn: int) -> Ack:
    return Ack(sink, "g", 1, "t", 0, BEGINNING, Lsn(safe_lsn), 0)


sinks = st.sampled_from(["a", "b", "c"])
lsns = st.integers(0, 1000)
events = st.lists(st.one_of(st.tuples(st.just("ack"), sinks, lsns), st.tuples(st.just("frame"), st.just(""), lsns)))


@given(st.lists(sinks, unique=True), lsns, lsns, events)
def test_confirmed_is_covered_and_never_falls(
    required: list[str], start: int, durable: int, happens: list[tuple[str, str, int]]
) -> None:
    gate = Gate(required, confirmed=Lsn(start), durable=Lsn(durable))
    acked: dict[str, int] = {}
    before = gate.confirmed
    for what, sink, lsn in happens:
        if what == "ack":
            acked[sink] = max(acked.get(sink, 0), lsn)
            gate.acked({sink: ack(sink, lsn)})
        else:
            durable = max(durable, lsn)
            gate.produced(Lsn(lsn))
        covered = min([durable, *(acked.get(each, 0) for each in required)])
        assert gate.confirmed == max(before, covered if all(each in acked for each in required) else 0)
        before = gate.confirmed


sets = st.lists(sinks, unique=True)
changes = st.lists(
    st.one_of(
        st.tuples(st.just("ack"), sinks, lsns),
        st.tuples(st.just("frame"), st.just(""), lsns),
        st.tuples(st.just("require"), sets, st.just(0)),
    )
)


@given(sets, lsns, lsns, changes)
def test_whoever_joins_or_goes_confirmed_passes_nobody_who_counts_and_never_falls(
    required: list[str], start: int, durable: int, happens: list[tuple[str, object, int]]
) -> None:
    """Who joins behind confirmed lets it stand; who goes is not waited for any more."""
    gate = Gate(required, confirmed=Lsn(start), durable=Lsn(durable))
    known: dict[str, Ack] = {}
    before = gate.confirmed
    for what, whom, lsn in happens:
        if what == "ack":
            best = max(known[str(whom)].safe_lsn if whom in known else 0, lsn)
            known[str(whom)] = ack(str(whom), best)
            gate.acked({str(whom): ack(str(whom), lsn)})
        elif what == "frame":
            durable = max(durable, lsn)
            gate.produced(Lsn(lsn))
        else:
            required = list(whom)  # type: ignore[call-overload]
            gate.require(required, known)
        covered = min([durable, *(known[each].safe_lsn if each in known else 0 for each in required)])
        assert gate.confirmed == max(before, covered if all(each in known for each in required) else 0)
        before = gate.confirmed


def test_who_joins_behind_what_is_confirmed_counts_once_it_has_reached_it() -> None:
    gate = Gate(["a"], confirmed=Lsn(5), durable=Lsn(200))
    gate.acked({"a": ack("a", 100)})
    gate.require(["a", "new"], {})
    told = [(gate.confirmed, gate.holder)]
    for new, old in ((40, 150), (100, 150), (120, 150), (200, 200)):
        gate.acked({"a": ack("a", old), "new": ack("new", new)})
        told.append((gate.confirmed, gate.holder))
    assert told == [(100, "new"), (100, "new"), (100, "new"), (120, "new"), (200, None)]


def test_one_that_comes_back_counts_with_the_ack_of_before() -> None:
    gate = Gate(["a", "b"], confirmed=Lsn(5), durable=Lsn(200))
    gate.acked({"a": ack("a", 100), "b": ack("b", 30)})
    gate.require(["a"], {})
    gone = gate.confirmed
    gate.require(["a", "b"], {"b": ack("b", 30)})
    gate.acked({"a": ack("a", 200)})
    assert (gone, gate.confirmed, gate.holder) == (100, 100, "b")


def test_a_required_sink_without_an_ack_holds_the_gate() -> None:
    gate = Gate(["new", "old"], confirmed=Lsn(5), durable=Lsn(100))
    gate.acked({"old": ack("old", 90)})
    assert (gate.confirmed, gate.holder) == (5, "new")


def test_the_slowest_sink_is_named_only_while_it_is_behind() -> None:
    gate = Gate(["a", "b"], confirmed=Lsn(5), durable=Lsn(100))
    gate.acked({"a": ack("a", 100), "b": ack("b", 40)})
    assert (gate.confirmed, gate.holder) == (40, "b")
    gate.acked({"b": ack("b", 100)})
    assert (gate.confirmed, gate.holder) == (100, None)


def test_an_ack_above_what_this_process_has_produced_is_clamped() -> None:
    gate = Gate(["a"], confirmed=Lsn(5), durable=Lsn(100))
    gate.acked({"a": ack("a", 999)})
    assert gate.confirmed == 100


def test_acks_that_went_back_change_nothing() -> None:
    gate = Gate(["a"], confirmed=Lsn(5), durable=Lsn(100))
    gate.acked({"a": ack("a", 80)})
    gate.acked({})
    gate.acked({"a": ack("a", 10)})
    assert (gate.confirmed, gate.holder) == (80, "a")


def test_nothing_beyond_the_last_transaction_is_confirmed_before_the_server_has_sent_it_again() -> None:
    """Sinks had it long ago; a slot that is moved past it could not be judged at the next start either."""
    last = Told(Lsn(60), Lsn(80), (7, 1), None)
    history = HistoryCheck(last, Lsn(60), StreamOptions(("p",), protocol=1, messages=True))
    gate = Gate(["a"], confirmed=Lsn(5), durable=Lsn(80), history=history)
    gate.acked({"a": ack("a", 80)})
    gate.produced(Lsn(80))
    confirmed = [gate.confirmed]
    for hear in (
        lambda: history.begins(Lsn(60), 7, 1),
        lambda: history.passes(Lsn(70)),
        lambda: history.passes(Lsn(80)),
    ):
        hear()
        gate.acked({"a": ack("a", 80)})
        confirmed.append(gate.confirmed)
    assert confirmed == [60, 60, 70, 80]


def test_nothing_that_the_raw_topic_covers_is_confirmed_before_the_server_has_passed_it() -> None:
    """The raw topic has no transaction, only that there was none up to 80. A disk that was put back, and written since,
    has one: a slot that is moved over it hides that for ever (seed 852287)."""
    nothing = Told(Lsn(59), Lsn(80), None, None, ordinal=MAX_ORDINAL)
    history = HistoryCheck(nothing, Lsn(60), StreamOptions(("p",), protocol=1, messages=True))
    gate = Gate(["a"], confirmed=Lsn(60), durable=Lsn(80), history=history)
    gate.acked({"a": ack("a", 80)})
    assert gate.confirmed == 60
    with pytest.raises(StreamError) as raised:
        history.begins(Lsn(70), 7, 1)
    assert raised.value.code == "SOURCE_WENT_BACK"
