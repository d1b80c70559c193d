"""COPY's text format: what a server sends comes back as the values it stands for, and all else is one DecodeError."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.errors import DecodeError
from tidegate.pgoutput.copy_text import copy_line, copy_rows

rows = st.lists(st.none() | st.binary(max_size=12), min_size=1, max_size=4).map(tuple)


@given(st.lists(rows, max_size=4))
def test_rows_come_back_as_they_were(sent: list[tuple[bytes | None, ...]]) -> None:
    for row in sent:
        assert [row, row] == list(copy_rows(2 * copy_line(row), len(row)))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        (rb"\N", None),
        (b"", b""),
        (rb"\\N", rb"\N"),
        (rb"\b\f\n\r\t\v\\", b"\b\f\n\r\t\v\\"),
        (rb"\101\60\7x", b"A0\x07x"),
        (rb"\777", b"\xff"),
        (rb"\x41\xaZ\xg", b"A\nZxg"),
        (rb"a\Nb\q", b"aNbq"),
        (rb"\8", b"8"),
    ],
)
def test_escapes_are_those_of_the_manual(field: bytes, value: bytes | None) -> None:
    assert [(value, b"end")] == list(copy_rows(field + b"\tend\n", 2))


def test_a_table_without_columns_has_empty_lines() -> None:
    assert list(copy_rows(b"\n\n", 0)) == [(), ()]


@pytest.mark.parametrize(
    ("text", "columns", "code"),
    [
        (b"1\t2", 2, "COPY_CUT_SHORT"),
        (b"1\t2\n3\n", 2, "COPY_ROW_WIDTH"),
        (b"1\t2\t3\n", 2, "COPY_ROW_WIDTH"),
        (b"1\n", 0, "COPY_ROW_WIDTH"),
        (b"1\t2\\\n", 2, "COPY_ESCAPE"),
        (b"1\\\t2\n", 2, "COPY_ESCAPE"),
    ],
)
def test_anything_else_is_refused(text: bytes, columns: int, code: str) -> None:
    with pytest.raises(DecodeError) as refused:
        list(copy_rows(text, columns))
    assert code == refused.value.code
