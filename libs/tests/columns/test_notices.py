"""Marks as events: what changed of a table's shape, with an id that depends on nothing but its place."""

import json
from dataclasses import replace
from typing import Any

import pytest
from kit.frames import ORDERS, RawLog

from tidegate.columns.debezium import debezium_envelope
from tidegate.columns.envelopes import EventSource
from tidegate.columns.json_encode import EncodedFrame, FrameEncoder
from tidegate.contracts.frame import Frame, decode_frame
from tidegate.contracts.mark import MarkKind
from tidegate.errors import DecodeError, RecordError
from tidegate.events import Operation
from tidegate.lsn import format_lsn
from tidegate.pgoutput.messages import Column

ADDED = replace(ORDERS, columns=(*ORDERS.columns, Column(0, "weight", 701, -1)))


def marked(**of_log: Any) -> Frame:
    log = RawLog(**of_log)
    log.epoch()
    return decode_frame(log.schema_change(ORDERS, ADDED))


def encoded(frame: Frame, *, pipeline: str = "shop") -> EncodedFrame:
    generation = frame.header.generation
    source = EventSource(pipeline, generation.database, generation.system_identifier)
    return FrameEncoder(source, lambda schema, table, operation: f"{schema}.{table}.{operation}").encode(frame)


def test_the_event_says_what_has_changed_and_what_columns_there_are_now() -> None:
    frame = marked()
    (events,) = encoded(frame).topics
    ((key, value),) = events
    event = json.loads(value)
    lsn = format_lsn(frame.header.first.commit_lsn)

    assert events.topic == "public.orders.SCHEMA_CHANGE"
    assert key is None
    assert list(event) == ["id", "channel", "operation", "payload", "source", "position", "created_at", "transaction"]
    assert event["payload"] == {
        "op": "s",
        "table": "orders",
        "row": None,
        "old": None,
        "unchanged": [],
        "changes": [{"kind": "column_added", "column": "weight", "was": None}],
        "columns": [
            {"name": "id", "type_oid": 23, "typmod": -1, "is_key": True},
            {"name": "note", "type_oid": 25, "typmod": -1, "is_key": False},
            {"name": "weight", "type_oid": 701, "typmod": -1, "is_key": False},
        ],
    }
    assert {"commit_lsn": lsn, "ordinal": 0, "lsn": lsn} == event["position"]
    assert (event["operation"], event["transaction"]) == (Operation.SCHEMA_CHANGE, None)


def test_its_id_is_the_same_whenever_it_is_sent() -> None:
    ids = [json.loads(value)["id"] for _ in range(2) for _, value in encoded(marked()).topics[0]]
    assert ids[0] == ids[1]


def test_what_no_topic_takes_can_be_a_dead_letter() -> None:
    (events,) = encoded(marked()).topics
    (letter,) = events.refused(RecordError("no", code="NO"))

    assert (letter.operation, letter.shape.relation) == (Operation.SCHEMA_CHANGE, ADDED)
    assert letter.raw[:1] == b"R"


def test_other_envelopes_have_no_such_event() -> None:
    frame = marked()
    assert FrameEncoder(EventSource("shop", "shop", 1), lambda *_: "t", debezium_envelope).encode(frame).topics == ()


def test_begin_and_end_of_a_snapshot_are_said() -> None:
    log = RawLog()
    log.epoch()
    marks = [log.snapshot_mark(MarkKind.SNAPSHOT_STARTED), log.snapshot_mark(MarkKind.SNAPSHOT_COMPLETED, rows=7)]
    started, completed = (json.loads(value) for mark in marks for _, value in encoded(decode_frame(mark)).topics[0])

    assert (started["operation"], completed["operation"]) == ("SNAPSHOT_STARTED", "SNAPSHOT_COMPLETED")
    assert (started["payload"]["op"], completed["payload"]["op"]) == ("b", "e")
    assert completed["payload"]["snapshot"]["rows"] == 7
    assert started["source"]["snapshot"]
    assert started["id"] != completed["id"]


def test_a_mark_of_a_snapshot_that_names_none_is_refused() -> None:
    log = RawLog()
    log.epoch()

    with pytest.raises(DecodeError) as refused:
        encoded(decode_frame(log.snapshot_mark(MarkKind.SNAPSHOT_STARTED, snapshot="x")))

    assert refused.value.code == "MARK_MALFORMED"
