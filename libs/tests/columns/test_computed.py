"""Computed columns against plain Python, row by row: the same values, and every change at its place."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.frames import RawLog
from kit.made_frames import frame_of
from kit.plain_computed import COLUMNS, COMPUTED, ORDERS, OTHERS, TYPES, by_reference

from tidegate.columns.batches import FrameDecoder
from tidegate.columns.computed import FrameComputer
from tidegate.columns.envelopes import EventSource
from tidegate.columns.snapshots import frame_of_rows
from tidegate.config.expression_text import parse_value
from tidegate.contracts.frame import Frame, FrameKind, SchemaEntry, SchemaRole, decode_frame
from tidegate.contracts.snapshot import decode_snapshot
from tidegate.errors import ConfigError
from tidegate.events import Operation
from tidegate.lsn import Lsn
from tidegate.pgoutput.changes import placed_changes
from tidegate.pgoutput.decode import decode_message
from tidegate.pgoutput.encode import encode_message
from tidegate.pgoutput.messages import (
    UNCHANGED,
    Begin,
    Binary,
    Column,
    Commit,
    Delete,
    Insert,
    Message,
    OldKind,
    Relation,
    Row,
    Truncate,
    Update,
    Value,
)
from tidegate.pgoutput.types import BUILT_IN
from tidegate.position import BEGINNING, Position


def takes(*_: object) -> bool:
    return True


def computer(*names: str, means: Callable[[str, str], bool | None] | None = None) -> FrameComputer:
    values = {name: parse_value(COMPUTED[name][0]) for name in names}
    return FrameComputer(means or (lambda _, table: True if table == "orders" else None), takes, values)


ALL = computer(*COMPUTED)


numbers = st.sampled_from([b"0", b"-7", b"12.50", b"0.000000001", b"123456789.123456789", b"NaN"])
whole = st.integers(-(2**31), 2**31 - 1).map(lambda number: str(number).encode())
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0ßŉǰΐΰևẖẗẘẙẚὐὒὔὖ"), max_size=8).filter(
    lambda text: all(len(letter.upper()) == 1 for letter in text)
)
floats = st.sampled_from([b"0.5", b"-2", b"1e+30", b"123456.789"])
VALUES = (whole, numbers, whole, texts.map(str.encode), st.sampled_from([b"t", b"f"]), floats)


@st.composite
def rows(draw: st.DrawFn, *, unsent: bool = False) -> Row:
    row: list[Value] = [draw(st.none() | value) if at else draw(value) for at, value in enumerate(VALUES)]
    if unsent and draw(st.booleans()):
        row[3] = UNCHANGED
    return tuple(row)


@st.composite
def changes(draw: st.DrawFn) -> Message:
    kind = draw(st.sampled_from("IUUKFDETO"))
    key = (draw(whole), *[None] * 5)
    match kind:
        case "I":
            return Insert(7, draw(rows()))
        case "U":
            return Update(7, None, None, draw(rows(unsent=True)))
        case "K":
            return Update(7, OldKind.KEY, key, draw(rows(unsent=True)))
        case "F":
            return Update(7, OldKind.FULL, draw(rows()), draw(rows(unsent=True)))
        case "D":
            return Delete(7, OldKind.KEY, key)
        case "E":
            return Delete(7, OldKind.FULL, draw(rows()))
        case "T":
            return Truncate((7, 9), 0)
        case _:
            return Insert(9, (draw(whole), b"1"))


def frame(*messages: Message) -> Frame:
    return frame_of([ORDERS, OTHERS], [Begin(Lsn(100), 0, 1), *messages, Commit(Lsn(100), Lsn(101), 0)])


def with_values(message: Message) -> Message | None:
    """None: refused."""
    if not isinstance(message, Insert | Update | Delete) or message.relation_id != 7:
        return message
    if not isinstance(message, Insert) and message.old is not None:
        old = by_reference(message.old, is_key=message.old_kind is OldKind.KEY)
        if old is None:
            return None
        message = replace(message, old=old)
    if isinstance(message, Delete):
        return message
    new = message.new
    if isinstance(message, Update) and message.old_kind is OldKind.FULL and message.old is not None:
        new = tuple(was if is_ is UNCHANGED else is_ for is_, was in zip(new, message.old, strict=False))
    made = by_reference(new, is_key=False)
    return None if made is None else replace(message, new=(*message.new, *made[len(new) :]))


@settings(max_examples=300, deadline=None)
@given(st.lists(changes(), max_size=12))
def test_values_are_those_of_plain_python(messages: Sequence[Message]) -> None:
    made = ALL.rewrite(frame(*messages))

    placed = [(change.ordinal, change.message) for change in placed_changes(frame(*messages))]
    expected = [(ordinal, with_values(message)) for ordinal, message in placed]
    found = [(change.ordinal, change.message) for change in placed_changes(made.frame)]
    assert [each for each in found if each[1] != Truncate((), 0)] == [each for each in expected if each[1] is not None]
    refused = [ordinal for ordinal, message in expected if message is None]
    assert [each.ordinal for each in made.rejected] == refused
    assert {each.error.code for each in made.rejected} <= {"COMPUTED_BEYOND"}


def test_relations_get_the_columns_with_types_of_what_comes_out() -> None:
    made = ALL.rewrite(frame())
    described = [decode_message(each.message) for each in made.frame.schema]
    [orders] = [each for each in described if isinstance(each, Relation) and each.name == "orders"]
    [others] = [each for each in described if isinstance(each, Relation) and each.name == "others"]
    added = [Column(0, name, BUILT_IN[TYPES.get(name, "text")], -1) for name in COMPUTED]
    assert orders.columns == (*COLUMNS, *added)
    assert others == OTHERS


def test_a_frame_without_a_relation_that_is_meant_is_left_alone() -> None:
    subject = computer("total", means=lambda *_: None)
    given_frame = frame(Insert(7, (b"1", None, None, None, None, None)))
    assert subject.rewrite(given_frame).frame == given_frame


def test_what_lies_at_or_below_the_position_is_not_computed_and_nothing_of_it_refused() -> None:
    unfit = Insert(7, (b"1", b"NaN", b"1", None, None, None))
    fine = Insert(7, (b"2", b"2", b"3", None, None, None))
    made = computer("total").rewrite(frame(unfit, fine), Position(100, 0))
    assert made.rejected == ()
    assert [change.message for change in placed_changes(made.frame) if change.ordinal == 1] == [
        Insert(7, (b"2", b"2", b"3", None, None, None, b"6"))
    ]


def test_a_value_in_binary_form_is_left_to_whoever_reads_the_row() -> None:
    row = (b"1", Binary(b"\0\1"), b"1", None, None, None)
    made = computer("total").rewrite(frame(Insert(7, row)))
    assert [change.message for change in placed_changes(made.frame)] == [Insert(7, (*row, None))]


def test_one_in_binary_form_shifts_no_value_of_the_others() -> None:
    rows = [(b"%d" % n, Binary(b"\0") if n % 3 == 1 else b"2", b"%d" % n, None, None, None) for n in range(9)]
    made = computer("total").rewrite(frame(*(Insert(7, row) for row in rows)))
    totals = [None if n % 3 == 1 else b"%d" % (2 * n) for n in range(9)]
    expected = [Insert(7, (*row, total)) for row, total in zip(rows, totals, strict=True)]
    assert [change.message for change in placed_changes(made.frame)] == expected


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("nothing * 2", "TRANSFORM_COLUMN_MISSING"),
        ("note * 2", "TRANSFORM_VALUE"),
        ("coalesce(note, id)", "TRANSFORM_VALUE"),
        ("CASE WHEN note THEN 1 END", "TRANSFORM_VALUE"),
        ("replace(note, '', 'x')", "TRANSFORM_VALUE"),
        ("round(price, 19)", "TRANSFORM_VALUE"),
        ("substr(note, 0)", "TRANSFORM_VALUE"),
    ],
)
def test_what_does_not_fit_the_columns_stops_before_a_row(text: str, code: str) -> None:
    subject = FrameComputer(lambda *_: True, takes, {"made": parse_value(text)})
    with pytest.raises(ConfigError) as caught:
        subject.rewrite(frame_of([ORDERS], []))
    assert caught.value.code == code


def test_a_name_that_is_there_already_is_refused() -> None:
    subject = FrameComputer(lambda *_: True, takes, {"note": parse_value("'x'")})
    with pytest.raises(ConfigError, match="would be named note") as caught:
        subject.rewrite(frame_of([ORDERS], []))
    assert caught.value.code == "TRANSFORM_NAME_TAKEN"


def test_where_a_pattern_means_a_table_its_columns_may_be_missing() -> None:
    subject = FrameComputer(
        lambda *_: False, takes, {"total": parse_value("price * amount"), "x": parse_value("id + 1")}
    )
    made = subject.rewrite(frame_of([OTHERS], [Begin(Lsn(9), 0, 1), Insert(9, (b"4", b"1"))]))
    assert [change.message for change in placed_changes(made.frame)] == [Insert(9, (b"4", b"1", b"5"))]


def test_a_shape_that_was_before_needs_nothing() -> None:
    """A mark tells of both shapes; rows come of the new one alone."""
    was = replace(ORDERS, columns=COLUMNS[:1])
    entries = [
        SchemaEntry(SchemaRole.PREVIOUS, encode_message(was)),
        SchemaEntry(SchemaRole.CURRENT, encode_message(ORDERS)),
    ]
    given_frame = frame_of([], [])
    mark = replace(
        given_frame, header=replace(given_frame.header, kind=FrameKind.MARK), schema=tuple(entries), body=b""
    )
    made = [decode_message(each.message) for each in computer("total").rewrite(mark, BEGINNING).frame.schema]
    assert [len(each.columns) for each in made if isinstance(each, Relation)] == [1, 7]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("price * 1", b"12345678901234567.123456789"),
        ("round(price, 2)", b"12345678901234567.12"),
        ("price * 0", b"0"),
        ("abs(-price)", b"12345678901234567.123456789"),
        ("nullif(amount, 1)", None),
        ("coalesce(nullif(amount, 1), 5)", b"5"),
        ("substr(note, 2, 3)", b"bcd"),
        ("replace(note, 'b', 'x')", b"axcdef"),
        ("length(trim(note)) + 1", b"7"),
        ("size + 1", b"1.5"),
        ("CASE WHEN price > size THEN price ELSE size END", b"1.2345678901234568e+16"),
        ("paid", b"t"),
        ("note || '-' || paid || '-' || size", b"abcdef-true-0.5"),
        ("CASE WHEN price IS NULL THEN 0 ELSE amount END", b"1"),
    ],
)
def test_functions(text: str, expected: bytes | None) -> None:
    row = (b"1", b"12345678901234567.123456789", b"1", b"abcdef", b"t", b"0.5")
    subject = FrameComputer(lambda *_: True, takes, {"made": parse_value(text)})
    made = subject.rewrite(frame_of([ORDERS], [Begin(Lsn(9), 0, 1), Insert(7, row)]))
    assert made.rejected == ()
    assert [change.message for change in placed_changes(made.frame)] == [Insert(7, (*row, expected))]


@pytest.mark.timeout(20)
def test_what_is_nested_is_computed_once() -> None:
    """Twice at each of forty levels would never end."""
    text = "coalesce(" * 40 + "note" + ", 'x')" * 40
    row = (b"1", None, None, b"there", None, None)
    subject = FrameComputer(lambda *_: True, takes, {"made": parse_value(text)})
    made = subject.rewrite(frame_of([ORDERS], [Begin(Lsn(9), 0, 1), Insert(7, row)]))
    assert [change.message for change in placed_changes(made.frame)] == [Insert(7, (*row, b"there"))]


def test_a_product_beyond_what_is_exact_is_refused_and_the_others_go_on() -> None:
    large = Insert(7, (b"1", b"99999999999999999999", b"1", None, None, None))
    fine = Insert(7, (b"2", b"2", b"3", None, None, None))
    made = computer("total").rewrite(frame(large, fine))
    assert [(each.ordinal, each.error.code) for each in made.rejected] == [(0, "COMPUTED_BEYOND")]
    assert [change.message for change in placed_changes(made.frame)][-1] == Insert(7, (*fine.new, b"6"))


def test_nothing_is_refused_of_what_the_sink_does_not_take() -> None:
    subject = FrameComputer(
        lambda *_: True, lambda *names: names[2] is Operation.INSERT, {"x": parse_value("price + 1")}
    )
    unfit = Delete(7, OldKind.FULL, (b"1", b"NaN", b"1", None, None, None))
    made = subject.rewrite(frame(unfit, Insert(7, (b"2", b"2", b"3", None, None, None))))
    assert made.rejected == ()
    assert [change.message for change in placed_changes(made.frame)][-1] == Insert(
        7, (b"2", b"2", b"3", None, None, None, b"3")
    )


def test_rows_of_a_snapshot_have_the_columns_too() -> None:
    log = RawLog()
    log.epoch()
    log.transaction()
    given_frame = decode_frame(log.snapshot((b"1", b"one"), (b"2", None), first_row=3))
    head, text = decode_snapshot(given_frame.body)
    subject = FrameComputer(
        lambda *_: True, lambda *names: names[2] is Operation.SNAPSHOT, {"x": parse_value("id || note")}
    )
    made = subject.rewrite(frame_of_rows(given_frame, head, text))
    [batch] = FrameDecoder(EventSource("", "", 0)).decode(made.frame)
    assert batch.rows.column("new.x").to_pylist() == [b"1one", None]
