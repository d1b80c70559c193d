"""Columns to COPY's text format (COPY in the manual, "Text Format"), without an object for a value or a row.

Invariant: what the server reads back is byte for byte what stands in the columns, and null is NULL.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

TYPE = pa.large_binary()
_ESCAPES = ((b"\\", b"\\\\"), (b"\n", b"\\n"), (b"\r", b"\\r"), (b"\t", b"\\t"))
_IS_SPECIAL = np.zeros(256, np.bool_)
_IS_SPECIAL[[mark[0] for mark, _ in _ESCAPES]] = True
_TAB, _NEWLINE, _NOTHING = (pa.scalar(mark, TYPE) for mark in (b"\t", b"\n", b""))
_NULL = b"\\N"


def copy_text(columns: Sequence[pa.Array]) -> bytes:
    escaped = [_escaped(column) for column in columns]
    lines = pc.binary_join_element_wise(*escaped, _TAB, null_handling="replace", null_replacement=_NULL)
    ended = pc.binary_join_element_wise(lines, _NOTHING, _NEWLINE)
    return bytes(_data(ended))


def numbers(values: np.ndarray) -> pa.Array:
    return pa.array(values).cast(pa.large_string()).cast(TYPE)


def _escaped(column: pa.Array) -> pa.Array:
    if not _IS_SPECIAL[np.frombuffer(_data(column), np.uint8)].any():
        return column
    for mark, instead in _ESCAPES:
        column = pc.replace_substring(column, pattern=mark, replacement=instead)
    return column


def _data(column: pa.Array) -> memoryview:
    """The bytes of its values, one behind the other."""
    _, offsets, data = column.buffers()
    if data is None or not len(column):
        return memoryview(b"")
    ends = np.frombuffer(offsets, np.int64)[column.offset : column.offset + len(column) + 1]
    return memoryview(data)[int(ends[0]) : int(ends[-1])]
