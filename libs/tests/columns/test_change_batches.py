"""Frames to columns of text: every value as it was sent, NULL, or not sent; positions and ids beside them."""

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from kit.made_frames import SYSTEM_ID, frame_of, frames

from tidegate.columns.batches import ChangeBatch, FrameDecoder
from tidegate.columns.envelopes import EventSource
from tidegate.contracts.frame import BODY_ENTRY, Frame, SchemaRole, body_messages
from tidegate.errors import DecodeError
from tidegate.events import event_id
from tidegate.lsn import Lsn
from tidegate.pgoutput import decode_message
from tidegate.pgoutput.changes import placed_changes
from tidegate.pgoutput.messages import (
    UNCHANGED,
    Begin,
    Binary,
    Column,
    Commit,
    Delete,
    Insert,
    LogicalMessage,
    OldKind,
    Origin,
    Relation,
    ReplicaIdentity,
    Row,
    Truncate,
    Update,
)
from tidegate.position import BEGINNING

DECODER = FrameDecoder(EventSource("p", "d", SYSTEM_ID))
_Rows = dict[int, list[dict[str, Any]]]


def reference(frame: Frame) -> _Rows:
    """By relation what its columns must say; without the rows that hold binary values."""
    relations = {r.relation_id: r for r in map(decode_message, _schema(frame)) if isinstance(r, Relation)}
    opened = frame.header.open_transaction
    begin = Begin(opened.commit_lsn, opened.commit_time, opened.xid) if opened else None
    ordinal = opened.next_ordinal if opened else 0
    found: _Rows = {}
    for lsn, raw in body_messages(frame):
        message = decode_message(raw)
        if isinstance(message, Begin | Commit):
            begin, ordinal = (message, 0) if isinstance(message, Begin) else (None, 0)
        elif isinstance(message, Insert | Update | Delete | Truncate | LogicalMessage):
            if begin is None:
                raise DecodeError("outside")
            listed = getattr(message, "relation_ids", None) or (getattr(message, "relation_id", None),)
            for each in listed if not isinstance(message, LogicalMessage) else ():
                if each is None or (begin.commit_lsn, ordinal) <= BEGINNING:
                    continue
                sides = _sides(message, relations[each])
                if sides is not None:
                    sub = listed.index(each) if isinstance(message, Truncate) else 0
                    head = (int(lsn), begin.commit_lsn, ordinal, begin.xid, begin.commit_time, sub)
                    found.setdefault(each, []).append({"head": head, "new": sides[0], "old": sides[1]})
            ordinal += 1
    return found


def _schema(frame: Frame) -> list[bytes]:
    return [entry.message for entry in frame.schema if entry.role is SchemaRole.CURRENT]


def _sides(message: Any, relation: Relation) -> tuple[Row | None, Row | None] | None:
    """New and old row; None for a change that is refused because of a binary value."""
    new, old = getattr(message, "new", None), getattr(message, "old", None)
    for row in (each for each in (new, old) if each is not None):
        if len(row) != len(relation.columns):
            raise DecodeError("width")
        if any(isinstance(value, Binary) for value in row):
            return None
    if isinstance(message, Insert) and UNCHANGED in message.new:
        raise DecodeError("unchanged")
    if old is not None and message.old_kind is OldKind.KEY:
        flags = [column.is_key for column in relation.columns]
        old = tuple(value if key else UNCHANGED for value, key in zip(old, flags, strict=True))
    if new is not None and old is not None:
        new = tuple(o if n is UNCHANGED else n for n, o in zip(new, old, strict=True))
    return new, old


def decoded(frame: Frame) -> _Rows:
    found: _Rows = {}
    for batch in DECODER.decode(frame):
        columns, count = batch.rows.to_pydict(), batch.rows.num_rows
        width = len(batch.shape.relation.columns)
        first = batch.rows.num_columns - 2 * width
        values = batch.rows.columns[first:]
        masks = [batch.unsent.get(first + at) for at in range(2 * width)]
        batch.rows.validate(full=True)
        for row in range(count):
            cells = [
                UNCHANGED if mask is not None and mask[row].as_py() else array[row].as_py()
                for array, mask in zip(values, masks, strict=True)
            ]
            op = chr(columns["op"][row])
            head = tuple(columns[name][row] for name in ("lsn", "commit_lsn", "ordinal", "xid", "commit_time"))
            sides = {"new": tuple(cells[:width]) if op in "cu" else None}
            sides["old"] = tuple(cells[width:]) if columns["old_kind"][row] else None
            found.setdefault(batch.shape.relation.relation_id, []).append(
                {"head": head, "id": str(UUID(bytes=columns["id"][row])), **sides}
            )
    return found


@settings(max_examples=300, deadline=None)
@given(frames())
def test_columns_say_what_was_sent(frame: Frame) -> None:
    try:
        expected = reference(frame)
    except DecodeError:
        with pytest.raises(DecodeError):
            DECODER.decode(frame)
        return
    for rows in expected.values():
        for row in rows:
            *head, sub = row["head"]
            _, commit_lsn, ordinal, xid, time = head
            row["head"] = tuple(head)
            row["id"] = event_id(
                system_id=SYSTEM_ID, commit_lsn=commit_lsn, xid=xid, commit_time=time, ordinal=ordinal, sub=sub
            )
    assert expected == decoded(frame)


def test_a_value_of_binary_form_refuses_its_row_alone() -> None:
    relation = Relation(5, "public", "t", ReplicaIdentity.DEFAULT, (Column(1, "id", 23, -1),))
    frame = frame_of([relation], [Begin(Lsn(9), 5, 7), Insert(5, (Binary(b"1"),)), Insert(5, (b"2",))])

    (batch,) = DECODER.decode(frame)

    assert batch.rows.column("new.id").to_pylist() == [b"2"]
    assert [(each.error.code, each.ordinal) for each in batch.rejected] == [("VALUE_BINARY", 0)]


def test_what_is_refused_between_rows_changes_the_order_of_neither() -> None:
    relation = Relation(5, "public", "t", ReplicaIdentity.DEFAULT, (Column(1, "id", 23, -1),))
    values = [Binary(b"0"), Binary(b"1"), b"2", Binary(b"3"), b"4", b"5", Binary(b"6"), b"7"]
    frame = frame_of([relation], [Begin(Lsn(9), 5, 7), *(Insert(5, (value,)) for value in values)])

    (batch,) = DECODER.decode(frame)

    assert batch.rows.column("new.id").to_pylist() == [b"2", b"4", b"5", b"7"]
    assert [each.ordinal for each in batch.rejected] == [0, 1, 3, 6]
    assert [batch.refused(row, batch.rejected[0].error).ordinal for row in range(4)] == [2, 4, 5, 7]


def test_a_batch_that_is_kept_stays_as_it_is_while_the_decoder_goes_on() -> None:
    columns = (Column(1, "id", 23, -1), Column(0, "note", 25, -1))
    relation = Relation(5, "public", "t", ReplicaIdentity.DEFAULT, columns)

    def batch_of(count: int, value: bytes) -> ChangeBatch:
        rows = [Update(5, None, None, (value, UNCHANGED)) for _ in range(count)]
        (batch,) = DECODER.decode(frame_of([relation], [Begin(Lsn(9), 5, 7), *rows]))
        return batch

    kept = batch_of(70, b"1")
    rows, unsent = kept.rows.to_pylist(), {at: mask.to_pylist() for at, mask in kept.unsent.items()}
    for count in (1, 70, 71):
        assert len(batch_of(count, b"22").rows) == count

    assert kept.rows.to_pylist() == rows
    assert {at: mask.to_pylist() for at, mask in kept.unsent.items()} == unsent
    assert list(unsent.values()) == [[True] * 70]


@pytest.mark.parametrize("said", [0, 3, 2**32 - 1])
def test_a_frame_may_hold_more_than_its_header_says(said: int) -> None:
    """What its header counts is where memory begins, not a promise."""
    relation = Relation(5, "public", "t", ReplicaIdentity.DEFAULT, (Column(1, "id", 23, -1),))
    origins = [Origin(Lsn(1), "somewhere")] * 40
    rows = [Insert(5, (b"%d" % at,)) for at in range(30)]
    frame = frame_of([relation], [Begin(Lsn(9), 5, 7), *origins, *rows, *origins, *rows])
    frame = replace(frame, header=replace(frame.header, messages=said, changes=said))

    (batch,) = DECODER.decode(frame)

    assert batch.rows.column("new.id").to_pylist() == [b"%d" % at for at in range(30)] * 2
    # Of two that are malformed, the first is named, although it is of a kind that the reference judges.
    damaged = b"O\0\0", b"I\0\0"
    broken = replace(frame, body=frame.body + b"".join(BODY_ENTRY.pack(len(raw), 0) + raw for raw in damaged))
    with pytest.raises(DecodeError) as named:
        DECODER.decode(broken)
    with pytest.raises(DecodeError) as first:
        decode_message(damaged[0])
    assert str(named.value) == str(first.value)


def test_a_frame_that_describes_nothing_has_no_rows() -> None:
    """As an empty transaction of an old server."""
    assert DECODER.decode(frame_of([], [Begin(Lsn(9), 5, 7), Commit(Lsn(9), Lsn(9), 5)])) == ()


@settings(max_examples=100, deadline=None)
@given(frames())
def test_messages_are_rows_of_their_own(frame: Frame) -> None:
    try:
        placed = [each for each in placed_changes(frame) if isinstance(each.message, LogicalMessage)]
        found = DECODER.messages(frame).to_pylist()
    except DecodeError:
        return

    expected = [each for each in placed if (each.transaction.commit_lsn, each.ordinal) > BEGINNING]
    assert [(each.message.prefix, each.message.content) for each in expected] == [
        (row["prefix"], row["content"]) for row in found
    ]
    for each, row in zip(expected, found, strict=True):
        begin = each.transaction
        place = {"commit_lsn": begin.commit_lsn, "ordinal": each.ordinal, "xid": begin.xid}
        assert place.items() <= row.items()
        identity = event_id(system_id=SYSTEM_ID, commit_time=begin.commit_time, **place)
        assert (row["id"], row["lsn"]) == (UUID(identity).bytes, each.message.lsn)


def test_a_relation_of_1600_columns() -> None:
    columns = tuple(Column(at % 7 == 0, f"c{at}", 25, -1) for at in range(1600))
    relation = Relation(5, "public", "wide", ReplicaIdentity.FULL, columns)
    new = tuple((b"%d" % at, None)[at % 3 == 0] for at in range(1600))
    old = tuple((None, b"%d" % at)[at % 2] for at in range(1600))
    frame = frame_of([relation], [Begin(Lsn(9), 5, 7), Update(5, OldKind.FULL, old, new), Insert(5, new)])

    (rows,) = decoded(frame).values()

    assert [(row["new"], row["old"]) for row in rows] == [(new, old), (new, None)]
