"""Messages that change something, walked to their ends: rows, truncates, logical messages.

Invariant: no byte is read that was not proven to be there, and of a message that is taken every length is proven.
"""

from tidegate.columns import layout
from tidegate.columns.compiled import inlined
from tidegate.columns.memory import be_i16, be_i32, byte, field, set_field
from tidegate.columns.text import is_utf8

_INSERT, _UPDATE, _DELETE, TRUNCATE, LOGICAL = (ord(tag) for tag in "IUDTM")
_NEW, _KEY, _FULL = (ord(tag) for tag in "NKO")
_NULL, _TEXT, _BINARY, _UNCHANGED = (ord(tag) for tag in "ntbu")


@inlined
def changes_something(tag: int) -> bool:
    return tag == _INSERT or tag == _UPDATE or tag == _DELETE or tag == TRUNCATE or tag == LOGICAL


@inlined
def is_change(begin: int, message: int, end: int, tag: int, change: int) -> bool:
    """Whether it is what its tag says; then `change` says what there is of it."""
    if tag == TRUNCATE:
        return _is_truncate(message, end)
    if tag == LOGICAL:
        return _is_logical_message(message, end, change)
    return _row_message(begin, message, end, tag, change)


@inlined
def _row_message(begin: int, message: int, end: int, tag: int, change: int) -> bool:
    if end - message < layout.SMALLEST_ROW - layout.ENTRY_HEAD:
        return False
    _forget(change, layout.INSERT if tag == _INSERT else layout.UPDATE if tag == _UPDATE else layout.DELETE)
    at = message + 5
    kind = byte(at)
    if tag != _INSERT and (kind == _KEY or kind == _FULL):
        set_field(change, layout.OLD_KIND, kind)
        set_field(change, layout.OLD, at + 1 - begin)
        at = _tuple_end(at + 1, end, change)
        if tag == _DELETE:
            return at == end
        if at == layout.NONE or at >= end:
            return False
        kind = byte(at)
    if tag == _DELETE or kind != _NEW:
        return False
    set_field(change, layout.NEW, at + 1 - begin)
    return _tuple_end(at + 1, end, change) == end


@inlined
def _forget(change: int, operation: int) -> None:
    """What stood there before: it is another change now, without tuples."""
    set_field(change, layout.OPERATION, operation)
    set_field(change, layout.NEW, layout.NONE)
    set_field(change, layout.OLD, layout.NONE)
    set_field(change, layout.OLD_KIND, 0)
    set_field(change, layout.FLAGS, 0)


@inlined
def _tuple_end(at: int, end: int, change: int) -> int:
    """Where a tuple ends, or NONE; what it holds besides NULL and text is noted."""
    if at + 2 > end:
        return layout.NONE
    count = be_i16(at)
    at += 2
    if count < 0 or count > end - at:
        return layout.NONE
    flags = 0
    for _ in range(count):
        if at >= end:
            return layout.NONE
        kind = byte(at)
        if kind == _TEXT or kind == _BINARY:
            if at + 5 > end:
                return layout.NONE
            length = be_i32(at + 1)
            at += 5
            if length < 0 or length > end - at:
                return layout.NONE
            at += length
            flags |= layout.HAS_BINARY if kind == _BINARY else 0
        elif kind == _NULL:
            at += 1
        elif kind == _UNCHANGED:
            flags |= layout.HAS_UNCHANGED
            at += 1
        else:
            return layout.NONE
    set_field(change, layout.FLAGS, field(change, layout.FLAGS) | flags)
    return at


@inlined
def _is_truncate(message: int, end: int) -> bool:
    if end - message < 6:
        return False
    number = be_i32(message + 1)
    return bool(number >= 0 and byte(message + 5) < 4 and message + 6 + 4 * number == end)


@inlined
def _is_logical_message(message: int, end: int, change: int) -> bool:
    _forget(change, layout.MESSAGE_ROW)
    if end - message < 10 or byte(message + 1) > 1:
        return False
    prefix = at = message + 10
    while at < end and byte(at) != 0:
        at += 1
    if at + 5 > end or not is_utf8(prefix, at):
        return False
    return bool(at + 5 + be_i32(at + 1) == end and be_i32(at + 1) >= 0)
