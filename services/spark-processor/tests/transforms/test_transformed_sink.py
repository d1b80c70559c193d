"""What a sink behind transforms is given, and what its dead letters hold."""

import json
from typing import Any

import pyarrow as pa
import pytest
from kit.frames import GENERATION, ORDERS, RawLog
from kit.memory_sink import MemorySink
from kit.transformed import CANARY, CHANGES, REDACT, RENAME, Events, frame_of, lane

from tidegate.columns.batches import FrameDecoder
from tidegate.columns.envelopes import EventSource
from tidegate.columns.typed import Caster
from tidegate.config.sinks import Route, SinkConfig, SinkType
from tidegate.config.tables import TablePattern
from tidegate.config.transforms import Transform
from tidegate.config.values import ToastPolicy
from tidegate.contracts.frame import Frame, decode_frame
from tidegate.errors import ConfigError
from tidegate.pgoutput.messages import (
    UNCHANGED,
    Column,
    Insert,
    Relation,
    ReplicaIdentity,
    Truncate,
    Update,
)
from tidegate.position import BEGINNING, Position
from tidegate_processor.transformed_sink import TransformedSink


def test_of_a_masked_value_nothing_is_left_in_any_event() -> None:
    config = lane(REDACT)
    sink = Events(config)
    TransformedSink(sink, config).write(frame_of(*CHANGES), BEGINNING)

    assert len(sink.events) == 5
    assert not any(CANARY in value for _, value in sink.events)
    assert not any(CANARY in frame.body for frame in sink.frames)
    assert b'"row":{"id":1,"note":"***"},"old":null,"unchanged":[]' in sink.events[0][1]
    assert b'"row":{"id":2,"note":"***"},"old":{"id":1,"note":"***"},"unchanged":[]' in sink.events[1][1]
    assert b'"row":{"id":2},"old":null,"unchanged":["note"]' in sink.events[2][1]
    assert b'"row":{"id":2,"note":null}' in sink.events[3][1]


def test_names_are_new_everywhere() -> None:
    config = lane(RENAME)
    sink = Events(config)
    TransformedSink(sink, config).write(frame_of(*CHANGES), BEGINNING)

    assert [key for key, _ in sink.events[:2]] == [b'{"number":1}', b'{"number":2}']
    assert b'"unchanged":["remark"]' in sink.events[2][1]
    assert not any(b'"note"' in value for _, value in sink.events)


@pytest.mark.parametrize(
    ("options", "passing"),
    [
        ({"operations": ["INSERT", "DELETE"]}, ["INSERT", "DELETE"]),
        ({"operations": ["UPDATE"], "action": "drop"}, ["INSERT", "DELETE", "TRUNCATE"]),
        ({"tables": ["public.o*"], "action": "drop"}, []),
        (
            {"tables": ["public.people"], "action": "drop"},
            ["INSERT", "UPDATE", "UPDATE", "UPDATE", "DELETE", "TRUNCATE"],
        ),
    ],
)
def test_a_filter_goes_by_table_and_operation(options: dict[str, Any], passing: list[str]) -> None:
    config = lane(("filter", options))
    sink = Events(config)
    TransformedSink(sink, config).write(frame_of(*CHANGES, Truncate((ORDERS.relation_id,), 0)), BEGINNING)

    assert passing == [json.loads(value)["operation"] for _, value in sink.events]


def test_what_a_filter_leaves_out_takes_its_ordinal() -> None:
    config = lane(("filter", {"operations": ["DELETE"]}), REDACT)
    sink = Events(config)
    TransformedSink(sink, config).write(frame_of(*CHANGES), BEGINNING)

    (event,) = sink.events
    assert b'"ordinal":4' in event[1]


def test_a_dead_letter_of_a_masked_table_says_only_where_the_change_stands() -> None:
    config = lane(REDACT)
    sink = TransformedSink(MemorySink(poison=lambda _: True, config=config), config)
    receipt = sink.write(frame_of(*CHANGES), BEGINNING)

    assert len(receipt.rejected) == 5
    assert {(b"", ())} == {(each.raw, each.shape.source) for each in receipt.rejected}
    assert [each.ordinal for each in receipt.rejected] == [0, 1, 2, 3, 4]
    assert {"orders"} == {each.shape.relation.name for each in receipt.rejected}


def test_a_dead_letter_of_another_table_holds_the_change_as_received() -> None:
    config = lane(RENAME)
    frame = frame_of(*CHANGES)
    rejected = (
        TransformedSink(MemorySink(poison=lambda _: True, config=config), config).write(frame, BEGINNING).rejected
    )
    untouched = MemorySink(poison=lambda _: True).write(frame, BEGINNING).rejected

    assert [(each.raw, each.shape.source) for each in untouched] == [(each.raw, each.shape.source) for each in rejected]
    assert {"id", "note"} == {column.name for column in rejected[0].shape.relation.columns}


def test_what_was_delivered_before_is_not_looked_at() -> None:
    config = lane(REDACT)
    sink = Events(config)
    frame = frame_of(*CHANGES)
    receipt = TransformedSink(sink, config).write(frame, Position(frame.header.last.commit_lsn, 3))

    assert receipt.events == 1


@pytest.mark.parametrize(
    ("options", "passing"),
    [
        ({"where": "id = 1"}, [0]),
        ({"where": "id <> 1"}, [1, 2, 3, 4]),
        ({"where": "id = 1", "action": "drop"}, [1, 2, 3, 4]),
        ({"where": "id = 1", "operations": ["INSERT", "UPDATE"]}, [0]),
        ({"where": "id = 1", "operations": ["UPDATE"], "action": "drop"}, [0, 1, 2, 3, 4]),
        ({"where": "id = 1", "tables": ["public.people"]}, [0, 1, 2, 3, 4]),
        ({"where": "note LIKE 'canary%'"}, [0, 1, 2, 4]),
        ({"where": "note LIKE 'canary%' AND id = 1"}, [0]),
        ({"where": "note IS NULL"}, [2, 3]),
        ({"where": "upper(note) = 'CANARY-7F3A'", "action": "drop"}, [2, 3]),
    ],
)
def test_a_filter_goes_by_values_and_what_was_not_sent_passes(options: dict[str, Any], passing: list[int]) -> None:
    """Of the third change the server has not sent the note."""
    config = lane(("filter", options))
    sink = Events(config)
    TransformedSink(sink, config).write(frame_of(*CHANGES), BEGINNING)

    assert passing == [json.loads(value)["position"]["ordinal"] for _, value in sink.events]


def test_a_filter_sees_the_row_before_any_mask_or_name() -> None:
    config = lane(RENAME, ("filter", {"where": f"note = '{CANARY.decode()}' AND id = 2"}), ("mask", NOTE))
    sink = Events(config)
    TransformedSink(sink, config).write(frame_of(*CHANGES), BEGINNING)

    assert [json.loads(value)["position"]["ordinal"] for _, value in sink.events] == [1, 2, 4]
    assert not any(CANARY in value for _, value in sink.events)


NOTE = {"columns": ["remark"], "how": "redact"}
COLUMNS = Column(1, "id", 23, -1), Column(0, "amount", 1700, -1)
AMOUNTS = Relation(7, "public", "amounts", ReplicaIdentity.DEFAULT, COLUMNS)


def amounts(*values: bytes | None) -> Frame:
    log = RawLog(GENERATION)
    log.epoch()
    return decode_frame(log.transaction(*(Insert(7, (b"1", value)) for value in values), relation=AMOUNTS))


@pytest.mark.parametrize("own", [(), (("mask", {"columns": ["amount"], "how": "zero"}),)])
def test_a_row_that_cannot_be_judged_is_a_dead_letter_and_the_rest_goes_on(own: Any) -> None:
    config = lane(("filter", {"where": "amount > 10.5"}), *own)
    sink = Events(config)
    values = b"10.5", b"10.50000000000000000001", b"NaN", None, b"1" * 30
    receipt = TransformedSink(sink, config).write(amounts(*values), BEGINNING)

    assert [json.loads(value)["position"]["ordinal"] for _, value in sink.events] == [1, 4]
    ((code, ordinal, raw),) = [(each.error.code, each.ordinal, each.raw) for each in receipt.rejected]
    assert (code, ordinal) == ("FILTER_UNDECIDED", 2)
    assert (b"NaN" in raw) is (own == ())


@pytest.mark.parametrize(
    ("where", "code"), [("price > 1", "TRANSFORM_COLUMN_MISSING"), ("amount = 'x'", "TRANSFORM_CONDITION")]
)
def test_a_condition_that_does_not_fit_a_table_is_refused(where: str, code: str) -> None:
    config = lane(("filter", {"where": where}))
    with pytest.raises(ConfigError) as caught:
        TransformedSink(Events(config), config).write(amounts(b"1"), BEGINNING)

    assert code == caught.value.code


def test_who_requires_all_of_a_row_gets_a_dead_letter_where_it_was_not_sent() -> None:
    config = SinkConfig(name="events", type=SinkType.KAFKA_TOPICS, toast=ToastPolicy.REQUIRE_FULL)
    sink = Events(config)
    receipt = TransformedSink(sink, config).write(frame_of(*CHANGES), BEGINNING)

    assert [json.loads(value)["position"]["ordinal"] for _, value in sink.events] == [0, 1, 3, 4]
    ((error, ordinal, raw),) = [(each.error, each.ordinal, each.raw) for each in receipt.rejected]
    assert (error.code, ordinal, bool(raw)) == ("TOAST_NOT_SENT", 2, True)
    assert 'ALTER TABLE "public"."orders" REPLICA IDENTITY FULL' in error.remedy


def test_who_wants_previous_values_gets_those_that_the_lane_has_seen() -> None:
    note = CANARY * 100
    mask = Transform(type="mask", options={"columns": ["note"], "how": "redact"})
    for transforms, expected in (((), note.decode()), ((mask,), "***")):
        config = SinkConfig(
            name="events", type=SinkType.KAFKA_TOPICS, toast=ToastPolicy.PREVIOUS, transforms=transforms
        )
        sink = Events(config)
        changes = Insert(ORDERS.relation_id, (b"1", note)), Update(ORDERS.relation_id, None, None, (b"1", UNCHANGED))
        TransformedSink(sink, config).write(frame_of(*changes), BEGINNING)

        payloads = [json.loads(value)["payload"] for _, value in sink.events]
        assert [payload["row"]["note"] for payload in payloads] == [expected, expected]
        assert payloads[1]["unchanged"] == []


def test_a_condition_need_not_fit_a_table_that_the_sink_does_not_take() -> None:
    where = Transform(type="filter", options={"where": "price > 1"})
    route = Route(tables=(TablePattern.parse("public.orders"),))
    config = SinkConfig(name="events", type=SinkType.KAFKA_TOPICS, transforms=(where,), routes=(route,))
    sink = Events(config)
    TransformedSink(sink, config).write(amounts(b"1"), BEGINNING)

    assert sink.events == []


def test_change_batches_and_their_types_are_those_of_the_transformed_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEGATE_TEST_SALT", "0123456789abcdef")
    config = lane(("mask", {"columns": ["id"], "how": "tokenise", "salt": "${env:TIDEGATE_TEST_SALT}"}), RENAME)
    sink = Events(config)
    TransformedSink(sink, config).write(frame_of(*CHANGES), BEGINNING)
    (batch,) = FrameDecoder(EventSource("shop", "shop", 1)).decode(sink.frames[0])
    typed = Caster().cast(batch).rows

    assert {"new.number", "new.remark", "old.number", "old.remark"} <= set(typed.schema.names)
    assert typed.schema.field("new.number").type == pa.binary(16)
    assert len(batch.unsent[typed.schema.names.index("new.remark")]) == len(CHANGES)
