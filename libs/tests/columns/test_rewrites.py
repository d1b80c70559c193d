"""Rewritten frames against the reference: the same rows, whatever the bytes, and every change at its place."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.made_frames import TEXTS, frame_of, frames, lsns

from tidegate.columns.blake2b import WORDS, absorbed, digest
from tidegate.columns.compiled import kernel
from tidegate.columns.memory import address
from tidegate.columns.rewrites import FrameRewriter
from tidegate.columns.text import SLACK
from tidegate.contracts.frame import Frame, SchemaRole
from tidegate.errors import DecodeError
from tidegate.events import Operation
from tidegate.lsn import Lsn
from tidegate.pgoutput.changes import PlacedChange, placed_changes
from tidegate.pgoutput.decode import decode_message
from tidegate.pgoutput.messages import (
    Begin,
    Column,
    Delete,
    Insert,
    Relation,
    ReplicaIdentity,
    Truncate,
    Type,
    Update,
)
from tidegate.pgoutput.rewrite import Canon, Writer, Written, rewritten_change, rewritten_relation
from tidegate.position import BEGINNING, Position

SALT = b"0123456789abcdef"


@kernel
def _digest(text: np.ndarray, key: np.ndarray, words: np.ndarray) -> None:
    digest(address(text), address(text) + len(text) - SLACK, key, words)


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=600), st.binary(min_size=1, max_size=64), st.sampled_from([16, 32, 64]))
def test_digests_are_those_of_hashlib(text: bytes, key: bytes, length: int) -> None:
    words = np.zeros(WORDS, np.uint64)

    _digest(np.frombuffer(text + b"\xff" * SLACK, np.uint8), absorbed(key, length), words)

    expected = hashlib.blake2b(text, key=key, digest_size=length).digest()
    assert expected[: min(length, 64)] == words[:8].tobytes()[:length]


def plan(relation: Relation, types: Mapping[int, Type], is_strict: bool) -> Sequence[Written]:
    """Every writer there is, by nothing but the place."""
    return [_written(at + relation.relation_id, column) for at, column in enumerate(relation.columns)]


def _written(at: int, column: Column) -> Written:
    canon = Canon(at // 5 % 4)
    match at % 5:
        case 0:
            return Written(column)
        case 1:
            return Written(column, Writer.DROP)
        case 2:
            return Written(replace(column, name="masked"), Writer.FIXED, b"***" * (at % 7))
        case 3:
            return Written(column, Writer.HASH, salt=SALT, canon=canon)
        case _:
            return Written(column, Writer.TOKEN, salt=SALT * 5, canon=canon)


def takes(schema: str, table: str, operation: Operation) -> bool:
    return (len(schema) + 3 * len(table) + len(operation)) % 5 != 0


def by_reference(frame: Frame, after: Position) -> list[object]:
    """What a decoder of the rewritten frame has to see: each change that is wanted, at its place."""
    relations = {
        message.relation_id: message
        for entry in frame.schema
        if isinstance(message := decode_message(entry.message), Relation)
    }
    found: list[object] = []
    for change in placed_changes(frame):
        message = change.message
        if isinstance(message, Insert | Update | Delete):
            relation = relations[message.relation_id]
            operation = {Insert: Operation.INSERT, Update: Operation.UPDATE, Delete: Operation.DELETE}[type(message)]
            is_above = (change.transaction.commit_lsn, change.ordinal) > after
            if is_above and takes(relation.schema, relation.name, operation):
                columns = plan(relation, {}, True)
                is_changed = any(each.writer is not Writer.COPY for each in columns)
                found.append(_placed(change, rewritten_change(message, columns) if is_changed else message))
        elif not isinstance(message, Truncate) or message.relation_ids:
            found.append(_placed(change, message))
    return found


def _placed(change: PlacedChange, message: object) -> object:
    return message, change.transaction, change.ordinal, change.lsn


_NOTHING = [Truncate((), options) for options in range(4)]


def of(made: Frame) -> list[object]:
    placed = [(change, change.message) for change in placed_changes(made)]
    return [_placed(each, message) for each, message in placed if message not in _NOTHING]


REWRITER = FrameRewriter(plan, takes)
positions = st.just(BEGINNING) | st.builds(Position, lsns, st.integers(0, 3))


@settings(max_examples=400, deadline=None)
@given(frames(), positions)
def test_the_same_rows_as_the_reference(frame: Frame, after: Position) -> None:
    try:
        made = REWRITER.rewrite(frame, after).frame
    except DecodeError:
        with pytest.raises((ValueError, DecodeError)):  # a row as wide as no relation
            by_reference(frame, after)
        return

    if made.body is not frame.body:
        assert by_reference(frame, after) == of(made)


@settings(max_examples=100, deadline=None)
@given(frames())
def test_relations_lose_and_change_their_columns(frame: Frame) -> None:
    made = REWRITER.rewrite(replace(frame, body=b""), BEGINNING).frame

    before = [decode_message(entry.message) for entry in frame.schema]
    after = [decode_message(entry.message) for entry in made.schema]
    assert [
        rewritten_relation(each, plan(each, {}, True)) if isinstance(each, Relation) else each for each in before
    ] == after


@pytest.mark.parametrize("writer", [Writer.FIXED, Writer.HASH, Writer.TOKEN])
@pytest.mark.parametrize("canon", list(Canon))
def test_of_no_text_is_anything_left(writer: Writer, canon: Canon) -> None:
    relation = Relation(5, "public", "t", ReplicaIdentity.DEFAULT, (Column(0, "c", 25, -1),))
    masked = FrameRewriter(
        lambda relation, types, is_strict: [Written(relation.columns[0], writer, b"*", SALT, canon)], lambda *_: True
    )
    for text in TEXTS:
        frame = frame_of([relation], [Begin(Lsn(9), 5, 7), Insert(5, (text,)), Update(5, None, None, (None,))])
        first, second = (change.message for change in placed_changes(masked.rewrite(frame).frame))
        expected = rewritten_change(Insert(5, (text,)), [Written(relation.columns[0], writer, b"*", SALT, canon)])
        assert expected == first
        assert Update(5, None, None, (None,)) == second


def test_a_frame_of_tables_that_stay_is_the_same_object() -> None:
    relation = Relation(5, "public", "t", ReplicaIdentity.DEFAULT, (Column(1, "c", 25, -1),))
    same = FrameRewriter(lambda relation, *_: [Written(column) for column in relation.columns], lambda *_: True)
    frame = frame_of([relation], [Begin(Lsn(9), 5, 7), Insert(5, (b"a",))])

    assert same.rewrite(frame).frame is frame


def test_a_shape_from_before_is_rewritten_leniently() -> None:
    """No row of it will come, so nothing about it is refused."""
    relation = Relation(5, "public", "t", ReplicaIdentity.DEFAULT, (Column(1, "c", 25, -1),))
    strict: list[bool] = []

    def noting(relation: Relation, types: Mapping[int, Type], is_strict: bool) -> Sequence[Written]:
        strict.append(is_strict)
        return [Written(column) for column in relation.columns]

    frame = frame_of([relation], [])
    current = frame.schema[-1]
    frame = replace(frame, schema=(current, replace(current, role=SchemaRole.PREVIOUS)))
    FrameRewriter(noting, lambda *_: True).rewrite(frame)

    assert strict[:2] == [True, False]
