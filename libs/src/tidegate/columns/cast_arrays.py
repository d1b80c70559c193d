"""Array text to flat elements: what Arrow's lists are made of, and the dimensions that they leave out (manual 8.15.6).

    [0:1][1:2]={{a,b},{"c,d",NULL}}   elements a b c,d NULL   dimensions (lower 0, length 2) (lower 1, length 2)

Invariant: a value gives all its elements in order, none of them changed, or none at all and the mark REFUSED.
"""

from enum import IntEnum

import numpy as np

from tidegate.columns.compiled import inlined, kernel
from tidegate.columns.memory import address, byte, copy, field, put, set_field


class Style(IntEnum):
    ARRAY = 0
    VECTOR = 1
    """`[1,2,3]`, without quotes."""
    MULTIRANGE = 2
    """`{[1,3),[5,7)}`: elements in brackets of their own."""


# Of a row: no value, a list, or text that is none.
ABSENT, TAKEN, REFUSED = range(3)
MOST_DIMENSIONS = 6

_ARRAY, _VECTOR, _MULTIRANGE = int(Style.ARRAY), int(Style.VECTOR), int(Style.MULTIRANGE)
_OPEN, _CLOSE, _QUOTE, _BACKSLASH = (ord(mark) for mark in '{}"\\')
_SQUARE, _SQUARE_END, _ROUND, _ROUND_END = (ord(mark) for mark in "[]()")
_COLON, _EQUALS, _MINUS, _ZERO, _NINE = (ord(mark) for mark in ":=-09")
_FAILED = -1
_INT32 = 2**31


@kernel
def split_arrays(
    source: tuple[int, int, int, int, int],
    style: int,
    delimiter: int,
    elements: tuple[np.ndarray, np.ndarray, np.ndarray],
    dimensions: np.ndarray,
    lists: np.ndarray,
    verdicts: np.ndarray,
) -> tuple[int, int]:
    """`source`: first row, rows, addresses of validity (or 0), offsets and data. How many elements and dimensions.

    `lists`: offsets into the elements, then into the dimensions; `dimensions`: lower bounds and lengths.
    """
    start, rows, valid, offsets, data = source
    child_offsets, child_valid, child_data = elements
    bounds = np.empty(3 * MOST_DIMENSIONS, np.int64)
    count = used = 0
    child_offsets[0] = lists[0, 0] = lists[1, 0] = 0
    for row in range(rows):
        verdicts[row] = ABSENT
        at = start + row
        if valid == 0 or byte(valid + (at >> 3)) >> (at & 7) & 1:
            begin, end = data + field(offsets, at), data + field(offsets, at + 1)
            children = address(child_offsets), address(child_valid), address(child_data)
            if style == _ARRAY:
                after, depth = _array(begin, end, delimiter, children, count, address(bounds))
            else:
                after, depth = _flat(begin, end, style, children, count)
                bounds[0], bounds[MOST_DIMENSIONS] = 1, after - count
            verdicts[row] = TAKEN if after >= 0 else REFUSED
            if after >= 0:
                count = after
                for dimension in range(depth):
                    dimensions[0, used] = bounds[dimension]
                    dimensions[1, used] = bounds[MOST_DIMENSIONS + dimension]
                    used += 1
        lists[0, row + 1], lists[1, row + 1] = count, used
    return count, used


@inlined
def put_element(children: tuple[int, int, int], count: int, at: int, end: int, is_escaped: bool) -> int:
    offsets, valid, data = children
    begin = field(offsets, count)
    to = data + begin
    if is_escaped:
        while at < end:
            at += byte(at) == _BACKSLASH
            put(to, byte(at))
            to += 1
            at += 1
    else:
        copy(to, at, end - at)
        to += end - at
    set_field(offsets, count + 1, to - data)
    mark_element(valid, count, 1)
    return count + 1


@inlined
def mark_element(bits: int, at: int, is_valid: int) -> None:
    """Either way: a value that was refused half way has left its marks."""
    place = bits + (at >> 3)
    put(place, byte(place) & ~(1 << (at & 7)) | is_valid << (at & 7))


@inlined
def _array(
    at: int, end: int, delimiter: int, children: tuple[int, int, int], count: int, bounds: int
) -> tuple[int, int]:
    """How many elements there are now, or _FAILED; and how many dimensions, their bounds and lengths in `bounds`."""
    lowers, lengths, counts = bounds, bounds + 8 * MOST_DIMENSIONS, bounds + 16 * MOST_DIMENSIONS
    at, declared = _lower_bounds(at, end, lowers, lengths)
    if at == _FAILED:
        return _FAILED, 0
    depth, dimensions = 0, declared
    closed = opened = False
    begin = at
    while at < end:
        mark = byte(at)
        if mark == _BACKSLASH or (at > begin and depth == 0):
            return _FAILED, 0
        if mark == _OPEN:
            if closed or depth == MOST_DIMENSIONS or (dimensions and depth == dimensions):
                return _FAILED, 0
            set_field(counts, depth, 0)
            if dimensions == 0:
                set_field(lengths, depth, _FAILED)
            depth += 1
            at += 1
            closed, opened = False, True
        elif mark == _CLOSE:
            if not closed and not opened:
                return _FAILED, 0
            if opened and not (depth == 1 and at + 1 == end and at == begin + 1 and declared == 0):
                return _FAILED, 0  # only the whole array can be empty, and then it has no dimension
            depth -= 1
            if field(lengths, depth) == _FAILED:
                set_field(lengths, depth, field(counts, depth))
            elif field(lengths, depth) != field(counts, depth):
                return _FAILED, 0
            if depth:
                set_field(counts, depth - 1, field(counts, depth - 1) + 1)
            at += 1
            closed, opened = True, False
        elif mark == delimiter:
            if depth == 0 or not closed:
                return _FAILED, 0
            at += 1
            closed = opened = False
        else:
            if closed or depth == 0 or (dimensions and depth != dimensions):
                return _FAILED, 0
            dimensions = depth
            at, count = _token(at, end, delimiter, children, count)
            if at == _FAILED:
                return _FAILED, 0
            set_field(counts, depth - 1, field(counts, depth - 1) + 1)
            closed, opened = True, False
    return (count if depth == 0 and closed else _FAILED), dimensions


@inlined
def _token(at: int, end: int, delimiter: int, children: tuple[int, int, int], count: int) -> tuple[int, int]:
    stop = at
    if byte(at) == _QUOTE:
        stop += 1
        is_escaped = False
        while stop < end and byte(stop) != _QUOTE:
            is_escaped |= byte(stop) == _BACKSLASH
            stop += 2 if byte(stop) == _BACKSLASH else 1
        if stop >= end:
            return _FAILED, count
        return stop + 1, put_element(children, count, at + 1, stop, is_escaped)
    while stop < end and byte(stop) != delimiter and not _is_mark(byte(stop)):
        stop += 1
    if _is_null(at, stop):
        set_field(children[0], count + 1, field(children[0], count))
        mark_element(children[1], count, 0)
        return stop, count + 1
    return stop, put_element(children, count, at, stop, False)


@inlined
def _is_mark(letter: int) -> bool:
    return letter == _OPEN or letter == _CLOSE or letter == _QUOTE or letter == _BACKSLASH


@inlined
def _is_null(at: int, end: int) -> bool:
    if end - at != 4 or byte(at) != ord("N") or byte(at + 1) != ord("U"):
        return False
    return bool(byte(at + 2) == ord("L") and byte(at + 3) == ord("L"))


@inlined
def _lower_bounds(at: int, end: int, lowers: int, lengths: int) -> tuple[int, int]:
    """Where the array itself begins, and how many dimensions were declared before it: none if all begin at 1."""
    declared = 0
    for dimension in range(MOST_DIMENSIONS):
        set_field(lowers, dimension, 1)
    while at < end and byte(at) == _SQUARE and declared < MOST_DIMENSIONS:
        lower, at = _bound(at + 1, end)
        if at >= end or byte(at) != _COLON:
            return _FAILED, 0
        upper, at = _bound(at + 1, end)
        if at >= end or byte(at) != _SQUARE_END or upper < lower or upper - lower >= _INT32 - 1:
            return _FAILED, 0
        set_field(lowers, declared, lower)
        set_field(lengths, declared, upper - lower + 1)
        declared += 1
        at += 1
    if declared:
        if at >= end or byte(at) != _EQUALS:
            return _FAILED, 0
        at += 1
    return at, declared


@inlined
def _bound(at: int, end: int) -> tuple[int, int]:
    """A number of 32 bits, and where it ends; `end` if it is none."""
    negative = at < end and byte(at) == _MINUS
    at += negative
    begin, number = at, 0
    while at < end and byte(at) >= _ZERO and byte(at) <= _NINE and at - begin < 10:
        number = number * 10 + byte(at) - _ZERO
        at += 1
    number = -number if negative else number
    if at == begin or number < -_INT32 or number >= _INT32:
        return 0, end
    return number, at


@inlined
def _flat(at: int, end: int, style: int, children: tuple[int, int, int], count: int) -> tuple[int, int]:
    """Elements of a list that neither nests nor quotes: how many there are now, or _FAILED; and its one dimension."""
    opening, closing = (_SQUARE, _SQUARE_END) if style == _VECTOR else (_OPEN, _CLOSE)
    if end - at < 2 or byte(at) != opening or byte(end - 1) != closing:
        return _FAILED, 0
    at, end = at + 1, end - 1
    while at < end:
        stop = at
        if style == _MULTIRANGE:
            while stop < end and byte(stop) != _ROUND_END and byte(stop) != _SQUARE_END:
                stop += 1
            stop += 1
        else:
            while stop < end and byte(stop) != ord(","):
                stop += 1
        if stop > end or stop == at or (stop < end and (byte(stop) != ord(",") or stop + 1 == end)):
            return _FAILED, 0
        count = put_element(children, count, at, stop, False)
        at = stop + 1
    return count, 1
