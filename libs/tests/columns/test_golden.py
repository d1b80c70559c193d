"""Kernels on what real servers sent: events as the reference makes them, text as it came, types as they must be."""

from collections.abc import Iterator
from typing import Any

import pytest
from kit.captures import Capture, captures, sent
from kit.made_frames import GENERATION, SYSTEM_ID, frame_of
from kit.plain_casts import BEYOND, plain_cast
from kit.typed_values import plain, same

from tidegate.columns.batches import HEAD, FrameDecoder
from tidegate.columns.casts import Arrays, cast_of
from tidegate.columns.envelopes import EventSource
from tidegate.columns.json_encode import FrameEncoder
from tidegate.columns.typed import Caster
from tidegate.contracts.frame import Frame, OpenTransaction, body_messages
from tidegate.pgoutput import decode_message
from tidegate.pgoutput.messages import (
    UNCHANGED,
    Begin,
    Commit,
    Delete,
    Insert,
    LogicalMessage,
    Message,
    OldKind,
    Relation,
    Truncate,
    Type,
    Update,
)
from tidegate.position import BEGINNING

reference = pytest.importorskip("kit.reference", reason="the reference of the encoding is the processor's")

ALL = captures()
TEXT = [capture for capture in ALL if "binary" not in str(capture)]
_CHANGES = (Insert, Update, Delete, Truncate, LogicalMessage)


def frames(capture: Capture) -> Iterator[Frame]:
    """The plain transactions of a capture; as the reader's, a frame ends before a relation that is described anew."""
    known: dict[tuple[type, int], Relation | Type] = {}
    messages: list[Message] = []
    begin, ordinal, opened = None, 0, None
    for each in sent(capture):
        message = each.message
        if each.in_stream:
            continue
        if isinstance(message, Relation | Type):
            if messages:
                yield frame_of([*known.values()], messages, opened)  # type: ignore[list-item]
                opened = OpenTransaction(begin.xid, begin.commit_lsn, begin.commit_time, ordinal) if begin else None
                messages = []
            identity = message.relation_id if isinstance(message, Relation) else message.type_oid
            known[type(message), identity] = message
        elif isinstance(message, Begin):
            begin, ordinal = message, 0
            messages.append(message)
        elif begin is not None and isinstance(message, (*_CHANGES, Commit)):
            messages.append(message)
            ordinal += isinstance(message, _CHANGES)
            if isinstance(message, Commit):
                begin = None
    yield frame_of([*known.values()], messages, opened)  # type: ignore[list-item]


def route(schema: str, table: str, _: str) -> str:
    return f"{schema}.{table}"


@pytest.mark.parametrize("capture", ALL, ids=str)
def test_the_same_events_and_the_same_refusals(capture: Capture) -> None:
    encoder, events = FrameEncoder(EventSource("p", GENERATION.database, SYSTEM_ID), route), 0
    for frame in frames(capture):
        expected = reference.encode(frame, route, "p", BEGINNING)
        encoded = encoder.encode(frame)
        events += encoded.events
        assert {each.topic: list(each) for each in encoded.topics} == {
            each.topic: expected.of_topic(each.topic) for each in expected.events
        }
        assert sorted(each.raw for each in expected.rejected) == sorted(each.raw for each in encoded.rejected)
    # In binary form all but whole rows of NULL are refused; where large transactions are streamed, few rows are plain.
    assert events > (5 if "binary" in str(capture) else 900 if capture.protocol == 1 else 100)


def _sides(message: Any, relation: Relation) -> tuple[Any, Any]:
    new, old = getattr(message, "new", None), getattr(message, "old", None)
    if old is not None and message.old_kind is OldKind.KEY:
        old = tuple(v if c.is_key else UNCHANGED for v, c in zip(old, relation.columns, strict=True))
    if new is not None and old is not None:
        new = tuple(o if n is UNCHANGED else n for n, o in zip(new, old, strict=True))
    nothing = (None,) * len(relation.columns)
    return new or nothing, old or nothing


def _without(value: Any) -> Any:
    return None if value is UNCHANGED else value


@pytest.mark.parametrize("arrays", Arrays)
@pytest.mark.parametrize("capture", TEXT, ids=str)
def test_columns_hold_the_text_that_was_sent_and_the_values_that_it_means(capture: Capture, arrays: Arrays) -> None:
    decoder, caster = FrameDecoder(EventSource("p", "d", SYSTEM_ID)), Caster(arrays)
    kinds = set()
    for frame in frames(capture):
        by_relation: dict[int, list[Any]] = {}
        for message in _rows(frame):
            by_relation.setdefault(message.relation_id, []).append(message)
        for batch in decoder.decode(frame):
            relation, first = batch.shape.relation, len(HEAD)
            messages = by_relation.get(relation.relation_id, ())
            rows = [sum(_sides(each, relation), ()) for each in messages]
            keep = [at for at, op in enumerate(batch.rows.column("op").to_pylist()) if op != ord("t")]
            typed = caster.cast(batch)
            for at, column in enumerate(2 * relation.columns):
                texts = [row[at] for row in rows]
                assert [_without(text) for text in texts] == [
                    batch.rows.column(first + at)[row].as_py() for row in keep
                ]
                mask = batch.unsent.get(first + at)
                assert [text is UNCHANGED for text in texts] == [mask[row].as_py() if mask else False for row in keep]
                cast = cast_of(column.type_oid, column.typmod, batch.shape.types, arrays)
                values = plain(typed.rows.column(first + at))
                beyond = typed.beyond.get(first + at)
                for text, row in zip(texts, keep, strict=True):
                    found = BEYOND if beyond and beyond[row].as_py() else values[row]
                    expected = plain_cast(_without(text), cast)
                    assert same(expected, found) or expected is found is BEYOND, (text, str(cast.type), expected, found)
                kinds.add(str(cast.type))
    assert len(kinds) > 35


def _rows(frame: Frame) -> Iterator[Any]:
    for _, raw in body_messages(frame):
        message = decode_message(raw)
        if isinstance(message, Insert | Update | Delete):
            yield message
