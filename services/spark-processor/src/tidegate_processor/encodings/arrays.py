"""PostgreSQL's array text to nested JSON arrays (manual 8.15.6, "Array Input and Output Syntax").

Invariant: the result is a well-formed JSON array, or None (lower bounds other than 1, or no array's text): the caller
then keeps the text.
"""

import re
from collections.abc import Callable

_NOT_PLAIN = re.compile(rb'[{}"\\]')


def _tokens(delimiter: bytes) -> re.Pattern[bytes]:
    mark = re.escape(delimiter)
    # Unrolled: a choice repeated for every byte would keep a way back for each of them.
    quoted = rb'"(?P<quoted>[^"\\]*(?:\\.[^"\\]*)*)"'
    return re.compile(rb'[{}]|(?P<next>%b)|%b|[^{}"\\%b]+' % (mark, quoted, mark), re.DOTALL)


_BY_DELIMITER = {delimiter: _tokens(delimiter) for delimiter in (b",", b";")}


def array_json(array: bytes, element: Callable[[bytes], bytes], delimiter: bytes) -> bytes | None:
    """An unquoted NULL is null; every other element goes through `element`."""
    if not _NOT_PLAIN.search(array, 1, len(array) - 1):
        return _plain(array, element, delimiter)
    match = _BY_DELIMITER[delimiter].match
    parts: list[bytes] = []
    depth = at = 0
    closed = False  # whether a comma or the end of a dimension may follow
    while at < len(array):
        token = match(array, at)
        if token is None or (at and depth == 0):
            return None
        at = token.end()
        found = token.group()
        if found == b"{":
            if closed:
                return None
            parts.append(b"[")
            depth += 1
            closed = False
        elif found == b"}":
            if not closed and parts[-1:] != [b"["]:
                return None
            parts.append(b"]")
            depth -= 1
            closed = True
        elif depth == 0 or (token.lastgroup == "next") is not closed:
            return None
        elif closed:
            parts.append(b",")
            closed = False
        else:
            parts.append(_element(token, element))
            closed = True
    return b"".join(parts) if parts and depth == 0 else None


def _plain(array: bytes, element: Callable[[bytes], bytes], delimiter: bytes) -> bytes | None:
    """One dimension and nothing quoted, as nearly all arrays of numbers are: four times as fast."""
    if len(array) < 2 or array[:1] != b"{" or array[-1:] != b"}":
        return None
    if array == b"{}":
        return b"[]"
    items = array[1:-1].split(delimiter)
    if b"" in items:
        return None
    return b"[" + b",".join([b"null" if item == b"NULL" else element(item) for item in items]) + b"]"


def _element(token: re.Match[bytes], element: Callable[[bytes], bytes]) -> bytes:
    quoted: bytes | None = token["quoted"]
    if quoted is not None:
        return element(_unescaped(quoted) if b"\\" in quoted else quoted)
    plain = token.group()
    return b"null" if plain == b"NULL" else element(plain)


def _unescaped(quoted: bytes) -> bytes:
    # In a run of backslashes the pairs stand from its left, which is where split finds them.
    return b"\\".join([part.replace(b"\\", b"") for part in quoted.split(b"\\\\")])
