"""Computed columns on the way to a sink: in their order among the other transforms, and what is refused."""

from typing import Any

import pytest
from kit.transformed import CANARY, CHANGES, REDACT, RENAME, Events, frame_of, lane

from tidegate.errors import ConfigError
from tidegate.position import BEGINNING
from tidegate_processor.transformed_sink import TransformedSink


def compute(**columns: str) -> tuple[str, dict[str, Any]]:
    return "compute", {"columns": columns}


def test_what_is_computed_sees_what_those_before_it_left_and_is_seen_by_those_behind() -> None:
    config = lane(REDACT, RENAME, compute(label="number || remark"), ("drop_columns", {"columns": ["remark"]}))
    sink = Events(config)
    TransformedSink(sink, config).write(frame_of(*CHANGES), BEGINNING)

    assert not any(CANARY in value for _, value in sink.events)
    assert b'"row":{"number":1,"label":"1***"},"old":null' in sink.events[0][1]
    assert b'"row":{"number":2,"label":"2***"},"old":{"number":1,"label":"1***"},"unchanged":[]' in sink.events[1][1]
    assert b'"row":{"number":2},"old":null,"unchanged":["label"]' in sink.events[2][1]
    assert b'"row":{"number":2,"label":null}' in sink.events[3][1]


def test_a_mask_behind_masks_what_was_computed() -> None:
    config = lane(compute(copy="note || ''"), ("mask", {"columns": ["note", "copy"], "how": "redact"}))
    sink = Events(config)
    TransformedSink(sink, config).write(frame_of(*CHANGES), BEGINNING)

    assert not any(CANARY in value for _, value in sink.events)
    assert b'"row":{"id":1,"note":"***","copy":"***"}' in sink.events[0][1]


def test_a_computed_column_can_not_be_made_of_a_dropped_one() -> None:
    config = lane(
        ("drop_columns", {"columns": ["note"]}), ("compute", {"tables": ["public.orders"], "columns": {"x": "note"}})
    )
    with pytest.raises(ConfigError) as caught:
        TransformedSink(Events(config), config).write(frame_of(*CHANGES), BEGINNING)
    assert caught.value.code == "TRANSFORM_COLUMN_MISSING"


def test_a_row_whose_value_is_beyond_is_a_dead_letter_that_holds_no_row() -> None:
    config = lane(compute(many="id * 9999999999 * 9999999999 * 2"))
    sink = Events(config)
    receipt = TransformedSink(sink, config).write(frame_of(*CHANGES), BEGINNING)

    refused = [(each.error.code, each.ordinal, each.raw) for each in receipt.rejected]
    assert refused == [("COMPUTED_BEYOND", ordinal, b"") for ordinal in range(5)]
    assert sink.events == []
