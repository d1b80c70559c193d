"""One column of text to one typed array, of any type: what is nested is taken apart, cast flat, and put together again.

Invariant: a value with a part that has no typed form is null and `beyond` as a whole; nothing raises.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.columns.cast_arrays import MOST_DIMENSIONS, REFUSED, TAKEN, Style, split_arrays
from tidegate.columns.cast_hstore import split_hstore
from tidegate.columns.cast_kernels import Cell, cast_columns
from tidegate.columns.casts import TEXT, Cast, Nest, settle_floats
from tidegate.columns.memory import address_of
from tidegate.columns.record_batches import LARGE, BatchLayout

_BYTES: Final = pa.large_binary()
# One column of text as `record_batches` tells kernels of it; the message is `_as_message`'s and has no head.
_TEXT_TABLE: Final = np.array([[LARGE, 0, 2]], np.int64)
_TEXT_FORM: Final = np.array([1, address_of(_TEXT_TABLE), 0, 0, 0, 0], np.int64)
_Children: TypeAlias = tuple[np.ndarray, np.ndarray, np.ndarray]


@dataclass(frozen=True, slots=True)
class Typed:
    values: pa.Array
    beyond: np.ndarray | None = None
    """True where the text has no form in the type; None if that is nowhere."""


def cast_text(text: pa.Array, cast: Cast) -> Typed:
    """`text`: large_binary, as in a change batch."""
    if not len(text):
        return Typed(pa.array([], cast.type))
    return _flat(text, cast) if cast.nest is None else _NESTS[cast.nest](text, cast)


@lru_cache(maxsize=256)
def _flat_layout(type_: pa.DataType) -> BatchLayout:
    return BatchLayout(pa.schema([pa.field("", type_)]))


def _flat(text: pa.Array, cast: Cast) -> Typed:
    layout = _flat_layout(cast.type)
    casts = np.array([cast.numbers], np.int64)
    message, marks = cast_columns(_as_message(text), _TEXT_FORM, text.offset, casts, layout.form)
    if marks and cast.cell is Cell.FLOAT:
        settle_floats(cast, lambda row: text[row].as_py(), layout, message, 0)
    bits = layout.marks(message)[0].view(np.uint8)
    beyond = np.unpackbits(bits, count=len(text), bitorder="little").astype(bool) if bits.any() else None
    return Typed(layout.read(message).column(0), beyond)


def _as_message(text: pa.Array) -> np.ndarray:
    """Rows, nulls, and of each buffer its place and length; the places are counted from here, as in any message."""
    valid, offsets, data = text.buffers()
    nulls = text.null_count
    at = valid.address if nulls else 0, offsets.address, data.address if data else 0
    message = np.array([len(text), nulls, at[0], nulls, at[1], 0, at[2], _bytes(text)], np.int64)
    message[2::2] -= address_of(message)
    return message


def _source(text: pa.Array) -> tuple[int, int, int, int, int]:
    valid, offsets, data = text.buffers()
    return text.offset, len(text), valid.address if valid else 0, offsets.address, data.address if data else 0


def _bytes(text: pa.Array) -> int:
    offsets = np.frombuffer(text.buffers()[1], np.int64)
    return int(offsets[text.offset + len(text)] - offsets[text.offset])


def _data(text: pa.Array) -> np.ndarray:
    offsets = np.frombuffer(text.buffers()[1], np.int64)
    data = text.buffers()[2]
    begin, end = offsets[text.offset], offsets[text.offset + len(text)]
    return np.frombuffer(data, np.uint8)[begin:end] if data else np.empty(0, np.uint8)


def _children(most: int, size: int) -> _Children:
    return np.empty(most + 1, np.int64), np.zeros((most + 7) // 8 + 1, np.uint8), np.empty(size, np.uint8)


def _child_text(children: _Children, count: int) -> pa.Array:
    offsets, valid, data = children
    return pa.Array.from_buffers(_BYTES, count, [pa.py_buffer(valid), pa.py_buffer(offsets), pa.py_buffer(data)])


def _bitmap(valid: np.ndarray) -> pa.Buffer | None:
    return None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))


def _any_of(beyond: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Of each list, whether one of its elements is beyond."""
    before = np.concatenate(([0], np.cumsum(beyond)))
    found: np.ndarray = before[offsets[1:]] > before[offsets[:-1]]
    return found


def _result(values: pa.Array, refused: np.ndarray) -> Typed:
    return Typed(values, refused if refused.any() else None)


@dataclass(frozen=True, slots=True)
class _Split:
    elements: pa.Array
    offsets: np.ndarray
    dimension_offsets: np.ndarray
    dimensions: np.ndarray
    verdicts: np.ndarray


def _split(text: pa.Array, style: Style, delimiter: bytes = b",") -> _Split:
    data, rows = _data(text), len(text)
    most = int(np.count_nonzero(data == delimiter[0])) + rows
    children = _children(most, len(data))
    dimensions = np.empty((2, MOST_DIMENSIONS * rows), np.int32)
    lists, verdicts = np.empty((2, rows + 1), np.int64), np.empty(rows, np.uint8)
    count, used = split_arrays(_source(text), int(style), delimiter[0], children, dimensions, lists, verdicts)
    return _Split(_child_text(children, count), lists[0], lists[1], dimensions[:, :used], verdicts)


def _lists(split: _Split, refused: np.ndarray, cast: Cast) -> Typed:
    element = cast.element or TEXT
    typed = cast_text(split.elements, element)
    refused = refused | (split.verdicts == REFUSED)
    if typed.beyond is not None:
        refused = refused | _any_of(typed.beyond, split.offsets)
    valid = (split.verdicts == TAKEN) & ~refused
    type_ = cast.type if cast.nest is not Nest.DIMENSIONED else cast.type.field("elements").type
    buffers = [_bitmap(valid), pa.py_buffer(split.offsets)]
    return Typed(pa.Array.from_buffers(type_, len(valid), buffers, children=[typed.values]), refused)


def _array(text: pa.Array, cast: Cast) -> Typed:
    split = _split(text, Style.ARRAY, cast.delimiter)
    number = np.diff(split.dimension_offsets)
    lowers = np.append(split.dimensions[0], np.int32(1))
    elsewhere = (number > 1) | ((number == 1) & (lowers[split.dimension_offsets[:-1]] != 1))
    typed = _lists(split, elsewhere, cast)
    return _result(typed.values, typed.beyond if typed.beyond is not None else elsewhere)


def _dimensioned(text: pa.Array, cast: Cast) -> Typed:
    split = _split(text, Style.ARRAY, cast.delimiter)
    rows = len(text)
    typed = _lists(split, np.zeros(rows, bool), cast)
    refused = typed.beyond if typed.beyond is not None else np.zeros(rows, bool)
    kind = cast.type.field("dimensions").type
    bounds = pa.StructArray.from_arrays([pa.array(each) for each in split.dimensions], fields=list(kind.value_type))
    dimensions = pa.Array.from_buffers(kind, rows, [None, pa.py_buffer(split.dimension_offsets)], children=[bounds])
    elements = pa.Array.from_buffers(
        typed.values.type, rows, [None, pa.py_buffer(split.offsets)], children=[typed.values.values]
    )
    mask = pa.array((split.verdicts != TAKEN) | refused)
    return _result(pa.StructArray.from_arrays([elements, dimensions], fields=list(cast.type), mask=mask), refused)


def _vector(text: pa.Array, cast: Cast) -> Typed:
    return _plain_lists(text, cast, Style.VECTOR)


def _multirange(text: pa.Array, cast: Cast) -> Typed:
    return _plain_lists(text, cast, Style.MULTIRANGE)


def _plain_lists(text: pa.Array, cast: Cast, style: Style) -> Typed:
    typed = _lists(_split(text, style), np.zeros(len(text), bool), cast)
    return _result(typed.values, typed.beyond if typed.beyond is not None else np.zeros(len(text), bool))


_BOUND = r'(?:"(?P<{0}_quoted>[^"\\,()\[\]]+)"|(?P<{0}>[^"\\,()\[\] ]*))'
_RANGE: Final = (
    r"(?s)^(?:(?P<empty>empty)|(?P<first>[\[(])"
    + _BOUND.format("lower")
    + ","
    + _BOUND.format("upper")
    + r"(?P<last>[\])]))$"
)


def _range(text: pa.Array, cast: Cast) -> Typed:
    parts = pc.extract_regex(text, _RANGE)
    matched, given = np.asarray(parts.is_valid()), np.asarray(text.is_valid())
    refused = given & ~matched
    bounds = []
    for name in ("lower", "upper"):
        quoted, plain = parts.field(f"{name}_quoted"), parts.field(name)
        bound = pc.if_else(pc.equal(quoted, pa.scalar(b"", _BYTES)), plain, quoted)
        typed = cast_text(_nulled(bound, matched & ~_is(bound, b"")), cast.element or TEXT)
        if typed.beyond is not None:
            refused = refused | typed.beyond
        bounds.append(typed.values)
    flags = [_is(parts.field("first"), b"["), _is(parts.field("last"), b"]"), _is(parts.field("empty"), b"empty")]
    columns = [*bounds, *(pa.array(flag) for flag in flags)]
    mask = pa.array(~given | refused)
    return _result(pa.StructArray.from_arrays(columns, fields=list(cast.type), mask=mask), refused)


def _is(text: pa.Array, wanted: bytes) -> np.ndarray:
    return np.asarray(pc.fill_null(pc.equal(text, pa.scalar(wanted, _BYTES)), False))


def _nulled(text: pa.Array, keep: np.ndarray) -> pa.Array:
    return pc.if_else(pa.array(keep), text, pa.scalar(None, _BYTES))


@lru_cache(maxsize=16)
def _number_pattern(cast: Cast) -> str:
    parts = re.escape(cast.pattern).replace(r"\#", "#").split("#")
    fields = [f"(?P<{name}>[^,()<>{{}}\\[\\]]+)" for name in cast.names]
    return "^" + "".join(part + field for part, field in zip(parts, [*fields, ""], strict=True)) + "$"


def _numbers(text: pa.Array, cast: Cast) -> Typed:
    parts = pc.extract_regex(text, _number_pattern(cast))
    matched, given = np.asarray(parts.is_valid()), np.asarray(text.is_valid())
    refused = given & ~matched
    columns = []
    for name in cast.names:
        typed = cast_text(_nulled(parts.field(name), matched), cast.element or TEXT)
        if typed.beyond is not None:
            refused = refused | typed.beyond
        columns.append(typed.values.fill_null(0.0))
    mask = pa.array(~given | refused)
    return _result(pa.StructArray.from_arrays(columns, fields=list(cast.type), mask=mask), refused)


_POLYGON, _PATH = r"(?s)^\(.*\)$", r"(?s)^(\(.*\)|\[.*\])$"


def _points(text: pa.Array, type_: pa.DataType, cast: Cast, pattern: str) -> tuple[pa.Array, np.ndarray]:
    """`((0,0),(1,1))`, read as lists are whose elements have brackets of their own; and what is no such text."""
    shaped = np.asarray(pc.fill_null(pc.match_substring_regex(text, pattern), False))
    braced = pc.replace_substring_regex(text, r"(?s)^[(\[](.*)[)\]]$", r"{\1}")
    points = Cast(type_, nest=Nest.POLYGON, element=cast.element)
    typed = _plain_lists(_nulled(braced, shaped), points, Style.MULTIRANGE)
    refused = np.asarray(text.is_valid()) & ~shaped
    return typed.values, refused if typed.beyond is None else refused | typed.beyond


def _polygon(text: pa.Array, cast: Cast) -> Typed:
    return _result(*_points(text, cast.type, cast, _POLYGON))


def _path(text: pa.Array, cast: Cast) -> Typed:
    points, refused = _points(text, cast.type.field("points").type, cast, _PATH)
    closed = np.asarray(pc.fill_null(pc.starts_with(text, "("), False))
    mask = pa.array(np.asarray(text.is_null()) | refused)
    return _result(pa.StructArray.from_arrays([pa.array(closed), points], fields=list(cast.type), mask=mask), refused)


def _hstore(text: pa.Array, cast: Cast) -> Typed:
    data, rows = _data(text), len(text)
    most = int(np.count_nonzero(data == ord(">")))
    keys, values = _children(most, len(data)), _children(most, len(data))
    offsets, verdicts = np.empty(rows + 1, np.int64), np.empty(rows, np.uint8)
    count = split_hstore(_source(text), keys, values, offsets, verdicts)
    typed = [cast_text(_child_text(children, count), cast.element or TEXT) for children in (keys, values)]
    refused = verdicts == REFUSED
    for each in typed:
        if each.beyond is not None:
            refused |= _any_of(each.beyond, offsets)
    entries = pa.StructArray.from_arrays([each.values for each in typed], fields=list(cast.type.value_type))
    buffers = [_bitmap((verdicts == TAKEN) & ~refused), pa.py_buffer(offsets)]
    return _result(pa.Array.from_buffers(cast.type, rows, buffers, children=[entries]), refused)


_NESTS: Final[dict[Nest, Callable[[pa.Array, Cast], Typed]]] = {
    Nest.ARRAY: _array,
    Nest.DIMENSIONED: _dimensioned,
    Nest.VECTOR: _vector,
    Nest.RANGE: _range,
    Nest.MULTIRANGE: _multirange,
    Nest.HSTORE: _hstore,
    Nest.NUMBERS: _numbers,
    Nest.POLYGON: _polygon,
    Nest.PATH: _path,
}
