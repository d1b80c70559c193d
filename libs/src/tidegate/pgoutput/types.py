"""PostgreSQL's built-in types by OID, as far as a decoder must tell them apart.

The OIDs are fixed for ever (src/include/catalog/pg_type.dat). A type that is not listed here (enum, composite, range,
geometric, extension …) has no better form than PostgreSQL's text: its kind is TEXT. A domain is what it is made of.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from tidegate.pgoutput.messages import Type


class Kind(StrEnum):
    BOOL = "bool"
    INTEGER = "integer"
    FLOAT = "float"
    NUMERIC = "numeric"
    BPCHAR = "bpchar"
    BYTEA = "bytea"
    JSON = "json"
    TIMESTAMP = "timestamp"
    TIMESTAMPTZ = "timestamptz"
    ARRAY = "array"
    TEXT = "text"


@dataclass(frozen=True, slots=True)
class ArrayType:
    element_oid: int
    delimiter: bytes = b","


_KINDS: Final = {
    16: Kind.BOOL,
    20: Kind.INTEGER,  # int8
    21: Kind.INTEGER,  # int2
    23: Kind.INTEGER,  # int4
    26: Kind.INTEGER,  # oid
    700: Kind.FLOAT,
    701: Kind.FLOAT,
    1700: Kind.NUMERIC,
    1042: Kind.BPCHAR,
    17: Kind.BYTEA,
    114: Kind.JSON,
    3802: Kind.JSON,  # jsonb
    1114: Kind.TIMESTAMP,
    1184: Kind.TIMESTAMPTZ,
}

BOX: Final = 603
"""The one built-in type whose arrays do not separate by comma: a box has commas in it."""

_ELEMENTS: Final = {
    1000: 16, 1001: 17, 1002: 18, 1003: 19, 1005: 21, 1006: 22, 1007: 23, 1008: 24, 1009: 25, 1010: 27, 1011: 28,
    1012: 29, 1013: 30, 1014: 1042, 1015: 1043, 1016: 20, 1017: 600, 1018: 601, 1019: 602, 1020: BOX, 1021: 700,
    1022: 701, 1027: 604, 1028: 26, 1034: 1033, 1040: 829, 1041: 869, 1115: 1114, 1182: 1082, 1183: 1083, 1185: 1184,
    1187: 1186, 1231: 1700, 1263: 2275, 1270: 1266, 1561: 1560, 1563: 1562, 143: 142, 199: 114, 271: 5069, 629: 628,
    651: 650, 719: 718, 775: 774, 791: 790, 2201: 1790, 2207: 2202, 2208: 2203, 2209: 2204, 2210: 2205, 2211: 2206,
    2949: 2970, 2951: 2950, 3221: 3220, 3643: 3614, 3644: 3642, 3645: 3615, 3735: 3734, 3770: 3769, 3807: 3802,
    3905: 3904, 3907: 3906, 3909: 3908, 3911: 3910, 3913: 3912, 3927: 3926, 4073: 4072, 4090: 4089, 4097: 4096,
    4192: 4191, 5039: 5038, 6150: 4451, 6151: 4532, 6152: 4533, 6153: 4534, 6155: 4535, 6157: 4536,
}  # fmt: skip

_ARRAYS: Final = {
    array_oid: ArrayType(element_oid, b";" if element_oid == BOX else b",")
    for array_oid, element_oid in _ELEMENTS.items()
}


BUILT_IN: Final[Mapping[str, int]] = {
    "bool": 16, "bytea": 17, "char": 18, "name": 19, "int8": 20, "int2": 21, "int4": 23, "text": 25, "oid": 26,
    "xid": 28, "cid": 29, "json": 114, "xml": 142, "point": 600, "lseg": 601, "path": 602, "box": BOX, "polygon": 604,
    "line": 628, "cidr": 650, "float4": 700, "float8": 701, "circle": 718, "macaddr8": 774, "money": 790,
    "macaddr": 829, "inet": 869, "bpchar": 1042, "varchar": 1043, "date": 1082, "time": 1083, "timestamp": 1114,
    "timestamptz": 1184, "interval": 1186, "timetz": 1266, "bit": 1560, "varbit": 1562, "numeric": 1700, "uuid": 2950,
    "pg_lsn": 3220, "tsvector": 3614, "tsquery": 3615, "jsonb": 3802, "int4range": 3904, "numrange": 3906,
    "tsrange": 3908, "tstzrange": 3910, "daterange": 3912, "int8range": 3926, "jsonpath": 4072,
    "int4multirange": 4451, "nummultirange": 4532, "tsmultirange": 4533, "tstzmultirange": 4534,
    "datemultirange": 4535, "int8multirange": 4536, "xid8": 5069,
}  # fmt: skip
"""OIDs by name, which is all that the server says of what a domain is made of."""

_ARRAY_OF: Final = {element_oid: array_oid for array_oid, element_oid in _ELEMENTS.items()}


def base_oid(type_oid: int, types: Mapping[int, Type]) -> int:
    """The built-in type beneath a domain: the server describes a domain's OID by the name of its base type."""
    described = types.get(type_oid)
    if described is None or described.schema != "pg_catalog":
        return type_oid
    if described.name.startswith("_"):
        return _ARRAY_OF.get(BUILT_IN.get(described.name[1:], 0), type_oid)
    return BUILT_IN.get(described.name, type_oid)


def kind_of(type_oid: int) -> Kind:
    return Kind.ARRAY if type_oid in _ARRAYS else _KINDS.get(type_oid, Kind.TEXT)


def array_type(type_oid: int) -> ArrayType | None:
    return _ARRAYS.get(type_oid)
