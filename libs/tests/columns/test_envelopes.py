"""Debezium's and CloudEvents' envelopes: byte for byte as written plainly, and as Debezium's documentation shows."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.captures import captures, sent
from kit.made_frames import GENERATION, SYSTEM_ID, frame_of, frames

from tidegate.columns.cloudevents import cloudevents_envelope
from tidegate.columns.debezium import debezium_envelope
from tidegate.columns.envelopes import EventSource
from tidegate.columns.json_encode import FrameEncoder
from tidegate.contracts.frame import Frame
from tidegate.errors import DecodeError, RecordError
from tidegate.lsn import Lsn
from tidegate.pgoutput.messages import (
    UNCHANGED,
    Begin,
    Column,
    Delete,
    Insert,
    OldKind,
    Relation,
    ReplicaIdentity,
    Truncate,
    Type,
    Update,
)
from tidegate.position import BEGINNING

reference = pytest.importorskip("kit.reference", reason="the reference of the encoding is the processor's")
plain_envelopes = pytest.importorskip("kit.plain_envelopes")

SOURCE = EventSource("pipe%line", GENERATION.database, SYSTEM_ID)
PLACE = f"/tidegate/pipe%25line/{SYSTEM_ID}/shop%22db"
DEBEZIUM = FrameEncoder(SOURCE, lambda *_: "topic", debezium_envelope)
CLOUDEVENTS = FrameEncoder(SOURCE, lambda *_: "topic", cloudevents_envelope)


def _debezium(change: Any, shape: Any) -> bytes:
    return bytes(plain_envelopes.debezium(change, shape, SOURCE.pipeline, SOURCE.database))


def _cloudevent(change: Any, shape: Any) -> bytes:
    return bytes(plain_envelopes.cloudevent(change, shape, SYSTEM_ID, PLACE))


def expected(frame: Frame, write: Callable[[Any, Any], bytes]) -> list[bytes]:
    """Of the changes that the default envelope takes: what is refused does not depend on the envelope."""
    made = reference.encode(frame, lambda *_: "topic", SOURCE.pipeline, BEGINNING)
    refused = {(each.raw, each.lsn, each.shape.relation.relation_id) for each in made.rejected}
    return [
        write(change, shape)
        for change, shape in reference.row_changes(frame, BEGINNING)
        if (change.raw, change.lsn, shape.relation.relation_id) not in refused
    ]


ENVELOPES = [(DEBEZIUM, _debezium), (CLOUDEVENTS, _cloudevent)]


@pytest.mark.parametrize(("encoder", "write"), ENVELOPES, ids=["debezium", "cloudevents"])
@pytest.mark.parametrize("capture", [each for each in captures() if str(each).endswith("v1")], ids=str)
def test_what_servers_sent_in_every_envelope(encoder: FrameEncoder, write: Any, capture: Any) -> None:
    relations: dict[int, Relation] = {}
    types: dict[int, Type] = {}
    count = 0
    begin = None
    for each in sent(capture):
        message = each.message
        if isinstance(message, Relation):
            relations[message.relation_id] = message
        elif isinstance(message, Type):
            types[message.type_oid] = message
        elif isinstance(message, Begin):
            begin = message
        elif isinstance(message, Insert | Update | Delete | Truncate) and begin is not None:
            if isinstance(message, Insert) and count > 150 and len(message.new) < 5:
                continue  # thousands alike
            ids = message.relation_ids if isinstance(message, Truncate) else (message.relation_id,)
            frame = frame_of([*types.values(), *(relations[one] for one in dict.fromkeys(ids))], [begin, message])  # type: ignore[list-item]
            events = [value for topic in encoder.encode(frame).topics for _, value in topic]
            assert expected(frame, write) == events
            for event in events:
                json.loads(event)
            count += len(events)
    assert count > 100


@settings(max_examples=60, deadline=None)
@given(frames(), st.sampled_from(ENVELOPES))
def test_any_change_in_every_envelope(frame: Frame, pair: Any) -> None:
    encoder, write = pair
    try:
        events = [value for topic in encoder.encode(frame).topics for _, value in topic]
    except (DecodeError, RecordError):
        return
    assert expected(frame, write) == events


CUSTOMERS = Relation(
    7,
    "public",
    "customers",
    ReplicaIdentity.DEFAULT,
    tuple(
        Column(int(name == "id"), name, oid, -1)
        for name, oid in (("id", 23), ("first_name", 1043), ("last_name", 1043), ("email", 1043))
    ),
)
# Debezium's documentation, "create events" of the connector for PostgreSQL; without what names it and what it measures.
DOCUMENTED = {
    "before": None,
    "after": {"id": 1, "first_name": "Anne", "last_name": "Kretchmar", "email": "annek@noanswer.org"},
    "source": {
        "version": "tidegate",
        "connector": "postgresql",
        "name": "PostgreSQL_server",
        "ts_ms": 1559033904863,
        "ts_us": 1559033904863112,
        "ts_ns": 1559033904863112000,
        "snapshot": "false",
        "db": "postgres",
        "sequence": '["24023119","24023128"]',
        "schema": "public",
        "table": "customers",
        "txId": 555,
        "lsn": 24023128,
        "xmin": None,
    },
    "transaction": None,
    "op": "c",
    "ts_ms": 1559033904863,
    "ts_us": 1559033904863112,
    "ts_ns": 1559033904863112000,
}


def _one(*changes: Any) -> tuple[bytes | None, bytes]:
    begin = Begin(Lsn(24023119), 1559033904863112 - 946_684_800_000_000, 555)
    frame = frame_of([CUSTOMERS], [begin, *changes])
    body = frame.body.replace((2**64 - 2).to_bytes(8, "big"), (24023128).to_bytes(8, "big"))
    source = EventSource("PostgreSQL_server", "postgres", SYSTEM_ID)
    made = Frame(frame.header, frame.schema, body)
    ((event,),) = FrameEncoder(source, lambda *_: "topic", debezium_envelope).encode(made).topics
    return event


def test_debezium_s_example_comes_out_byte_for_byte() -> None:
    key, value = _one(Insert(7, (b"1", b"Anne", b"Kretchmar", b"annek@noanswer.org")))

    assert value == json.dumps(DOCUMENTED, separators=(",", ":")).encode()
    assert key == b'{"id":1}'


def test_debezium_s_update_marks_what_was_not_sent() -> None:
    _, value = _one(Update(7, None, None, (b"1", b"Anne Marie", UNCHANGED, None)))

    event = json.loads(value)
    assert event["op"] == "u"
    assert event["before"] is None
    assert event["after"] == {
        "id": 1,
        "first_name": "Anne Marie",
        "last_name": "__debezium_unavailable_value",
        "email": None,
    }


def test_debezium_s_delete_has_the_key_before_and_nothing_after() -> None:
    _, value = _one(Delete(7, OldKind.KEY, (b"1", None, None, None)))

    assert [json.loads(value)[name] for name in ("op", "before", "after")] == ["d", {"id": 1}, None]


def test_debezium_s_truncate_has_neither() -> None:
    key, value = _one(Truncate((7,), 0))

    event = json.loads(value)
    assert (key, event["op"], event.keys() & {"before", "after"}) == (None, "t", set())
