"""Positions: one total order inside a generation."""

from hypothesis import given
from hypothesis import strategies as st

from tidegate.lsn import MAX_LSN, Lsn
from tidegate.position import BEGINNING, MAX_ORDINAL, Position, before

LSNS = st.integers(min_value=1, max_value=MAX_LSN).map(Lsn)
ORDINALS = st.integers(min_value=0, max_value=MAX_ORDINAL)


@given(LSNS, LSNS, ORDINALS, ORDINALS)
def test_the_commit_orders_before_the_ordinal(a: Lsn, b: Lsn, i: int, j: int) -> None:
    assert (Position(a, i) < Position(b, j)) == (a < b or (a == b and i < j))


@given(LSNS, ORDINALS)
def test_the_beginning_is_before_every_change(lsn: Lsn, ordinal: int) -> None:
    assert Position(lsn, ordinal) > BEGINNING


@given(LSNS, LSNS, ORDINALS)
def test_before_an_lsn_lies_between_the_transactions_it_parts(boundary: Lsn, commit: Lsn, ordinal: int) -> None:
    assert (Position(commit, ordinal) > before(boundary)) == (commit >= boundary)


def test_before_zero_is_the_beginning() -> None:
    assert before(Lsn(0)) == BEGINNING


def test_a_position_is_shown_as_lsn_and_ordinal() -> None:
    assert str(Position(Lsn(0x1_0000_00FF), 3)) == "1/FF#3"
