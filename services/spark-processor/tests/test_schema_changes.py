"""A table changes its shape: told in order, before the first row of the new shape, or the lane stops there."""

import json
from dataclasses import replace
from typing import Any

import pytest
from kit.frames import ORDERS, RawLog, row
from kit.memory_sink import MemorySink

from tidegate.config.sinks import SinkConfig
from tidegate.contracts.mark import MarkKind
from tidegate.errors import StreamError
from tidegate.pgoutput.messages import Column, Insert
from tidegate_processor.commit import Delivery
from tidegate_processor.kafka_clients import RawTopicView

ADDED = replace(ORDERS, columns=(*ORDERS.columns, Column(0, "weight", 701, -1)))
RENAMED = replace(ORDERS, columns=(ORDERS.columns[0], replace(ORDERS.columns[1], name="remark")))


def deliver(sink: MemorySink, **settings: Any) -> Delivery:
    return Delivery(
        "shop",
        SinkConfig.model_validate_json(json.dumps({"name": "events", "type": "kafka_topics", **settings})),
        sink,
        look=lambda: RawTopicView("topic", 0, 1000),
        acked=lambda _: None,
        lineage=lambda: None,
        config_epoch="c1",
        incarnation=1,
    )


def feed(delivery: Delivery, log: RawLog) -> None:
    delivery.feed(enumerate(log.frames))
    delivery.commit()


def changed(current: Any = ADDED) -> RawLog:
    log = RawLog()
    log.epoch()
    log.transaction(row(1))
    log.schema_change(ORDERS, current)
    log.transaction(Insert(ORDERS.relation_id, (b"2", b"", b"1.5")), relation=ADDED)
    return log


def keys(sink: MemorySink) -> list[bytes]:
    return [change.message.new[0] for change in sink.delivered]


def test_the_sink_is_told_and_rows_go_on() -> None:
    sink = MemorySink()
    feed(deliver(sink), changed())

    assert [mark.kind for mark in sink.marks] == [MarkKind.SCHEMA_CHANGE]
    assert keys(sink) == [b"1", b"2"]


def test_a_sink_that_ignores_it_is_told_nothing_and_rows_go_on() -> None:
    sink = MemorySink()
    feed(deliver(sink, schema_changes={"column_added": "ignore"}), changed())

    assert sink.marks == []
    assert keys(sink) == [b"1", b"2"]


def test_the_kind_of_change_decides() -> None:
    sink = MemorySink()
    feed(deliver(sink, schema_changes={"column_added": "halt", "column_renamed": "ignore"}), changed(RENAMED))

    assert sink.marks == []
    assert keys(sink) == [b"1", b"2"]


def test_the_lane_stops_before_the_first_row_of_the_new_shape_and_has_all_before_it() -> None:
    log, sink = changed(), MemorySink()
    halting = {"schema_changes": {"column_added": "halt"}}
    for _ in range(2):
        with pytest.raises(StreamError) as halted:
            feed(deliver(sink, **halting), log)
        assert halted.value.code == "SCHEMA_CHANGE_HALTED"
        assert keys(sink) == [b"1"]

    feed(deliver(sink), log)

    assert keys(sink) == [b"1", b"2"]
    assert len(sink.marks) == 1


def test_a_table_that_the_sink_does_not_take_is_none_of_its_business() -> None:
    sink = MemorySink()
    feed(deliver(sink, routes=[{"tables": ["public.people"]}], schema_changes={"column_added": "halt"}), changed())

    assert sink.marks == []


def test_what_was_told_is_not_told_again_where_an_epoch_sends_changes_again() -> None:
    log, sink = changed(), MemorySink()
    again = RawLog()
    again.epoch(2)
    again.transaction(row(1))
    again.schema_change(ORDERS, ADDED)
    again.transaction(Insert(ORDERS.relation_id, (b"2", b"", b"1.5")), relation=ADDED)
    log.frames += again.frames

    feed(deliver(sink), log)

    assert len(sink.marks) == 1


def test_begin_and_end_of_a_snapshot_are_told() -> None:
    log, sink = RawLog(), MemorySink()
    log.epoch()
    log.snapshot_mark(MarkKind.SNAPSHOT_STARTED)
    log.snapshot((b"1", b""))
    log.snapshot_mark(MarkKind.SNAPSHOT_COMPLETED, rows=1)

    feed(deliver(sink), log)

    assert [mark.kind for mark in sink.marks] == [MarkKind.SNAPSHOT_STARTED, MarkKind.SNAPSHOT_COMPLETED]
    assert keys(sink) == [b"1"]
