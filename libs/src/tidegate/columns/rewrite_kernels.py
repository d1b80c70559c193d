"""One pass over a frame's body that writes another one: columns left out or masked, changes left out.

| entry                       | becomes                                              |
| --------------------------- | ---------------------------------------------------- |
| I U D, wanted               | the same with its tuples rewritten, column by column |
| I U D, not wanted           | a truncate of no table: it takes the ordinal         |
| all else                    | itself                                               |

Invariant: bytes are those of the reference, `tidegate.pgoutput.rewrite`. The body has been scanned, so every length in
it holds; only whether a tuple is as wide as its relation is asked here. Every change keeps its ordinal, so positions
and ids are what they would be without transforms.
"""

from typing import Final

import numpy as np

from tidegate.columns import layout
from tidegate.columns.blake2b import digest
from tidegate.columns.compiled import Word, inlined, kernel, signed, unsigned
from tidegate.columns.memory import address, be_i16, be_i32, be_u32, byte, copy, field, put, put_word, row_of, swapped
from tidegate.columns.text import SLACK, hex_word
from tidegate.pgoutput.rewrite import Canon, Writer

# A relation in the plan.
IS_CHANGED, COLUMNS_FROM, WIDTH, KEPT, RELATION_FIELDS = range(5)
# A column in the plan.
WRITER, CANON, FIXED_AT, FIXED_LENGTH, KEY, COLUMN_FIELDS = range(6)

VALUE_HEAD: Final = 5
HASH_LENGTH: Final = 64
TOKEN_LENGTH: Final = 36

_U = unsigned
_HEAD = layout.ENTRY_HEAD
_DROP, _COPY, _FIXED, _HASH = int(Writer.DROP), int(Writer.COPY), int(Writer.FIXED), int(Writer.HASH)
_NUMERIC, _FLOAT, _UNPADDED = int(Canon.NUMERIC), int(Canon.FLOAT), int(Canon.UNPADDED)
_I, _U_TAG, _D, _T = (ord(tag) for tag in "IUDT")
_NULL, _TEXT, _UNCHANGED, _NEW = (ord(tag) for tag in "ntuN")
_POINT, _ZERO, _SPACE, _MINUS, _DASH = (ord(mark) for mark in ".0 --")
_NOTHING_BYTES = 6
_TOO_WIDE = -1


@kernel
def rewrite(
    body: np.ndarray,
    changes: np.ndarray,
    wanted: np.ndarray,
    plan: tuple[np.ndarray, ...],
    out: np.ndarray,
) -> tuple[int, int]:
    """How many bytes of `out` are used; or -1, and the row of a change that is not as wide as its relation.

    `out` has room for all, with SLACK behind it. `wanted` tells of each change whether it stays.
    """
    relations, columns, pieces, keys, words = plan
    tables = address(columns), address(pieces)
    begin, target = address(body), address(out)
    at, end, to = begin, begin + len(body) - SLACK, target
    turn = 0
    while at < end:
        message = at + _HEAD
        length = signed(be_u32(at))
        tag = byte(message) if length else 0
        is_row = tag == _I or tag == _U_TAG or tag == _D
        is_known = turn < len(changes) and changes[turn, layout.MESSAGE] == message - begin
        if is_row and not (is_known and wanted[turn]):
            to = _put_nothing(to, at)
        else:
            copied = to
            if is_row:
                change = row_of(address(changes), turn, layout.CHANGE_FIELDS)
                relation = row_of(address(relations), field(change, layout.RELATION), RELATION_FIELDS)
                if field(relation, IS_CHANGED):
                    to = _put_change(to, at, begin, change, relation, tables, keys, words)
                    if to == _TOO_WIDE:
                        return _TOO_WIDE, turn
            if to == copied:
                copy(to, at, _HEAD + length)
                to += _HEAD + length
        while turn < len(changes) and changes[turn, layout.MESSAGE] == message - begin:
            turn += 1
        at = message + length
    return to - target, 0


@inlined
def _put_half(to: int, number: int) -> None:
    for place in range(4):
        put(to + place, number >> (24 - 8 * place) & 255)


@inlined
def _put_nothing(to: int, at: int) -> int:
    copy(to + 4, at + 4, 8)
    _put_half(to, _NOTHING_BYTES)
    message = to + _HEAD
    put(message, _T)
    _put_half(message + 1, 0)
    put(message + 5, 0)
    return message + _NOTHING_BYTES


@inlined
def _put_change(
    to: int,
    at: int,
    begin: int,
    change: int,
    relation: int,
    tables: tuple[int, int],
    keys: np.ndarray,
    words: np.ndarray,
) -> int:
    entry = to
    copy(to, at, _HEAD + 5)  # tag and relation
    to += _HEAD + 5
    if field(change, layout.OLD) != layout.NONE:
        put(to, field(change, layout.OLD_KIND))
        to = _put_tuple(to + 1, begin + field(change, layout.OLD), relation, tables, keys, words)
        if to == _TOO_WIDE:
            return to
    if field(change, layout.NEW) != layout.NONE:
        put(to, _NEW)
        to = _put_tuple(to + 1, begin + field(change, layout.NEW), relation, tables, keys, words)
        if to == _TOO_WIDE:
            return to
    _put_half(entry, to - entry - _HEAD)
    return to


@inlined
def _put_tuple(to: int, at: int, relation: int, tables: tuple[int, int], keys: np.ndarray, words: np.ndarray) -> int:
    width, kept = field(relation, WIDTH), field(relation, KEPT)
    if be_i16(at) != width:
        return _TOO_WIDE
    put(to, kept >> 8)
    put(to + 1, kept & 255)
    to += 2
    at += 2
    columns, pieces = tables
    run = at  # values side by side that are copied go at once
    for place in range(width):
        column = row_of(columns, field(relation, COLUMNS_FROM) + place, COLUMN_FIELDS)
        kind, writer = byte(at), field(column, WRITER)
        is_there = kind != _NULL and kind != _UNCHANGED
        length = be_i32(at + 1) if is_there else 0
        following = at + VALUE_HEAD + length if is_there else at + 1
        if writer == _DROP or (is_there and writer != _COPY):
            copy(to, run, at - run)
            to += at - run
            run = following
            if writer != _DROP:
                value = at + VALUE_HEAD
                put(to, _TEXT)
                end = _put_mask(to + VALUE_HEAD, column, value, value + length, pieces, keys, words)
                _put_half(to + 1, end - to - VALUE_HEAD)
                to = end
        at = following
    copy(to, run, at - run)
    return to + at - run


@inlined
def _put_mask(to: int, column: int, at: int, end: int, pieces: int, keys: np.ndarray, words: np.ndarray) -> int:
    writer = field(column, WRITER)
    if writer == _FIXED:
        copy(to, pieces + field(column, FIXED_AT), field(column, FIXED_LENGTH))
        return int(to + field(column, FIXED_LENGTH))
    at, end = _canonical(field(column, CANON), at, end)
    digest(at, end, keys[field(column, KEY)], words)
    if writer == _HASH:
        for place in range(4):
            to = _put_hex(to, words[place])
        return to
    return _put_token(to, words)


@inlined
def _put_hex(to: int, number: Word) -> int:
    """The eight bytes of a word, the lowest first."""
    ordered = swapped(number)
    put_word(to, hex_word(ordered >> _U(32)))
    put_word(to + 8, hex_word(ordered & _U(0xFFFFFFFF)))
    return to + 16


@inlined
def _put_token(to: int, words: np.ndarray) -> int:
    first = swapped(words[0]) & ~_U(0xF000) | _U(0x8000)
    second = swapped(words[1]) & ~(_U(3) << _U(62)) | _U(1) << _U(63)
    put_word(to, hex_word(first >> _U(32)))
    middle = hex_word(first & _U(0xFFFFFFFF))
    put(to + 8, _DASH)
    put_word(to + 9, middle)
    put(to + 13, _DASH)
    put_word(to + 14, middle >> _U(32))
    put(to + 18, _DASH)
    high = hex_word(second >> _U(32))
    put_word(to + 19, high)
    put(to + 23, _DASH)
    put_word(to + 24, high >> _U(32))
    put_word(to + 28, hex_word(second & _U(0xFFFFFFFF)))
    return to + TOKEN_LENGTH


@inlined
def _canonical(canon: int, at: int, end: int) -> tuple[int, int]:
    if canon == _NUMERIC:
        point = at
        while point < end and byte(point) != _POINT:
            point += 1
        if point < end:
            while end > at and byte(end - 1) == _ZERO:
                end -= 1
            while end > at and byte(end - 1) == _POINT:
                end -= 1
    elif canon == _FLOAT and end - at == 2 and byte(at) == _MINUS and byte(at + 1) == _ZERO:
        at += 1
    elif canon == _UNPADDED:
        while end > at and byte(end - 1) == _SPACE:
            end -= 1
    return at, end
