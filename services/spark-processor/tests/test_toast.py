"""Values that the server does not send again: what the lane has seen is filled in, and nothing else ever is."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.frames import GENERATION, RawLog

from tidegate.contracts.frame import Frame, decode_frame
from tidegate.pgoutput.changes import placed_changes
from tidegate.pgoutput.messages import (
    UNCHANGED,
    Column,
    Delete,
    Insert,
    Message,
    OldKind,
    Relation,
    ReplicaIdentity,
    Truncate,
    Update,
    Value,
)
from tidegate.position import BEGINNING, Position
from tidegate_processor.toast import PreviousValues

TABLE = 9
COLUMNS = (Column(1, "id", 23, -1), Column(0, "body", 25, -1), Column(0, "count", 23, -1))
RELATION = Relation(TABLE, "public", "pages", ReplicaIdentity.DEFAULT, COLUMNS)
A, B = b"a" * 3000, b"b" * 3000


class Lane:
    def __init__(self, **options: int) -> None:
        self.values = PreviousValues(lambda *_: True, **options)
        self._log = RawLog(GENERATION)
        self._log.epoch()

    def sees(self, *changes: Message, relation: Relation = RELATION, after: Position = BEGINNING) -> list[Message]:
        frame = self.values.fill(self.frame(*changes, relation=relation), after)
        return [change.message for change in placed_changes(frame)]

    def frame(self, *changes: Message, relation: Relation = RELATION) -> Frame:
        return decode_frame(self._log.transaction(*changes, relation=relation))

    def body_of(self, key: bytes) -> Value:
        """What an update that leaves the body alone makes of it."""
        (update,) = self.sees(touch(key))
        assert isinstance(update, Update)
        return update.new[1]


def insert(key: bytes, body: Value) -> Insert:
    return Insert(TABLE, (key, body, b"1"))


def touch(key: bytes, body: Value = UNCHANGED) -> Update:
    return Update(TABLE, None, None, (key, body, b"2"))


def move(old: bytes, new: bytes) -> Update:
    return Update(TABLE, OldKind.KEY, (old, None, None), (new, UNCHANGED, b"2"))


def delete(key: bytes) -> Delete:
    return Delete(TABLE, OldKind.KEY, (key, None, None))


def test_the_value_of_the_insert_is_filled_in_again_and_again() -> None:
    lane = Lane()
    lane.sees(insert(b"1", A), insert(b"2", B))

    assert [lane.body_of(b"1"), lane.body_of(b"2"), lane.body_of(b"1")] == [A, B, A]


def test_what_was_not_seen_stays_marked() -> None:
    assert Lane().body_of(b"1") is UNCHANGED


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ([touch(b"1", B)], B),
        ([touch(b"1", None)], UNCHANGED),
        ([delete(b"1")], UNCHANGED),
        ([delete(b"1"), insert(b"1", B)], B),
        ([Truncate((TABLE,), 0)], UNCHANGED),
        ([Truncate((TABLE + 1,), 0)], A),
        ([move(b"1", b"2")], UNCHANGED),
        ([move(b"1", b"2"), move(b"2", b"1")], A),
        ([touch(b"1", b"short")], b"short"),
        ([Update(TABLE, None, None, (UNCHANGED, UNCHANGED, b"2"))], UNCHANGED),
    ],
)
def test_each_change_leaves_what_is_known_of_the_row(changes: Sequence[Message], expected: Value) -> None:
    lane = Lane()
    other = Relation(TABLE + 1, "public", "others", ReplicaIdentity.DEFAULT, COLUMNS)
    lane.sees(insert(b"1", A))
    for change in changes:
        lane.sees(change, relation=other if change == Truncate((TABLE + 1,), 0) else RELATION)

    assert lane.body_of(b"1") == expected


def test_a_moved_row_takes_its_value_along() -> None:
    lane = Lane()
    lane.sees(insert(b"1", A))
    (moved,) = lane.sees(move(b"1", b"2"))

    assert moved == Update(TABLE, OldKind.KEY, (b"1", None, None), (b"2", A, b"2"))
    assert lane.body_of(b"2") == A


def test_a_new_shape_is_another_relation() -> None:
    lane = Lane()
    lane.sees(insert(b"1", A))
    wider = Relation(TABLE, "public", "pages", ReplicaIdentity.DEFAULT, (*COLUMNS, Column(0, "more", 25, -1)))
    (update,) = lane.sees(Update(TABLE, None, None, (b"1", UNCHANGED, b"2", None)), relation=wider)

    assert isinstance(update, Update)
    assert update.new[1] is UNCHANGED


def test_what_was_seen_before_is_not_seen_twice() -> None:
    lane = Lane()
    frame = lane.frame(insert(b"1", A), touch(b"1", B))
    lane.values.fill(frame, BEGINNING)
    lane.values.fill(frame, frame.header.last)

    assert lane.body_of(b"1") == B


def test_memory_is_bounded_and_the_oldest_go_first() -> None:
    lane = Lane(most_bytes=8_000)
    lane.sees(*(insert(str(number).encode(), A) for number in range(50)))

    assert lane.values.bytes <= 8_000
    assert [lane.body_of(b"0"), lane.body_of(b"49")] == [UNCHANGED, A]


@pytest.mark.parametrize("identity", [ReplicaIdentity.FULL, ReplicaIdentity.NOTHING])
def test_without_a_key_nothing_is_remembered(identity: ReplicaIdentity) -> None:
    lane = Lane()
    relation = Relation(TABLE, "public", "pages", identity, COLUMNS)
    lane.sees(insert(b"1", A), relation=relation)
    (update,) = lane.sees(touch(b"1"), relation=relation)

    assert update == touch(b"1")
    assert lane.values.bytes == 0


KEYS, BODIES = st.sampled_from([b"1", b"2", b"3"]), st.sampled_from([A, B, b"short", None])
STEPS = st.tuples(st.sampled_from("ISTMDX"), KEYS, KEYS, BODIES)


@settings(max_examples=200, deadline=None)
@given(st.lists(STEPS, max_size=30), st.sampled_from([1_000, 8_000, 1_000_000]))
def test_whatever_happens_a_value_is_that_of_the_row_or_marked(
    steps: list[tuple[str, bytes, bytes, Value]], most_bytes: int
) -> None:
    """Against a table that applies each change itself; what the server sends of it is what it holds."""
    lane, table = Lane(most_bytes=most_bytes), dict[bytes, Value]()
    for kind, key, other, body in steps:
        change, expected = _step(table, kind, key, other, body)
        if change is None:
            continue
        (seen,) = lane.sees(change)
        if isinstance(seen, Update):
            assert seen.new[1] in (UNCHANGED, expected)
    remembered = [value for value in map(lane.body_of, table) if value is not UNCHANGED]
    assert set(remembered) <= set(table.values())


def _step(table: dict[bytes, Value], kind: str, key: bytes, other: bytes, body: Value) -> tuple[Message | None, Value]:
    if kind == "X":
        table.clear()
        return Truncate((TABLE,), 0), None
    if kind == "I" and key not in table:
        table[key] = body
        return insert(key, body), body
    if key not in table:
        return None, None
    if kind == "S":
        table[key] = body
        return touch(key, body), body
    if kind == "D":
        del table[key]
        return delete(key), None
    if kind == "M" and other not in table:
        table[other] = table.pop(key)
        return move(key, other), table[other]
    return touch(key), table[key]
