"""What names things: generations, keys and topics, and the position of a COMMIT."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit import contract_values as values
from kit.frames import GENERATION as EXAMPLE

from tidegate.contracts import names
from tidegate.contracts.generation import Generation
from tidegate.lsn import MAX_LSN, Lsn
from tidegate.position import Position, before


@given(values.GENERATION, values.GENERATION)
def test_generations_that_differ_anywhere_have_different_ids(a: Generation, b: Generation) -> None:
    assert (a.id == b.id) == (a == b)


@given(values.TEXT, values.TEXT)
def test_a_border_moved_between_the_names_is_another_generation(database: str, slot: str) -> None:
    moved = Generation(1, 1, database + slot, "", bytes(16))
    assert (Generation(1, 1, database, slot, bytes(16)).id == moved.id) == (slot == "")


def test_the_id_of_a_generation_never_changes() -> None:
    """It is part of every key: another id would orphan all acks."""
    assert EXAMPLE.id == "b79f280826d8d8163fab4ffa7f5786fe"


@pytest.mark.parametrize("kind", [names.raw_topic, names.dead_letter_topic, names.scratch_topic])
def test_topics_of_two_pipelines_differ(kind) -> None:
    assert kind("a") != kind("b")


def test_a_lane_shares_no_key_with_another_lane_or_with_its_own_control() -> None:
    keys = {key(*who) for who in (("p", "s"), ("p", "t")) for key in (names.lane_status_key, names.lane_control_key)}
    assert len(keys) == 4


@given(st.integers(1, MAX_LSN - 1), st.integers(0, 1000), st.integers(1, 1000))
def test_a_commit_stands_behind_its_changes_and_before_the_next_transaction(
    commit_lsn: int, changes: int, gap: int
) -> None:
    """At ordinal n, the number of changes: so half a transaction and all of it never have the same position."""
    stands = [Position(Lsn(commit_lsn), ordinal) for ordinal in range(changes)]
    commit = Position(Lsn(commit_lsn), changes)
    after = Position(Lsn(min(commit_lsn + gap, MAX_LSN)), 0)
    assert sorted([after, commit, *stands]) == [*stands, commit, after]


@given(values.POSITION, values.POSITION, values.POSITION)
def test_positions_are_in_one_total_order(a: Position, b: Position, c: Position) -> None:
    assert (a < b) + (a == b) + (b < a) == 1
    assert not (a < b and b < c) or a < c


@given(values.LSN, values.POSITION)
def test_before_an_lsn_is_the_last_position_below_it(lsn: Lsn, position: Position) -> None:
    assert before(lsn).commit_lsn < lsn or lsn == 0
    assert (position <= before(lsn)) == (position.commit_lsn < lsn or position == before(lsn))
