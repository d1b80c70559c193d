"""Which Arrow type holds a PostgreSQL type's values without loss, and what makes the one from the text of the other.

    cast = cast_of(type_oid, typmod, types)      # once a column
    typed = cast_text(column, cast)              # typed.values, typed.beyond

Invariant: a type is chosen from what the relation says alone, never from values, and holds every value that it shows
exactly; a value that it can't hold is null there and true in `beyond`, and its text is still in the text column. What
has no lossless type stays text. Lists, texts and bytes have offsets of 64 bits. docs/reference/types.md lists all.
"""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Final

import numpy as np
import pyarrow as pa

from tidegate.columns.cast_kernels import Cell
from tidegate.columns.record_batches import BatchLayout
from tidegate.pgoutput.messages import Type
from tidegate.pgoutput.types import array_type, base_oid

_FINITE: Final = re.compile(rb"-?\d+(?:\.\d+)?(?:e[+-]?\d{1,3})?").fullmatch
_SIGNIFICANT: Final = re.compile(rb"[-0.]*[1-9]").match
_UNLIMITED: Final = -1
_TYPMOD_OFFSET: Final = 4  # VARHDRSZ (src/include/utils/numeric.h)
_MOST_DIGITS_128, _MOST_DIGITS_256 = 38, 76


class Nest(StrEnum):
    """What is built of other values."""

    ARRAY = "array"
    DIMENSIONED = "array with its dimensions"
    VECTOR = "vector"
    RANGE = "range"
    MULTIRANGE = "multirange"
    HSTORE = "hstore"
    NUMBERS = "numbers"
    POLYGON = "polygon"
    PATH = "path"


class Arrays(StrEnum):
    """PostgreSQL declares neither how many dimensions the arrays of a column have nor where they begin."""

    LISTS = "lists"
    """A list; arrays of several dimensions or with lower bounds other than 1 are beyond it."""
    DIMENSIONED = "dimensioned"
    """The elements in row-major order beside lower bound and length of each dimension: holds every array."""


@dataclass(frozen=True, slots=True)
class Cast:
    type: pa.DataType
    cell: Cell = Cell.TEXT
    low: int = 0
    high: int = 0
    precision: int = 0
    scale: int = 0
    nest: Nest | None = None
    element: "Cast | None" = None
    delimiter: bytes = b","
    names: tuple[str, ...] = ()
    pattern: str = ""
    """Of a fixed number of numbers: where they stand in the text."""

    @property
    def numbers(self) -> tuple[int, ...]:
        """A row of the kernel's table. What is nested goes through it as it is."""
        cell = self.cell if self.nest is None else Cell.BYTES
        return int(cell), self.low, self.high, self.precision, self.scale

    @property
    def flat_type(self) -> pa.DataType:
        return self.type if self.nest is None else pa.large_binary()


TEXT: Final = Cast(pa.large_string())


def _integer(type_: pa.DataType) -> Cast:
    bits = type_.bit_width
    low, high = (0, 2**bits - 1) if pa.types.is_unsigned_integer(type_) else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    return Cast(type_, Cell.INTEGER, low, high)


_OID, _FLOAT8 = _integer(pa.uint32()), Cast(pa.float64(), Cell.FLOAT)

_CASTS: Final[Mapping[int, Cast]] = {
    16: Cast(pa.bool_(), Cell.BOOL),
    17: Cast(pa.large_binary(), Cell.BYTEA),
    20: _integer(pa.int64()),
    21: _integer(pa.int16()),
    23: _integer(pa.int32()),
    26: _OID,
    28: _OID,  # xid
    29: _OID,  # cid
    700: Cast(pa.float32(), Cell.FLOAT),
    701: _FLOAT8,
    1082: Cast(pa.date32(), Cell.DATE),
    1083: Cast(pa.time64("us"), Cell.TIME),
    1114: Cast(pa.timestamp("us"), Cell.TIMESTAMP),
    1184: Cast(pa.timestamp("us", "UTC"), Cell.TIMESTAMPTZ),
    1186: Cast(pa.month_day_nano_interval(), Cell.INTERVAL),
    2950: Cast(pa.binary(16), Cell.UUID),
}

_NUMERIC: Final = 1700
_RANGES: Final = {3904: 23, 3926: 20, 3906: _NUMERIC, 3908: 1114, 3910: 1184, 3912: 1082}
_MULTIRANGES: Final = {4451: 3904, 4536: 3926, 4532: 3906, 4533: 3908, 4534: 3910, 4535: 3912}


def _numbers(names: str, pattern: str) -> Cast:
    fields = tuple(names.split())
    type_ = pa.struct([pa.field(name, pa.float64(), nullable=False) for name in fields])
    return Cast(type_, nest=Nest.NUMBERS, element=_FLOAT8, names=fields, pattern=pattern)


_POINT: Final = _numbers("x y", "(#,#)")
_POINTS: Final = pa.large_list(pa.field("item", _POINT.type, nullable=False))
_PATH: Final = pa.struct([pa.field("closed", pa.bool_(), nullable=False), pa.field("points", _POINTS, nullable=False)])
_GEOMETRY: Final[Mapping[int, Cast]] = {
    600: _POINT,
    601: _numbers("x1 y1 x2 y2", "[(#,#),(#,#)]"),
    602: Cast(_PATH, nest=Nest.PATH, element=_POINT),
    603: _numbers("x1 y1 x2 y2", "(#,#),(#,#)"),
    604: Cast(_POINTS, nest=Nest.POLYGON, element=_POINT),
    628: _numbers("a b c", "{#,#,#}"),
    718: _numbers("x y radius", "<(#,#),#>"),
}

_FLOAT4_LIST: Final = Cast(pa.large_list(pa.float32()), nest=Nest.VECTOR, element=_CASTS[700])
_ENTRY: Final = pa.struct([pa.field("key", pa.large_string(), nullable=False), pa.field("value", pa.large_string())])
EXTENSIONS: Final[Mapping[str, Cast]] = {
    "hstore": Cast(pa.large_list(pa.field("item", _ENTRY, nullable=False)), nest=Nest.HSTORE, element=TEXT),
    "vector": _FLOAT4_LIST,
    "halfvec": _FLOAT4_LIST,
}
"""By the type's name: an extension's types have other OIDs in every database."""


def cast_of(type_oid: int, typmod: int, types: Mapping[int, Type], arrays: Arrays = Arrays.LISTS) -> Cast:
    """What a column becomes, by its type, its modifier, and what the server has said of types that are not built in."""
    described = types.get(type_oid)
    if described is not None and described.schema != "pg_catalog":
        name = described.name
        if name.startswith("_") and name[1:] in EXTENSIONS:
            return array_of(EXTENSIONS[name[1:]], arrays)
        return EXTENSIONS.get(name, TEXT)
    oid = base_oid(type_oid, types)
    array = array_type(oid)
    if array is None:
        return _built_in(oid, typmod)
    return array_of(_built_in(array.element_oid, typmod), arrays, array.delimiter)


def _built_in(oid: int, typmod: int) -> Cast:
    if oid == _NUMERIC:
        return numeric(typmod)
    if oid in _RANGES:
        return _range(_built_in(_RANGES[oid], _UNLIMITED))
    if oid in _MULTIRANGES:
        element = _range(_built_in(_RANGES[_MULTIRANGES[oid]], _UNLIMITED))
        type_ = pa.large_list(pa.field("item", element.type, nullable=False))
        return Cast(type_, nest=Nest.MULTIRANGE, element=element)
    return _GEOMETRY.get(oid) or _CASTS.get(oid, TEXT)


@lru_cache(maxsize=4096)
def numeric(typmod: int) -> Cast:
    """By precision and scale. Without them it has up to 131,072 digits before the point: that stays text."""
    if typmod < _TYPMOD_OFFSET:
        return TEXT
    packed = typmod - _TYPMOD_OFFSET
    precision, scale = packed >> 16 & 0xFFFF, ((packed & 0x7FF) ^ 1024) - 1024
    # A negative scale rounds before the point, one above the precision leaves zeros behind it: both need more digits.
    digits, scale = (precision - scale, 0) if scale < 0 else (max(precision, scale), scale)
    if digits > _MOST_DIGITS_256:
        return TEXT
    make = pa.decimal128 if digits <= _MOST_DIGITS_128 else pa.decimal256
    return Cast(make(digits, scale), Cell.DECIMAL, precision=digits, scale=scale)


def array_of(element: Cast, arrays: Arrays, delimiter: bytes = b",") -> Cast:
    elements = pa.large_list(element.type)
    if arrays is Arrays.LISTS:
        return Cast(elements, nest=Nest.ARRAY, element=element, delimiter=delimiter)
    bounds = [pa.field("lower", pa.int32(), nullable=False), pa.field("length", pa.int32(), nullable=False)]
    dimensions = pa.large_list(pa.field("item", pa.struct(bounds), nullable=False))
    fields = [pa.field("elements", elements, nullable=False), pa.field("dimensions", dimensions, nullable=False)]
    return Cast(pa.struct(fields), nest=Nest.DIMENSIONED, element=element, delimiter=delimiter)


def _range(bound: Cast) -> Cast:
    flags = ("lower_inclusive", "upper_inclusive", "empty")
    fields = [pa.field("lower", bound.type), pa.field("upper", bound.type)]
    fields += [pa.field(flag, pa.bool_(), nullable=False) for flag in flags]
    return Cast(pa.struct(fields), nest=Nest.RANGE, element=bound)


def settle_floats(
    cast: Cast, text: Callable[[int], bytes], layout: BatchLayout, message: np.ndarray, column: int
) -> None:
    """Decides in the slow way what the kernel left open: marked is then what is beyond the type for certain."""
    octets = message.view(np.uint8)
    cells, valid = octets[layout.data_at(message, column) :], octets[layout.valid_at(message, column) :]
    marks = layout.marks(message)[column].view(np.uint8)
    size = cast.type.bit_width // 8
    settled = 0
    for row in np.flatnonzero(np.unpackbits(marks, bitorder="little")).tolist():
        number = exact_float(text(row), cast.type.bit_width)
        if number is not None:
            cells[row * size : (row + 1) * size] = np.frombuffer(number.to_bytes(size, "little", signed=True), np.uint8)
            valid[row >> 3] |= 1 << (row & 7)
            marks[row >> 3] &= ~(1 << (row & 7)) & 255
            settled += 1
    layout.subtract_nulls(message, column, settled)


def exact_float(text: bytes, bits: int) -> int | None:
    """The bits of the nearest float to any decimal text: what kernels leave undecided, in the slow and certain way."""
    if not _FINITE(text):
        return None
    number = pa.scalar(text.decode("ascii"), pa.string()).cast(pa.float64() if bits == 64 else pa.float32()).as_py()
    if math.isinf(number) or (number == 0 and _SIGNIFICANT(text)):
        return None  # PostgreSQL has no such value: out of range, it refuses it
    kind, same = (np.float64, np.int64) if bits == 64 else (np.float32, np.int32)
    return int(kind(number).view(same))
