"""One column value in a kernel: PostgreSQL's text to JSON bytes, by the rules of docs/reference/event.md.

Invariant: the bytes are those of the reference, `tidegate_processor.encodings.values`. Each writer takes begin
and end, and returns the next place in `out`, or a refusal below zero.
"""

from enum import IntEnum
from typing import Final

import numpy as np

from tidegate.columns.cast_times import put_date, put_instant, put_time_of_day
from tidegate.columns.compiled import called, inlined, signed, unsigned
from tidegate.columns.memory import byte, copy, field, put, put_word, word
from tidegate.columns.text import FAILED, is_utf8, put_decimal, put_escaped, put_text


class Form(IntEnum):
    """How values of a column are written. The three KEY_ ones are for keys, where equal values must be equal bytes."""

    TEXT = 0
    BOOL = 1
    INTEGER = 2
    FLOAT = 3
    BYTEA = 4
    JSON = 5
    TIMESTAMP = 6
    TIMESTAMPTZ = 7
    KEY_FLOAT = 8
    KEY_NUMERIC = 9
    KEY_UNPADDED = 10
    # Numbers since 1970 or midnight, as Debezium has them; PostgreSQL's text where there is no such number.
    DAYS = 11
    TIME_MS = 12
    TIME_US = 13
    INSTANT_MS = 14
    INSTANT_US = 15


NOT_UTF8: Final = FAILED
NOT_HEX: Final = -2

_TEXT, _BOOL, _INTEGER, _FLOAT = int(Form.TEXT), int(Form.BOOL), int(Form.INTEGER), int(Form.FLOAT)
_BYTEA, _JSON, _TIMESTAMP, _TIMESTAMPTZ = int(Form.BYTEA), int(Form.JSON), int(Form.TIMESTAMP), int(Form.TIMESTAMPTZ)
_KEY_FLOAT, _KEY_NUMERIC, _KEY_UNPADDED = int(Form.KEY_FLOAT), int(Form.KEY_NUMERIC), int(Form.KEY_UNPADDED)

_DAYS, _TIME_MS, _TIME_US = int(Form.DAYS), int(Form.TIME_MS), int(Form.TIME_US)
_INSTANT_MS = int(Form.INSTANT_MS)

_QUOTE, _BACKSLASH, _SPACE, _MINUS, _PLUS, _POINT = (ord(mark) for mark in '"\\ -+.')
_ZERO, _NINE = ord("0"), ord("9")
_BASE64 = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", np.uint8)
_TRUE, _FALSE, _NULL = (np.uint64(int.from_bytes(text, "little")) for text in (b"true", b"false", b"null"))
_NO_DIGIT = 255
_HEX = np.full(256, _NO_DIGIT, np.uint8)
_HEX[np.frombuffer(b"0123456789abcdef", np.uint8)] = np.arange(16)
_HEX[np.frombuffer(b"ABCDEF", np.uint8)] = np.arange(10, 16)


@inlined
def put_value(to: int, form: int, at: int, end: int) -> int:
    if form == _INTEGER:
        if _is_integer(at, end):
            return put_raw(to, at, end)
    elif form == _FLOAT:
        if _is_finite(at, end):
            return put_raw(to, at, end)
    elif form == _BOOL:
        return put_bool(to, end - at == 1 and byte(at) == ord("t"))
    elif form != _TEXT:
        return _put_other(to, form, at, end)
    return put_text(to, at, end)


@called
def put_value_apart(to: int, form: int, at: int, end: int) -> int:
    return put_value(to, form, at, end)


@called
def _put_other(to: int, form: int, at: int, end: int) -> int:
    """What is rarer, and longer."""
    if form == _TIMESTAMP or form == _TIMESTAMPTZ:
        return _put_timestamp(to, form, at, end)
    if form == _JSON:
        return put_raw(to, at, end) if is_utf8(at, end) else NOT_UTF8
    if form == _BYTEA:
        return _put_bytea(to, at, end)
    if form >= _DAYS:
        return _put_time_number(to, form, at, end)
    if form == _KEY_FLOAT:
        if end - at == 2 and byte(at) == _MINUS and byte(at + 1) == _ZERO:
            at += 1
        if _is_finite(at, end):
            return put_raw(to, at, end)
    elif form == _KEY_NUMERIC:
        end = _without_trailing_zeros(at, end)
    elif form == _KEY_UNPADDED:
        while end > at and byte(end - 1) == _SPACE:
            end -= 1
    return put_text(to, at, end)


@inlined
def _put_time_number(to: int, form: int, at: int, end: int) -> int:
    # The number is made where its text will stand.
    if form == _DAYS:
        if not put_date(to, at, end):
            return put_text(to, at, end)
        number = ((field(to, 0) & 0xFFFFFFFF) ^ 0x80000000) - 0x80000000
    elif form == _TIME_MS or form == _TIME_US:
        if not put_time_of_day(to, at, end):
            return put_text(to, at, end)
        number = field(to, 0)
    else:
        if not put_instant(to, at, end, False):
            return put_text(to, at, end)
        number = field(to, 0)
    return put_number(to, number // 1000 if form == _TIME_MS or form == _INSTANT_MS else number)


@inlined
def put_number(to: int, number: int) -> int:
    if number < 0:
        put(to, _MINUS)
        return put_decimal(to + 1, unsigned(-number))
    return put_decimal(to, unsigned(number))


@inlined
def put_bool(to: int, is_true: bool) -> int:
    put_word(to, _TRUE if is_true else _FALSE)
    return to + (4 if is_true else 5)


@inlined
def put_null(to: int) -> int:
    put_word(to, _NULL)
    return to + 4


@inlined
def put_raw(to: int, at: int, end: int) -> int:
    length = end - at
    if length <= 8:  # as nearly all numbers are
        put_word(to, word(at))
    else:
        copy(to, at, length)
    return to + length


@inlined
def _digits_end(at: int, end: int) -> int:
    while at < end and byte(at) >= _ZERO and byte(at) <= _NINE:
        at += 1
    return at


@inlined
def _is_integer(at: int, end: int) -> bool:
    if at < end and byte(at) == _MINUS:
        at += 1
    return at < end and _digits_end(at, end) == end


@inlined
def _is_finite(at: int, end: int) -> bool:
    if at < end and byte(at) == _MINUS:
        at += 1
    after = _digits_end(at, end)
    if after == at:
        return False
    if after < end and byte(after) == _POINT:
        at = after + 1
        after = _digits_end(at, end)
        if after == at:
            return False
    if after < end and (byte(after) == ord("e") or byte(after) == ord("E")):
        at = after + 1
        if at < end and (byte(at) == _MINUS or byte(at) == _PLUS):
            at += 1
        after = _digits_end(at, end)
        if after == at:
            return False
    return after == end


@inlined
def _without_trailing_zeros(at: int, end: int) -> int:
    point = at
    while point < end and byte(point) != _POINT:
        point += 1
    if point < end:
        while end > at and byte(end - 1) == _ZERO:
            end -= 1
        while end > at and byte(end - 1) == _POINT:
            end -= 1
    return end


@inlined
def _put_timestamp(to: int, form: int, at: int, end: int) -> int:
    length = end - at
    if length > 10 and byte(at + 10) == _SPACE:
        if form == _TIMESTAMP and not (byte(end - 2) == ord("B") and byte(end - 1) == ord("C")):
            return _put_joined(to, at, end, False)
        if form == _TIMESTAMPTZ and byte(end - 3) == _PLUS and byte(end - 2) == _ZERO and byte(end - 1) == _ZERO:
            return _put_joined(to, at, end - 3, True)
    return put_text(to, at, end)


@inlined
def _put_joined(to: int, at: int, end: int, utc: bool) -> int:
    # Each part alone must be UTF-8: the T between them is ASCII, so no character spans it.
    put(to, _QUOTE)
    to = put_escaped(to + 1, at, at + 10)
    if to == FAILED:
        return FAILED
    put(to, ord("T"))
    to = put_escaped(to + 1, at + 11, end)
    if to == FAILED:
        return FAILED
    if utc:
        put(to, ord("Z"))
        to += 1
    put(to, _QUOTE)
    return to + 1


@inlined
def _put_bytea(to: int, at: int, end: int) -> int:
    if end - at < 2 or byte(at) != _BACKSLASH or byte(at + 1) != ord("x") or (end - at) % 2:
        return NOT_HEX
    put(to, _QUOTE)
    to += 1
    at += 2
    while at < end:
        block = have = 0
        while have < 3 and at < end:
            high, low = _HEX[byte(at)], _HEX[byte(at + 1)]
            if high == _NO_DIGIT or low == _NO_DIGIT:
                return NOT_HEX
            block = block << 8 | signed(high) << 4 | signed(low)
            have += 1
            at += 2
        block <<= 8 * (3 - have)
        for place in range(4):
            put(to + place, signed(_BASE64[block >> (18 - 6 * place) & 63]) if place <= have else ord("="))
        to += 4
    put(to, _QUOTE)
    return to + 1
