"""One column value: PostgreSQL's text to JSON bytes. Which text becomes what: docs/reference/event.md.

Invariant: the result is one JSON value that says exactly what the server said. Numbers are passed on as text and never
become a Python float; a text that is not of the expected form (infinity, BC, year 10000) stays a JSON string.
"""

import re
from binascii import Error as HexError
from binascii import b2a_base64, unhexlify
from collections.abc import Callable
from json.encoder import encode_basestring
from typing import TypeAlias

from tidegate.errors import RecordError
from tidegate.pgoutput.messages import Column
from tidegate.pgoutput.types import Kind, array_type, kind_of
from tidegate_processor.encodings.arrays import array_json

Convert: TypeAlias = Callable[[bytes], bytes]

_UNLIMITED = -1
_FINITE = re.compile(rb"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?").fullmatch


def column_value(column: Column) -> Convert:
    """How a column's values look in `row` and `old`."""
    return _converter(column.type_oid, _VALUES)


def column_key(column: Column) -> Convert:
    """How they look in the key: equal values give equal bytes, wherever the type allows it."""
    return _converter(column.type_oid, _UNPADDED_KEYS if column.typmod == _UNLIMITED else _KEYS)


def _converter(type_oid: int, converters: dict[Kind, Convert]) -> Convert:
    array = array_type(type_oid)
    if array is None:
        return converters[kind_of(type_oid)]
    element = converters[kind_of(array.element_oid)]
    delimiter = array.delimiter
    return lambda value: array_json(value, element, delimiter) or text(value)


def text(value: bytes) -> bytes:
    # Not orjson: as quick for short texts, and orjson keeps kilobytes for each while the others are being made (a
    # million elements of an array took 4 GB).
    return encode_basestring(value.decode()).encode()


def _bool(value: bytes) -> bytes:
    return b"true" if value == b"t" else b"false"


def _integer(value: bytes) -> bytes:
    digits = value[1:] if value[:1] == b"-" else value
    return value if digits.isdigit() else text(value)


def _float(value: bytes) -> bytes:
    return value if _FINITE(value) else text(value)


def _json(value: bytes) -> bytes:
    # Embedded as it came; decoding only proves that the whole event stays UTF-8.
    value.decode()
    return value


def _bytea(value: bytes) -> bytes:
    if value[:2] != b"\\x":
        raise _not_hex()
    try:
        return b'"%b"' % b2a_base64(unhexlify(value[2:]), newline=False)
    except HexError:
        raise _not_hex() from None


def _not_hex() -> RecordError:
    return RecordError(
        "a bytea value that is not in hex form",
        code="VALUE_BYTEA_FORMAT",
        remedy="The source session must pin bytea_output=hex: check that no pooler in between resets it.",
    )


def _timestamp(value: bytes) -> bytes:
    # A four-digit year ends at byte 10; infinity is shorter, a longer year has a digit there.
    if value[10:11] == b" " and not value.endswith(b"BC"):
        return text(value[:10] + b"T" + value[11:])
    return text(value)


def _timestamptz(value: bytes) -> bytes:
    if value[10:11] == b" " and value[-3:] == b"+00":
        return text(value[:10] + b"T" + value[11:-3] + b"Z")
    return text(value)


def _key_float(value: bytes) -> bytes:
    return b"0" if value == b"-0" else _float(value)


def _key_numeric(value: bytes) -> bytes:
    # 1.0 = 1.00 in PostgreSQL. Without a point there is nothing to strip, and NaN and Infinity have none.
    return text(value.rstrip(b"0").rstrip(b".") if b"." in value else value)


def _unpadded(value: bytes) -> bytes:
    # Without a length the server does not pad, but still compares without trailing spaces.
    return text(value.rstrip(b" "))


_VALUES: dict[Kind, Convert] = {
    Kind.BOOL: _bool,
    Kind.INTEGER: _integer,
    Kind.FLOAT: _float,
    Kind.NUMERIC: text,
    Kind.BPCHAR: text,
    Kind.BYTEA: _bytea,
    Kind.JSON: _json,
    Kind.TIMESTAMP: _timestamp,
    Kind.TIMESTAMPTZ: _timestamptz,
    Kind.TEXT: text,
}

_KEYS: dict[Kind, Convert] = {**_VALUES, Kind.FLOAT: _key_float, Kind.NUMERIC: _key_numeric}

_UNPADDED_KEYS: dict[Kind, Convert] = {**_KEYS, Kind.BPCHAR: _unpadded}
