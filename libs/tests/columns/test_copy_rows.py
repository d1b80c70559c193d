"""COPY text to inserts: the kernel gives the values of the plain decoder for any text, or its error."""

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st
from kit.made_frames import TEXTS

from tidegate.columns.copy_rows import insert_entries
from tidegate.contracts.frame import BODY_ENTRY
from tidegate.errors import DecodeError
from tidegate.lsn import Lsn
from tidegate.pgoutput import encode_message
from tidegate.pgoutput.copy_text import copy_line, copy_rows
from tidegate.pgoutput.messages import Insert, Message, Truncate

RELATION, LSN = 2**32 - 2, Lsn(2**63 + 5)
values = st.none() | st.sampled_from(TEXTS) | st.binary(max_size=30)
pieces = st.sampled_from([b"\t", b"\n", b"\\", b"N", b"\\N", b"\\x4", b"\\101", b"a", b"\xff", b"more than eight"])


def entries(messages: list[Message]) -> bytes:
    encoded = [encode_message(message) for message in messages]
    return b"".join(BODY_ENTRY.pack(len(each), LSN) + each for each in encoded)


def expected(text: bytes, columns: int) -> bytes | tuple[str, int]:
    try:
        return entries([Insert(RELATION, row) for row in copy_rows(text, columns)])
    except DecodeError as error:
        return error.code, error.offset


def outcome(text: bytes, columns: int) -> bytes | tuple[str, int]:
    try:
        return insert_entries(text, columns, RELATION, LSN)
    except DecodeError as error:
        return error.code, error.offset


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 5).flatmap(lambda width: st.lists(st.lists(values, min_size=width, max_size=width), max_size=5)))
def test_rows_as_a_server_sends_them(rows: list[list[bytes | None]]) -> None:
    columns = len(rows[0]) if rows else 1
    text = b"".join(map(copy_line, rows))
    assert expected(text, columns) == outcome(text, columns) == entries([Insert(RELATION, tuple(row)) for row in rows])


@settings(max_examples=500, deadline=None)
@given(st.lists(pieces, max_size=12).map(b"".join) | st.binary(max_size=40), st.integers(0, 4))
@example(b"\n\n", 0)
@example(b"1\\", 1)
@example(b"\\N\n", 1)
@example(b"\\Na\n", 1)
def test_any_bytes(text: bytes, columns: int) -> None:
    assert expected(text, columns) == outcome(text, columns)


def test_what_is_left_out_keeps_its_place() -> None:
    left_out = np.array([False, True, False])
    nothing = Truncate((), 0)
    assert entries([Insert(RELATION, (b"1",)), nothing, Insert(RELATION, (b"3",))]) == insert_entries(
        b"1\n2\n3\n", 1, RELATION, LSN, left_out
    )


def test_wide_rows() -> None:
    row = tuple(b"%d" % column for column in range(1600))
    assert entries([Insert(RELATION, row)]) == insert_entries(copy_line(row), len(row), RELATION, LSN)
