"""Rows as `COPY … TO STDOUT` sends them in text format: a line a row, fields apart by tabs, `\\N` for NULL.

Plain Python: the reference of the compiled kernel (`tidegate.columns.copy_rows`). From PostgreSQL's manual, COPY, "Text
Format". Invariant: each row has as many values as its relation has columns, and a value is the text that pgoutput sends
for it; anything else is one DecodeError.
"""

import re
from collections.abc import Iterator, Sequence

from tidegate.errors import DecodeError

CopyRow = tuple[bytes | None, ...]

_NULL = b"\\N"
_NAMED = {b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v"}
_ESCAPES = {code: b"\\" + letter for letter, code in _NAMED.items()} | {b"\\": b"\\\\"}
_ESCAPED = re.compile(rb"\\(x[0-9A-Fa-f]{1,2}|[0-7]{1,3}|.?)", re.DOTALL)
_TO_ESCAPE = re.compile(rb"[\b\f\n\r\t\v\\]")


def copy_rows(text: bytes, columns: int) -> Iterator[CopyRow]:
    at = 0
    while at < len(text):
        end = text.find(b"\n", at)
        if end < 0:
            raise DecodeError("a row of a COPY does not end", offset=at, code="COPY_CUT_SHORT")
        yield _row(text[at:end], columns, at)
        at = end + 1


def copy_line(row: Sequence[bytes | None]) -> bytes:
    """What a server sends: simulators, benches and tests speak through it."""
    fields = (_NULL if value is None else _TO_ESCAPE.sub(lambda found: _ESCAPES[found[0]], value) for value in row)
    return b"\t".join(fields) + b"\n"


def _row(line: bytes, columns: int, at: int) -> CopyRow:
    fields = line.split(b"\t") if columns or line else []
    if len(fields) != columns:
        raise DecodeError("a row of a COPY with another number of columns", offset=at, code="COPY_ROW_WIDTH")
    return tuple(None if field == _NULL else _value(field, at) for field in fields)


def _value(field: bytes, at: int) -> bytes:
    if b"\\" not in field:
        return field
    try:
        return _ESCAPED.sub(lambda found: _character(found[1]), field)
    except ValueError:
        raise DecodeError("a backslash with nothing behind it", offset=at, code="COPY_ESCAPE") from None


def _character(escape: bytes) -> bytes:
    if not escape:
        raise ValueError
    if len(escape) > 1 and escape[:1] == b"x":
        return bytes((int(escape[1:], 16),))
    if escape[:1] in b"01234567":
        return bytes((int(escape, 8) & 0xFF,))
    return _NAMED.get(escape, escape)
