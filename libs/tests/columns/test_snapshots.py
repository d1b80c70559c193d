"""Rows of a snapshot through the kernels: the events of the reference, their ids as the contract has them."""

from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.frames import COMMIT_TIME, ORDERS, RawLog
from kit.made_frames import TEXTS

from tidegate.columns.batches import FrameDecoder
from tidegate.columns.cloudevents import cloudevents_envelope
from tidegate.columns.debezium import debezium_envelope
from tidegate.columns.envelopes import EventSource
from tidegate.columns.json_encode import FrameEncoder
from tidegate.columns.snapshots import frame_of_rows
from tidegate.contracts.frame import Frame, decode_frame
from tidegate.contracts.snapshot import decode_snapshot
from tidegate.errors import DecodeError
from tidegate.events import SNAPSHOT_ORDINALS, Operation, format_time
from tidegate.lsn import format_lsn
from tidegate.pgoutput.messages import Column, Relation, ReplicaIdentity

reference = pytest.importorskip("kit.reference", reason="the reference of the encoding is the processor's")
json = pytest.importorskip("orjson")

LOG = RawLog()
SOURCE = EventSource("pipe%line", LOG.generation.database, LOG.generation.system_identifier)
COLUMNS = tuple(Column(at == 0, f"c{at}", oid, -1) for at, oid in enumerate((20, 1700, 17, 114)))
TYPED = Relation(7, "public", "typed%", ReplicaIdentity.DEFAULT, COLUMNS)
values = st.none() | st.sampled_from(TEXTS)


def route(schema: str, table: str, operation: Operation) -> str:
    return f"{schema}.{table}.{operation}"


ENCODER = FrameEncoder(SOURCE, route)


def rows_of(*rows: Any, relation: Relation = ORDERS, first_row: int = 3) -> tuple[Frame, Any]:
    log = RawLog()
    log.epoch()
    log.transaction()
    frame = decode_frame(log.snapshot(*rows, relation=relation, first_row=first_row))
    head, text = decode_snapshot(frame.body)
    return frame_of_rows(frame, head, text), head


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(values, values, values, values), max_size=4))
def test_events_are_those_of_the_reference(rows: list[tuple[bytes | None, ...]]) -> None:
    frame, _ = rows_of(*rows, relation=TYPED)
    made = reference.encode(frame, route, SOURCE.pipeline)
    encoded = ENCODER.encode(frame)

    assert [(each.event.key, each.event.value) for each in made.events] == [pair for t in encoded.topics for pair in t]
    assert [each.raw for each in made.rejected] == [each.raw for each in encoded.rejected]
    assert {each.operation for each in encoded.rejected} <= {Operation.SNAPSHOT}


def test_an_event_says_that_it_is_of_a_snapshot() -> None:
    frame, head = rows_of((b"7", b"tea"), (b"8", None))
    (events,) = ENCODER.encode(frame).topics
    (key, first), (_, second) = events
    lsn = format_lsn(frame.header.last.commit_lsn)

    assert events.topic == "public.orders.SNAPSHOT"
    assert key == b'{"id":7}'
    assert json.loads(second) == {
        "id": head.ids(SOURCE.system_id).id(4),
        "channel": "public.orders",
        "operation": "SNAPSHOT",
        "payload": {"op": "r", "table": "orders", "row": {"id": 8, "note": None}, "old": None, "unchanged": []},
        "source": {
            "pipeline": "pipe%line",
            "database": "shop",
            "system_id": str(SOURCE.system_id),
            "snapshot": True,
        },
        "position": {"commit_lsn": lsn, "ordinal": SNAPSHOT_ORDINALS + 4, "lsn": lsn},
        "created_at": format_time(COMMIT_TIME),
        "transaction": None,
    }
    assert json.loads(first)["id"] == head.ids(SOURCE.system_id).id(3)


def test_other_envelopes_say_so_too() -> None:
    frame, _ = rows_of((b"7", b"tea"))
    ((_, debezium),) = FrameEncoder(SOURCE, lambda *_: "t", debezium_envelope).encode(frame).topics[0]
    ((_, cloud),) = FrameEncoder(SOURCE, lambda *_: "t", cloudevents_envelope).encode(frame).topics[0]
    said = json.loads(debezium)

    assert (said["op"], said["source"]["snapshot"], said["source"]["txId"]) == ("r", "true", None)
    assert json.loads(cloud)["type"] == "dev.tidegate.change.snapshot"
    assert json.loads(cloud)["data"]["op"] == "r"
    assert json.loads(cloud)["data"]["transaction"] is None


def test_change_batches_hold_them_as_rows() -> None:
    frame, head = rows_of((b"7", b"tea"), (b"8", None))
    (batch,) = FrameDecoder(SOURCE).decode(frame)
    rows = batch.rows.to_pylist()

    assert [chr(row["op"]) for row in rows] == ["r", "r"]
    assert [str(UUID(bytes=row["id"])) for row in rows] == [head.ids(SOURCE.system_id).id(number) for number in (3, 4)]
    assert {row["commit_lsn"] for row in rows} == {frame.header.last.commit_lsn}
    assert [row["ordinal"] for row in rows] == [SNAPSHOT_ORDINALS + 3, SNAPSHOT_ORDINALS + 4]
    assert [(row["new.id"], row["new.note"], row["commit_time"]) for row in rows] == [
        (b"7", b"tea", COMMIT_TIME),
        (b"8", None, COMMIT_TIME),
    ]


def test_rows_that_are_not_of_the_relation_are_refused() -> None:
    log = RawLog()
    log.epoch()
    frame = decode_frame(log.snapshot((b"7",)))
    head, text = decode_snapshot(frame.body)

    with pytest.raises(DecodeError) as refused:
        frame_of_rows(frame, head, text)

    assert refused.value.code == "COPY_ROW_WIDTH"
