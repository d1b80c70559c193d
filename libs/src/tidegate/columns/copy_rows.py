"""Rows of a COPY, in text format, to the body of a `wal` frame: an Insert each, so that every kernel behind takes them.

    line   1 \t a\\tb \t \\N \n          entry   | length | lsn | I relation N 3 | t 1 "1" | t 3 "a<tab>b" | n |

Invariant: the values are those of the reference, `tidegate.pgoutput.copy_text`, and a text that it refuses is refused
with its error. A row that is left out keeps its place: a truncate of no table stands there, which takes an ordinal and
is no event.
"""

import numpy as np

from tidegate.columns import layout
from tidegate.columns.compiled import Word, inlined, kernel, signed, unsigned
from tidegate.columns.memory import address, byte, copy, lowest_bit, put, put_word, swapped, word
from tidegate.columns.text import SLACK
from tidegate.errors import DecodeError
from tidegate.lsn import Lsn
from tidegate.pgoutput.copy_text import copy_rows

_U = unsigned
_TAB, _NEWLINE, _BACKSLASH, _N = (ord(mark) for mark in "\t\n\\N")
_ONES, _HIGHS = _U(0x0101010101010101), _U(0x8080808080808080)
_TABS, _NEWLINES = _U(0x0909090909090909), _U(0x0A0A0A0A0A0A0A0A)
_BACKSLASHES = _U(0x5C5C5C5C5C5C5C5C)
_INSERT, _NEW, _NULL, _TEXT, _TRUNCATE = (ord(tag) for tag in "INntT")
_ROW_HEAD = layout.ENTRY_HEAD + 8
_VALUE_HEAD = 5
_NOTHING_BYTES = 6
_REFUSED = -1


def insert_entries(text: bytes, columns: int, relation_id: int, lsn: Lsn, left_out: np.ndarray | None = None) -> bytes:
    """`left_out`: of which rows, in their order, nothing is wanted but the place."""
    source = np.zeros(len(text) + SLACK, np.uint8)
    source[: len(text)] = np.frombuffer(text, np.uint8)
    rows = int(np.count_nonzero(source == _NEWLINE))
    without = np.zeros(rows, np.bool_) if left_out is None else left_out
    assert len(without) == rows
    # One more: what does not end is written too, before that shows.
    entries = np.empty((rows + 1) * (_ROW_HEAD + _VALUE_HEAD * columns) + len(source) + SLACK, np.uint8)
    used, at = rewrite(source, columns, np.uint64(relation_id), np.uint64(lsn), without, entries)
    if used == _REFUSED:
        raise _error(text, columns, at)
    return entries[:used].tobytes()


def _error(text: bytes, columns: int, at: int) -> DecodeError:
    end = text.find(b"\n", at)
    try:
        list(copy_rows(text[at:] if end < 0 else text[at : end + 1], columns))
    except DecodeError as error:
        reason, _, _ = error.message.rpartition(" (at byte ")
        return DecodeError(reason, offset=at + error.offset, code=error.code, remedy=error.remedy)
    return DecodeError("a row that only one of two decoders takes", offset=at, code="DECODE_DISPUTED")


@kernel
def rewrite(
    text: np.ndarray, columns: int, relation_id: Word, lsn: Word, left_out: np.ndarray, entries: np.ndarray
) -> tuple[int, int]:
    """How many bytes of `entries` are used, or where the row begins that is refused. `text` has SLACK behind it."""
    begin, target = address(text), address(entries)
    end = begin + len(text) - SLACK
    at, to, row = begin, target, 0
    while at < end:
        row_at = at
        at, row_end = _row(to + _ROW_HEAD, at, end, columns)
        if at == _REFUSED:
            return _REFUSED, row_at - begin
        _put_number(to + 4, lsn)
        message = to + layout.ENTRY_HEAD
        if left_out[row]:
            put(message, _TRUNCATE)
            _put_half(message + 1, _U(0))
            put(message + 5, 0)
            row_end = message + _NOTHING_BYTES
        else:
            put(message, _INSERT)
            _put_half(message + 1, relation_id)
            put(message + 5, _NEW)
            put(message + 6, columns >> 8)
            put(message + 7, columns & 0xFF)
        _put_half(to, _U(row_end - message))
        to = row_end
        row += 1
    return to - target, 0


@inlined
def _put_number(to: int, number: Word) -> None:
    put_word(to, swapped(number))


@inlined
def _put_half(to: int, number: Word) -> None:
    for place in range(4):
        put(to + place, signed(number >> _U(24 - 8 * place)))


@inlined
def _row(to: int, at: int, end: int, columns: int) -> tuple[int, int]:
    """Where the next line begins, or REFUSED, and where the values end."""
    column = 0
    while True:
        stop, is_escaped = _field_end(at, end)
        if stop >= end:
            return _REFUSED, to
        is_last = byte(stop) == _NEWLINE
        if columns == 0:
            return (stop + 1 if is_last and stop == at else _REFUSED), to
        column += 1
        if column > columns or (is_last and column < columns):
            return _REFUSED, to
        if is_escaped and stop == at + 2 and byte(at + 1) == _N:
            put(to, _NULL)
            to += 1
        else:
            value, value_end = to + _VALUE_HEAD, to + _VALUE_HEAD
            if is_escaped:
                value_end = _unescape(value, at, stop)
                if value_end == _REFUSED:
                    return _REFUSED, to
            else:
                copy(value, at, stop - at)
                value_end += stop - at
            put(to, _TEXT)
            _put_half(to + 1, _U(value_end - value))
            to = value_end
        at = stop + 1
        if is_last:
            return at, to


@inlined
def _field_end(at: int, end: int) -> tuple[int, bool]:
    """The tab or newline behind it, and whether a backslash stands before that; `end` or more if there is none."""
    is_escaped = False
    while at < end:
        text = word(at)
        stops = _where(text ^ _TABS) | _where(text ^ _NEWLINES)
        escapes = _where(text ^ _BACKSLASHES)
        if stops != _U(0):
            below = stops & (~stops + _U(1))
            return at + (lowest_bit(stops) >> 3), is_escaped or escapes & (below - _U(1)) != _U(0)
        is_escaped = is_escaped or escapes != _U(0)
        at += 8
    return at, is_escaped


@inlined
def _where(text: Word) -> Word:
    """The high bit of each byte that is 0; behind the first one it may be wrong."""
    return (text - _ONES) & ~text & _HIGHS


@inlined
def _unescape(to: int, at: int, end: int) -> int:
    while at < end:
        character = byte(at)
        at += 1
        if character == _BACKSLASH:
            if at == end:
                return _REFUSED
            character = byte(at)
            at += 1
            if ord("0") <= character <= ord("7"):
                character -= ord("0")
                last = min(at + 2, end)
                while at < last and ord("0") <= byte(at) <= ord("7"):
                    character = character << 3 | byte(at) - ord("0")
                    at += 1
                character &= 0xFF
            elif character == ord("x") and at < end and _hex(byte(at)) >= 0:
                character = _hex(byte(at))
                at += 1
                if at < end and _hex(byte(at)) >= 0:
                    character = character << 4 | _hex(byte(at))
                    at += 1
            else:
                character = _named(character)
        put(to, character)
        to += 1
    return to


@inlined
def _hex(digit: int) -> int:
    if ord("0") <= digit <= ord("9"):
        return digit - ord("0")
    lower = digit | 0x20
    return lower - ord("a") + 10 if ord("a") <= lower <= ord("f") else _REFUSED


@inlined
def _named(letter: int) -> int:
    if letter == ord("b"):
        return 8
    if letter == ord("f"):
        return 12
    if letter == ord("n"):
        return 10
    if letter == ord("r"):
        return 13
    if letter == ord("t"):
        return 9
    return 11 if letter == ord("v") else letter
