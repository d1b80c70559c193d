"""PostgreSQL's array text to nested JSON arrays in a kernel (manual 8.15.6), or the text as it is where it is none.

Invariant: verdict and bytes are those of the reference, `tidegate_processor.encodings.arrays`: an element that can't be
written refuses the value even where the text behind it is no array's.
"""

from typing import Final

from tidegate.columns.compiled import called, inlined
from tidegate.columns.memory import byte, put
from tidegate.columns.text import put_text
from tidegate.columns.values import put_null, put_value, put_value_apart

ARRAY: Final = 16
"""Added to the form of the elements."""
SEMICOLON: Final = 32
"""Added where elements are separated by it instead of a comma."""
_FORM: Final = 15

NO_ARRAY: Final = -3

_OPEN, _CLOSE, _QUOTE, _BACKSLASH, _COMMA = (ord(mark) for mark in '{}"\\,')
_N, _U, _L = (ord(letter) for letter in "NUL")


@inlined
def put_column(to: int, form: int, at: int, end: int, scratch: int) -> int:
    """In `scratch` there is room for the longest value: elements lose their backslashes there."""
    if form < ARRAY:
        return put_value(to, form, at, end)
    return _put_array(to, form, at, end, scratch)


@called
def _put_array(to: int, form: int, at: int, end: int, scratch: int) -> int:
    delimiter = ord(";") if form & SEMICOLON else _COMMA
    if _is_plain(at, end):
        written = _put_plain(to, form & _FORM, at, end, delimiter)
    else:
        written = _put_nested(to, form & _FORM, at, end, delimiter, scratch)
    return put_text(to, at, end) if written == NO_ARRAY else written


@inlined
def _is_mark(letter: int) -> bool:
    return letter == _OPEN or letter == _CLOSE or letter == _QUOTE or letter == _BACKSLASH


@inlined
def _is_plain(at: int, end: int) -> bool:
    for place in range(at + 1, end - 1):
        if _is_mark(byte(place)):
            return False
    return True


@inlined
def _is_null(at: int, end: int) -> bool:
    if end - at != 4:
        return False
    return bool(byte(at) == _N and byte(at + 1) == _U and byte(at + 2) == _L and byte(at + 3) == _L)


@inlined
def _put_plain(to: int, form: int, at: int, end: int, delimiter: int) -> int:
    """One dimension and nothing quoted."""
    if end - at < 2 or byte(at) != _OPEN or byte(end - 1) != _CLOSE:
        return NO_ARRAY
    at, end = at + 1, end - 1
    for place in range(at, end):
        if byte(place) == delimiter and (place == at or place == end - 1 or byte(place - 1) == delimiter):
            return NO_ARRAY
    put(to, ord("["))
    to += 1
    while at < end:
        stop = at
        while stop < end and byte(stop) != delimiter:
            stop += 1
        to = put_null(to) if _is_null(at, stop) else put_value_apart(to, form, at, stop)
        if to < 0:
            return to
        put(to, _COMMA)
        to += stop < end
        at = stop + 1
    put(to, ord("]"))
    return to + 1


@inlined
def _put_nested(to: int, form: int, at: int, end: int, delimiter: int, scratch: int) -> int:
    begin, depth = at, 0
    closed = False  # whether a delimiter or the end of a dimension may follow
    opened = False  # whether the last mark began a dimension
    while at < end:
        mark = byte(at)
        if mark == _BACKSLASH or (at > begin and depth == 0):
            return NO_ARRAY
        if mark == _OPEN:
            if closed:
                return NO_ARRAY
            put(to, ord("["))
            to += 1
            at += 1
            depth += 1
            closed, opened = False, True
        elif mark == _CLOSE:
            if not closed and not opened:
                return NO_ARRAY
            put(to, ord("]"))
            to += 1
            at += 1
            depth -= 1
            closed = True
        elif mark == delimiter:
            if depth == 0 or not closed:
                return NO_ARRAY
            put(to, _COMMA)
            to += 1
            at += 1
            closed = opened = False
        else:
            stop = _token_end(at, end, delimiter)
            if stop == NO_ARRAY or depth == 0 or closed:
                return NO_ARRAY
            if mark == _QUOTE:
                to = put_value_apart(to, form, scratch, _unescape(scratch, at + 1, stop - 1))
            elif _is_null(at, stop):
                to = put_null(to)
            else:
                to = put_value_apart(to, form, at, stop)
            if to < 0:
                return to
            at = stop
            closed = True
    return to if depth == 0 and at > begin else NO_ARRAY


@inlined
def _token_end(at: int, end: int, delimiter: int) -> int:
    if byte(at) != _QUOTE:
        while at < end and not _is_mark(byte(at)) and byte(at) != delimiter:
            at += 1
        return at
    at += 1
    while at < end and byte(at) != _QUOTE:
        at += 2 if byte(at) == _BACKSLASH else 1
    return at + 1 if at < end else NO_ARRAY


@inlined
def _unescape(to: int, at: int, end: int) -> int:
    while at < end:
        at += byte(at) == _BACKSLASH
        put(to, byte(at))
        to += 1
        at += 1
    return to
