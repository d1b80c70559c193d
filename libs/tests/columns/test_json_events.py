"""Kernels against the reference: the same events byte for byte, the same refusals, the same verdict on any bytes."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.made_frames import ARRAYS, GENERATION, SCALARS, SYSTEM_ID, TEXTS, frame_of, frames, lsns

from tidegate.contracts.frame import Frame, decode_frame
from tidegate.errors import DecodeError, RecordError
from tidegate.events import Operation
from tidegate.lsn import Lsn
from tidegate.pgoutput.messages import (
    UNCHANGED,
    Begin,
    Column,
    Commit,
    Delete,
    Insert,
    OldKind,
    Relation,
    ReplicaIdentity,
    Row,
    Update,
)
from tidegate.position import BEGINNING, Position

pytest.importorskip("tidegate_processor", reason="the reference of the encoding is the processor's")
from kit import reference

from tidegate.columns.json_encode import EventSource, FrameEncoder
from tidegate.columns.refusals import RejectedChange

GOLDEN = Path(__file__).parents[3] / "tests/golden/contracts"


def route(schema: str, table: str, operation: str) -> str | None:
    """Every decision there is, by nothing but the names."""
    which = (len(schema) + 3 * len(table) + len(operation)) % 7
    return None if which == 0 else f"topic-{which % 3}"


def outcome_of_reference(frame: Frame, after: Position) -> Any:
    try:
        made = reference.encode(frame, route, "pipe%line", after)
    except DecodeError as error:
        return error.code
    return {each.topic: made.of_topic(each.topic) for each in made.events}, _said(made.rejected)


ENCODER = FrameEncoder(EventSource("pipe%line", GENERATION.database, SYSTEM_ID), route)


def outcome(frame: Frame, after: Position) -> Any:
    try:
        encoded = ENCODER.encode(frame, after)
    except DecodeError as error:
        return error.code
    return {events.topic: list(events) for events in encoded.topics}, _said(encoded.rejected)


def _said(rejected: Iterable[RejectedChange]) -> set[Any]:
    return {
        (r.error.code, r.error.message, r.error.remedy, r.transaction, r.ordinal, r.lsn, r.raw, r.operation)
        for r in rejected
    }


positions = st.just(BEGINNING) | st.builds(Position, lsns, st.integers(0, 3))


@settings(max_examples=400, deadline=None)
@given(frames(), positions)
def test_the_same_events_and_the_same_refusals(frame: Frame, after: Position) -> None:
    assert outcome_of_reference(frame, after) == outcome(frame, after)


@settings(max_examples=400, deadline=None)
@given(frames(), st.data())
def test_damaged_bodies_get_the_same_verdict(frame: Frame, data: st.DataObject) -> None:
    body = bytearray(frame.body)
    for _ in range(data.draw(st.integers(1, 3)) if body else 0):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    damaged = replace(frame, body=bytes(body[: data.draw(st.integers(0, len(body)))]))

    assert outcome_of_reference(damaged, BEGINNING) == outcome(damaged, BEGINNING)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=300))
def test_any_bytes_get_the_same_verdict(body: bytes) -> None:
    frame = replace(frame_of([Relation(0, "s", "t", ReplicaIdentity.DEFAULT, ())], ()), body=body)

    assert outcome_of_reference(frame, BEGINNING) == outcome(frame, BEGINNING)


@pytest.mark.parametrize("name", ["frame-v1-wal.bin", "frame-v1-wal-mid-transaction.bin"])
def test_golden_bodies_cut_at_every_length_get_the_same_verdict(name: str) -> None:
    frame = decode_frame((GOLDEN / name).read_bytes())
    frame = replace(frame, header=replace(frame.header, generation=GENERATION))
    assert ENCODER.encode(frame).events > 0

    for length in range(len(frame.body) + 1):
        cut = replace(frame, body=frame.body[:length])
        assert outcome_of_reference(cut, BEGINNING) == outcome(cut, BEGINNING), length


@pytest.mark.parametrize("type_oid", SCALARS + ARRAYS)
@pytest.mark.parametrize("typmod", [-1, 5])
def test_every_text_under_every_type(type_oid: int, typmod: int) -> None:
    """As a value, as a key, and as both at once; the last of the body stands where no word can be read."""
    for flags in (0, 1):
        relation = Relation(5, "public", "t", ReplicaIdentity.DEFAULT, (Column(flags, "c", type_oid, typmod),))
        for text in TEXTS:
            frame = frame_of([relation], [Begin(Lsn(9), 5, 7), Insert(5, (text,))])

            assert outcome_of_reference(frame, BEGINNING) == outcome(frame, BEGINNING), text


@pytest.mark.parametrize("old", [None, (b"1", b"\\x0", b"n"), (b"1", b"\\x00", b"\xff")])
@pytest.mark.parametrize("new", [(UNCHANGED, b"\\x0", b"n"), (UNCHANGED, b"\\x00", b"\xff"), (b"\xff", b"\\x0", b"n")])
def test_of_several_reasons_to_refuse_a_change_the_same_one_is_given(new: Row, old: Row | None) -> None:
    """Which that is depends on the order in which old row, key and row are written, and that on holes in the row."""
    columns = (Column(1, "id", 25, -1), Column(0, "data", 17, -1), Column(0, "note", 25, -1))
    relation = Relation(5, "public", "t", ReplicaIdentity.DEFAULT, columns)
    changes = [Update(5, None if old is None else OldKind.FULL, old, new)]
    changes += [] if old is None else [Delete(5, OldKind.FULL, old)]
    frame = frame_of([relation], [Begin(Lsn(9), 5, 7), *changes])

    assert outcome_of_reference(frame, BEGINNING) == outcome(frame, BEGINNING)


@pytest.mark.parametrize("width", [0, 1, 1600])
def test_relations_of_every_width(width: int) -> None:
    columns = tuple(Column(at % 3 == 0, f"column_{at}", (23, 25, 1700)[at % 3], -1) for at in range(width))
    relation = Relation(5, "public", "wide", ReplicaIdentity.FULL, columns)
    new = tuple((b"1", b"\x01" * 50, UNCHANGED)[at % 3] for at in range(width))
    old = tuple((b"2", None, b"1.50")[at % 3] for at in range(width))
    messages = [Begin(Lsn(9), 5, 7), Update(5, OldKind.FULL, old, new), Update(5, None, None, new)]
    frame = frame_of([relation], [*messages, Delete(5, OldKind.KEY, old), Commit(Lsn(9), Lsn(9), 5)])

    assert outcome_of_reference(frame, BEGINNING) == outcome(frame, BEGINNING)


def test_what_lies_at_or_below_the_position_is_left_out() -> None:
    relation = Relation(5, "public", "t", ReplicaIdentity.DEFAULT, (Column(1, "id", 23, -1),))
    rows = [Insert(5, (b"%d" % at,)) for at in range(3)]
    frame = frame_of([relation], [Begin(Lsn(9), 5, 7), *rows, Commit(Lsn(9), Lsn(9), 5)])

    keys = [key for topic in ENCODER.encode(frame, Position(Lsn(9), 1)).topics for key, _ in topic]

    assert keys == [b'{"id":2}']


def test_a_table_without_a_topic_refuses_its_changes_alone() -> None:
    def refusing(schema: str, table: str, operation: Operation) -> str:
        if table == "long":
            raise RecordError("too long", code="TOPIC_NAME_TOO_LONG")
        return "topic"

    relations = [
        Relation(identity, "public", name, ReplicaIdentity.DEFAULT, (Column(1, "id", 23, -1),))
        for identity, name in ((5, "long"), (6, "short"))
    ]
    frame = frame_of(relations, [Begin(Lsn(9), 5, 7), Insert(5, (b"1",)), Insert(6, (b"2",))])

    encoded = FrameEncoder(EventSource("p", "d", 1), refusing).encode(frame)

    assert [key for events in encoded.topics for key, _ in events] == [b'{"id":2}']
    assert [(r.error.code, r.ordinal) for r in encoded.rejected] == [("TOPIC_NAME_TOO_LONG", 0)]
