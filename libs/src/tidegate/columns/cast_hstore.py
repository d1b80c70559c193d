"""hstore text to keys and values: `"a"=>"1", "b"=>NULL` (manual, appendix F, hstore).

Invariant: a value gives all its entries in order, unescaped, or none and the mark REFUSED.
"""

import numpy as np

from tidegate.columns.cast_arrays import ABSENT, REFUSED, TAKEN, mark_element, put_element
from tidegate.columns.compiled import inlined, kernel
from tidegate.columns.memory import address, byte, field, set_field

_QUOTE, _BACKSLASH, _EQUALS, _GREATER, _COMMA, _SPACE = (ord(mark) for mark in '"\\=>, ')
_N, _U, _L = (ord(letter) for letter in "NUL")
_FAILED = -1


@kernel
def split_hstore(
    source: tuple[int, int, int, int, int],
    keys: tuple[np.ndarray, np.ndarray, np.ndarray],
    values: tuple[np.ndarray, np.ndarray, np.ndarray],
    lists: np.ndarray,
    verdicts: np.ndarray,
) -> int:
    """As `cast_arrays.split_arrays`: how many entries there are."""
    start, rows, valid, offsets, data = source
    key_children = address(keys[0]), address(keys[1]), address(keys[2])
    value_children = address(values[0]), address(values[1]), address(values[2])
    keys[0][0] = values[0][0] = lists[0] = 0
    count = 0
    for row in range(rows):
        verdicts[row] = ABSENT
        at = start + row
        if valid == 0 or byte(valid + (at >> 3)) >> (at & 7) & 1:
            after = _entries(
                data + field(offsets, at), data + field(offsets, at + 1), key_children, value_children, count
            )
            verdicts[row] = TAKEN if after >= 0 else REFUSED
            count = max(after, count)
        lists[row + 1] = count
    return count


@inlined
def _entries(at: int, end: int, keys: tuple[int, int, int], values: tuple[int, int, int], count: int) -> int:
    while at < end:
        stop, is_escaped = _quoted_end(at, end)
        if stop == _FAILED:
            return _FAILED
        put_element(keys, count, at + 1, stop, is_escaped)
        at = stop + 1
        if end - at < 4 or byte(at) != _EQUALS or byte(at + 1) != _GREATER:
            return _FAILED
        at += 2
        if byte(at) == _QUOTE:
            stop, is_escaped = _quoted_end(at, end)
            if stop == _FAILED:
                return _FAILED
            put_element(values, count, at + 1, stop, is_escaped)
            at = stop + 1
        elif _is_null(at, end):
            set_field(values[0], count + 1, field(values[0], count))
            mark_element(values[1], count, 0)
            at += 4
        else:
            return _FAILED
        count += 1
        if at < end:
            if end - at < 3 or byte(at) != _COMMA or byte(at + 1) != _SPACE:
                return _FAILED
            at += 2
    return count


@inlined
def _is_null(at: int, end: int) -> bool:
    if end - at < 4 or byte(at) != _N or byte(at + 1) != _U:
        return False
    return bool(byte(at + 2) == _L and byte(at + 3) == _L)


@inlined
def _quoted_end(at: int, end: int) -> tuple[int, bool]:
    """Where the quote stands that ends the one at `at`, and whether anything between is escaped."""
    if at >= end or byte(at) != _QUOTE:
        return _FAILED, False
    at += 1
    is_escaped = False
    while at < end and byte(at) != _QUOTE:
        is_escaped |= byte(at) == _BACKSLASH
        at += 2 if byte(at) == _BACKSLASH else 1
    return (at, is_escaped) if at < end else (_FAILED, False)
