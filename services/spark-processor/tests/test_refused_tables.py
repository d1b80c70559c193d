"""Rows of a refused shape behind transforms: nothing stops for it, and no letter holds what the sink must not."""

from dataclasses import replace
from typing import Any

import pytest
from kit.deliveries import ADDED, REFUSING, deliver, feed, lane, weighed
from kit.frames import ORDERS, RawLog, row
from kit.memory_sink import MemorySink

from tidegate.errors import ConfigError
from tidegate.pgoutput.messages import Column, Insert, Truncate
from tidegate_processor.transformed_sink import TransformedSink

TABLES = {"tables": ["public.orders"]}
RENAMED = replace(ORDERS, columns=(ORDERS.columns[0], replace(ORDERS.columns[1], name="remark")))
NUMBERED = replace(ORDERS, columns=(ORDERS.columns[0], Column(0, "note", 23, -1)))
ALL_REFUSED = dict.fromkeys(("column_added", "column_renamed", "type_changed"), "dead_letter")
MASK = {"type": "mask", "options": TABLES | {"columns": ["note"], "how": "redact"}}
DROP = {"type": "drop_columns", "options": TABLES | {"columns": ["note"]}}
RENAME = {"type": "rename_fields", "options": TABLES | {"fields": {"note": "text"}}}
KEEP_A = {"type": "filter", "options": TABLES | {"where": "note = 'a'"}}


def transformed(log: RawLog, *transforms: dict[str, Any], policies: Any = ALL_REFUSED) -> MemorySink:
    sink, settings = MemorySink(), {"transforms": list(transforms), "schema_changes": policies}
    feed(deliver(TransformedSink(sink, lane(**settings)), **settings), log)
    return sink


def changed(current: Any, *changes: Any) -> RawLog:
    log = RawLog()
    log.epoch()
    log.transaction(row(1, "a"))
    log.schema_change(ORDERS, current)
    log.transaction(*changes, relation=current)
    return log


def outcome(sink: MemorySink) -> tuple[int, list[int]]:
    """Changes that were delivered, and the ordinals of those that are dead letters."""
    return len(sink.delivered), [letter.position.ordinal for letter in sink.dead_letters]


@pytest.mark.parametrize("transform", [MASK, DROP, RENAME, KEEP_A], ids=["mask", "drop", "rename", "filter"])
def test_a_refused_shape_without_a_column_that_a_transform_names_does_not_stop_the_lane(transform: Any) -> None:
    truncate = Truncate((ORDERS.relation_id,), 0)
    sink = transformed(changed(RENAMED, row(2, "secret"), truncate, row(3, "secret")), transform)

    assert outcome(sink) == (2, [0, 2])
    assert len(sink.marks) == 1


def test_an_accepted_shape_without_that_column_still_does() -> None:
    with pytest.raises(ConfigError) as refused:
        transformed(changed(RENAMED, row(2, "secret")), MASK, policies={"column_added": "dead_letter"})

    assert refused.value.code == "TRANSFORM_COLUMN_MISSING"


@pytest.mark.parametrize(("transform", "is_withheld"), [(MASK, True), (DROP, True), (KEEP_A, True), (RENAME, False)])
def test_a_letter_does_not_hold_a_masked_value_under_another_name(transform: Any, is_withheld: bool) -> None:
    (letter,) = transformed(changed(RENAMED, row(2, "secret")), transform).dead_letters

    assert (b"secret" in letter.payload, letter.schema == ()) == (not is_withheld, is_withheld)


def test_a_row_that_a_filter_keeps_from_the_sink_is_no_dead_letter() -> None:
    sink = transformed(changed(ADDED, weighed(2, "secret of another"), weighed(3, "a")), KEEP_A)

    assert outcome(sink) == (1, [1])
    assert b"a" in sink.dead_letters[0].payload


def test_a_condition_that_does_not_fit_the_refused_shape_holds_its_letters_back() -> None:
    sink = transformed(changed(NUMBERED, Insert(ORDERS.relation_id, (b"2", b"17"))), KEEP_A)

    assert outcome(sink) == (1, [0])
    assert (sink.dead_letters[0].payload, sink.dead_letters[0].schema) == (b"", ())


def test_a_filter_of_another_table_is_not_asked() -> None:
    other = {"type": "filter", "options": {"tables": ["public.people"], "where": "age > 17"}}
    sink = transformed(changed(ADDED, weighed(2, "b")), other)

    assert outcome(sink) == (1, [0])
    assert b"b" in sink.dead_letters[0].payload


def test_rows_of_a_snapshot_are_judged_by_the_filter_too() -> None:
    log = changed(ADDED, weighed(2, "a"))
    log.snapshot((b"7", b"secret", b"1"), (b"8", b"a", b"1"), relation=ADDED)
    sink = transformed(log, KEEP_A, policies=REFUSING["schema_changes"])

    assert [letter.operation for letter in sink.dead_letters] == ["INSERT", "SNAPSHOT"]


def test_a_truncate_in_a_refused_shape_says_nothing_of_its_columns() -> None:
    sink = transformed(changed(ADDED, weighed(2), Truncate((ORDERS.relation_id,), 0)))

    (shape,) = sink.delivered[-1].shapes
    assert (shape.relation.name, shape.relation.columns) == ("orders", ())
