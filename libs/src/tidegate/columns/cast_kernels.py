"""Columns of text to flat typed columns, all of a batch by one call.

Invariant: a cell is the exact value of its text, or null and marked `beyond`: there the type has no such value, and the
text column still has it. Nothing raises, whatever stands in the text. Null slots of a fixed width hold zeros.
"""

from enum import IntEnum

import numpy as np

from tidegate.columns.cast_numbers import put_decimal_number, put_float, put_integer
from tidegate.columns.cast_times import put_date, put_instant, put_interval, put_time_of_day
from tidegate.columns.compiled import inlined, kernel, unsigned
from tidegate.columns.memory import address, byte, copy, field, put, row_of, set_field, word
from tidegate.columns.record_batches import (
    ABSENT,
    COLUMNS,
    DATA,
    DATA_BYTES,
    LARGE,
    OFFSETS,
    PLACE_FIELDS,
    ROWS,
    VALID,
    data_of,
    lay_out,
    marks_of,
    note_nulls,
    place_of,
    put_bit,
    read_place,
    width_of,
)
from tidegate.columns.text import is_utf8


class Cell(IntEnum):
    """What a text becomes."""

    BYTES = 0
    TEXT = 1
    BOOL = 2
    INTEGER = 3
    FLOAT = 4
    DECIMAL = 5
    DATE = 6
    TIME = 7
    TIMESTAMP = 8
    TIMESTAMPTZ = 9
    INTERVAL = 10
    UUID = 11
    BYTEA = 12
    COPY = 13
    """No text at all: a column that is typed already."""


# Of a cast in the table that kernels read.
CELL, LOW, HIGH, PRECISION, SCALE = range(5)
CAST_FIELDS = 5

_BYTES, _TEXT, _BOOL, _INTEGER, _FLOAT = map(int, (Cell.BYTES, Cell.TEXT, Cell.BOOL, Cell.INTEGER, Cell.FLOAT))
_DECIMAL, _DATE, _TIME, _TIMESTAMP = map(int, (Cell.DECIMAL, Cell.DATE, Cell.TIME, Cell.TIMESTAMP))
_TIMESTAMPTZ, _INTERVAL, _UUID, _BYTEA = map(int, (Cell.TIMESTAMPTZ, Cell.INTERVAL, Cell.UUID, Cell.BYTEA))
_COPY = int(Cell.COPY)

_BACKSLASH, _X, _DASH = ord("\\"), ord("x"), ord("-")
_NO_DIGIT = 255
_HEX = np.full(256, _NO_DIGIT, np.uint8)
_HEX[np.frombuffer(b"0123456789abcdef", np.uint8)] = np.arange(16)
_HEX[np.frombuffer(b"ABCDEF", np.uint8)] = np.arange(10, 16)
_HIGHS = unsigned(0x8080808080808080)


@kernel
def cast_columns(
    text: np.ndarray, text_form: np.ndarray, start: int, casts: np.ndarray, form: np.ndarray
) -> tuple[np.ndarray, int]:
    """`text`: a message of columns of text, from row `start` on. Returns one of the layout `form`, where what is
    beyond its type has a mark, and how many marks it has."""
    source, source_form, layout = address(text), address(text_form), address(form)
    rows, columns = field(source, field(source_form, ROWS)), field(layout, COLUMNS)
    sources, places = np.empty((columns, PLACE_FIELDS), np.int64), np.empty((columns, PLACE_FIELDS), np.int64)
    for column in range(columns):
        if casts[column, CELL] != _COPY:
            read_place(source_form, source, column, place_of(address(sources), column))
            places[column, DATA_BYTES] = sources[column, DATA_BYTES]
    message = lay_out(layout, rows, places)
    return message, _cast_all(source, source_form, start, rows, casts, layout, sources, places, message)


@inlined
def _cast_all(
    source: int,
    source_form: int,
    start: int,
    rows: int,
    casts: np.ndarray,
    layout: int,
    sources: np.ndarray,
    places: np.ndarray,
    message: np.ndarray,
) -> int:
    marks = 0
    for column in range(len(casts)):
        to, from_ = place_of(address(places), column), place_of(address(sources), column)
        cast = row_of(address(casts), column, CAST_FIELDS)
        width = width_of(layout, column)
        if field(cast, CELL) == _COPY:
            copy(field(to, DATA), data_of(source_form, source, column), field(to, DATA_BYTES))
            continue
        beyond, nulls = 0, rows
        if field(from_, DATA_BYTES) == ABSENT:
            _zero_cells(to, width)
        else:
            marked = marks_of(layout, message, rows, column)
            nulls, beyond = _cast_column(from_, start, rows, cast, width, to, marked)
        note_nulls(layout, address(message), column, nulls, rows)
        marks += beyond
    return marks


@inlined
def _zero_cells(to: int, width: int) -> None:
    if width > 1:
        for at in range(field(to, DATA_BYTES)):
            put(field(to, DATA) + at, 0)


@inlined
def _cast_column(source: int, start: int, rows: int, cast: int, width: int, to: int, beyond: int) -> tuple[int, int]:
    """How many are null, and how many of these are beyond."""
    valid, offsets, data = field(source, VALID), field(source, OFFSETS), field(source, DATA)
    out_valid, out_offsets, out_data = field(to, VALID), field(to, OFFSETS), field(to, DATA)
    cell, size = field(cast, CELL), width // 8
    is_large = width == LARGE
    trusted = cell == _BYTES or (cell == _TEXT and _is_ascii(offsets, data, start, rows))
    nulls = out = at = 0
    for row in range(rows):
        taken = 0
        is_valid = valid == 0 or byte(valid + ((start + row) >> 3)) >> ((start + row) & 7) & 1
        if is_valid:
            begin, end = data + field(offsets, start + row), data + field(offsets, start + row + 1)
            if is_large:
                taken = _put_large(out_data + at, cell, begin, end, trusted)
                fits = taken >= 0
                taken = max(taken, 0)
            elif width == 1:
                fits = _put_bool(out_data, row, begin, end)
            else:
                fits = _put_fixed(out_data + row * size, cell, begin, end, size, cast)
            if fits:
                put_bit(out_valid, row)
            else:
                put_bit(beyond, row)
                out += 1
                is_valid = 0
        if is_large:
            at += taken
            set_field(out_offsets, row + 1, at)
        if not is_valid:
            nulls += 1
            for place in range(size):
                put(out_data + row * size + place, 0)
    return nulls, out


@inlined
def _is_ascii(offsets: int, data: int, start: int, rows: int) -> bool:
    at, end = data + field(offsets, start), data + field(offsets, start + rows)
    while at + 8 <= end:
        if word(at) & _HIGHS != unsigned(0):
            return False
        at += 8
    while at < end:
        if byte(at) >= 128:
            return False
        at += 1
    return True


@inlined
def _put_large(to: int, cell: int, at: int, end: int, trusted: bool) -> int:
    """How many bytes it took, or below zero."""
    if cell == _BYTEA:
        return _put_bytea(to, at, end)
    if not trusted and not is_utf8(at, end):
        return -1
    copy(to, at, end - at)
    return end - at


@inlined
def _put_bytea(to: int, at: int, end: int) -> int:
    if end - at < 2 or byte(at) != _BACKSLASH or byte(at + 1) != _X or (end - at) % 2:
        return -1
    length = (end - at) // 2 - 1
    for place in range(length):
        high, low = _HEX[byte(at + 2 + 2 * place)], _HEX[byte(at + 3 + 2 * place)]
        if high == _NO_DIGIT or low == _NO_DIGIT:
            return -1
        put(to + place, high << 4 | low)
    return length


@inlined
def _put_bool(bits: int, row: int, at: int, end: int) -> bool:
    if end - at != 1 or (byte(at) != ord("t") and byte(at) != ord("f")):
        return False
    if byte(at) == ord("t"):
        put_bit(bits, row)
    return True


@inlined
def _put_fixed(to: int, cell: int, at: int, end: int, size: int, cast: int) -> bool:
    if cell == _INTEGER:
        return put_integer(to, at, end, size, field(cast, LOW), field(cast, HIGH))
    if cell == _FLOAT:
        return put_float(to, at, end, size)
    if cell == _DECIMAL:
        return put_decimal_number(to, at, end, field(cast, PRECISION), field(cast, SCALE), size // 8)
    if cell == _TIMESTAMP or cell == _TIMESTAMPTZ:
        return put_instant(to, at, end, cell == _TIMESTAMPTZ)
    if cell == _DATE:
        return put_date(to, at, end)
    if cell == _TIME:
        return put_time_of_day(to, at, end)
    if cell == _INTERVAL:
        return put_interval(to, at, end)
    if cell == _UUID:
        return _put_uuid(to, at, end)
    return False


@inlined
def _put_uuid(to: int, at: int, end: int) -> bool:
    if end - at != 36:
        return False
    for place in range(16):
        if place == 4 or place == 6 or place == 8 or place == 10:
            if byte(at) != _DASH:
                return False
            at += 1
        high, low = _HEX[byte(at)], _HEX[byte(at + 1)]
        if high == _NO_DIGIT or low == _NO_DIGIT:
            return False
        put(to + place, high << 4 | low)
        at += 2
    return True
