"""Which shapes a new session compares with: those in force at the raw topic's tail, whatever was written meanwhile."""

import pytest

from tidegate.contracts.shape import ShapeForm, ShapeRecord, decode_shape_record
from tidegate.errors import DecodeError
from tidegate.lsn import Lsn
from tidegate.pgoutput.encode import encode_message
from tidegate.pgoutput.messages import Column, Relation, ReplicaIdentity
from tidegate.position import BEGINNING, Position
from tidegate_reader.schema_topic import shapes_at
from tidegate_reader.shapes import ShapeBook


def relation(columns: int) -> bytes:
    described = tuple(Column(1, f"c{number}", 23, -1) for number in range(columns))
    return encode_message(Relation(7, "public", "t", ReplicaIdentity.DEFAULT, described))


def at(lsn: int) -> Position:
    return Position(Lsn(lsn), 0)


OLD, NEW = ShapeForm(at(100), relation(1), ()), ShapeForm(at(200), relation(2), (b"type",))
RECORD = ShapeRecord("mine", 7, NEW, OLD)


@pytest.mark.parametrize(
    ("tail", "expected"),
    [(at(99), None), (at(100), OLD), (at(199), OLD), (at(200), NEW), (at(900), NEW)],
)
def test_a_form_above_the_tail_is_ignored(tail: Position, expected: ShapeForm | None) -> None:
    found = shapes_at([RECORD], "mine", tail)
    assert {shape.relation for shape in found.values()} == ({expected.relation} if expected else set())


def test_another_generation_is_another_history() -> None:
    assert shapes_at([RECORD], "other", at(900)) == {}


def test_the_newest_record_of_a_relation_counts() -> None:
    newer = ShapeRecord("mine", 7, ShapeForm(at(300), relation(3), ()), NEW)
    assert shapes_at([RECORD, newer], "mine", at(900))[7].relation == relation(3)


def test_a_record_is_read_as_it_was_written_and_nothing_else_is_read() -> None:
    assert decode_shape_record(RECORD.encode()) == RECORD
    for spoiled in (b"", b"{}", RECORD.encode()[:-1], RECORD.encode().replace(b'"version":1', b'"version":2')):
        with pytest.raises(DecodeError):
            decode_shape_record(spoiled)


def test_what_is_noted_goes_into_a_record_with_what_it_takes_the_place_of() -> None:
    book = ShapeBook({})
    _, first = book.learn_relation(relation(1))
    book.note(first, None, at(100))
    previous, second = book.learn_relation(relation(2))
    book.note(second, previous, at(200))
    assert [new.record("mine").current.position for new in book.take_new()] == [at(100), at(200)]
    assert book.take_new() == []
    known = ShapeBook({7: first})
    previous, second = known.learn_relation(relation(2))
    known.note(second, previous, at(300))
    [new] = known.take_new()
    assert new.record("mine").previous == ShapeForm(BEGINNING, relation(1), ())
