"""Values that a sink must not see, replaced wherever they stand: row, old row, key, dead letters.

| how      | a value becomes                                        | the column's type | in a key |
| -------- | ------------------------------------------------------ | ----------------- | -------- |
| zero     | the type's zero: 0, false, '', 1970-01-01, {} …        | as it was, or text | refused |
| redact   | a fixed text                                           | text              | refused  |
| hash     | 64 hexadecimal digits, BLAKE2b-256 with the salt as key | text             | allowed  |
| tokenise | a UUID of version 8 from such a hash                   | uuid              | allowed  |

Invariant: equal values have equal hashes and tokens under one salt, so keys, joins and order by key hold.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from tidegate.config.transforms import MaskKind, MaskOptions
from tidegate.errors import ConfigError
from tidegate.pgoutput.messages import Column, Relation, Type
from tidegate.pgoutput.rewrite import Canon, Writer, Written, hashed, token
from tidegate.pgoutput.types import BUILT_IN, Kind, array_type, base_oid, kind_of
from tidegate_processor.transforms.base import Source, check_present, chosen, exactly, identifies

_SHORTEST_SALT = 16
_UNLIMITED = -1
_TEXT, _UUID = BUILT_IN["text"], BUILT_IN["uuid"]

_ZEROS: Final[Mapping[str, bytes]] = {
    **dict.fromkeys(("int2", "int4", "int8", "oid", "xid", "cid", "xid8", "float4", "float8", "numeric"), b"0"),
    **dict.fromkeys(("text", "varchar", "bpchar", "name", "xml", "tsvector", "varbit"), b""),
    **dict.fromkeys(("json", "jsonb"), b"{}"),
    "bool": b"f",
    "bytea": b"\\x",
    "date": b"1970-01-01",
    "time": b"00:00:00",
    "timetz": b"00:00:00+00",
    "timestamp": b"1970-01-01 00:00:00",
    "timestamptz": b"1970-01-01 00:00:00+00",
    "interval": b"00:00:00",
    "uuid": b"00000000-0000-0000-0000-000000000000",
    "inet": b"0.0.0.0",
    "cidr": b"0.0.0.0/32",
    "macaddr": b"00:00:00:00:00:00",
    "macaddr8": b"00:00:00:00:00:00:00:00",
    "pg_lsn": b"0/0",
}
_ZERO_OF: Final = {BUILT_IN[name]: zero for name, zero in _ZEROS.items()}
_EMPTY_ARRAY: Final = b"{}"

_CANONS: Final = {Kind.NUMERIC: Canon.NUMERIC, Kind.FLOAT: Canon.FLOAT}


class Mask:
    def __init__(self, options: MaskOptions) -> None:
        self._options = options
        self._salt = options.salt.reveal().encode() if options.salt is not None else b""
        if options.salt is not None and len(self._salt) < _SHORTEST_SALT:
            raise ConfigError(
                f"the salt {options.salt.reference} is shorter than {_SHORTEST_SALT} bytes",
                code="TRANSFORM_SALT_SHORT",
                remedy="Draw one, for example with `openssl rand -hex 32`; whoever can guess it can undo the mask.",
            )

    def columns(self, source: Source, columns: Sequence[Written]) -> Sequence[Written]:
        options = self._options
        is_exact = exactly(options.tables, source.relation)
        if is_exact is None:
            return columns
        masked = chosen(columns, options.columns)
        if source.is_strict:
            check_present(source.relation, columns, options.columns, options.missing, is_exact=is_exact)
            for place in sorted(masked):
                self._check(source.relation, columns[place])
        return [self._masked(each, source.types) if place in masked else each for place, each in enumerate(columns)]

    def _check(self, relation: Relation, column: Written) -> None:
        name = f"{column.column.name} of {relation.schema}.{relation.name}"
        is_constant = self._options.how in (MaskKind.ZERO, MaskKind.REDACT)
        if is_constant and identifies(relation, column):
            raise ConfigError(
                f"{name} is part of the key and can't become the same value in every row",
                code="TRANSFORM_KEY_MASKED",
                remedy="Use hash or tokenise for it: equal keys stay equal, and others stay apart.",
            )
        if not is_constant and column.writer in (Writer.HASH, Writer.TOKEN):
            raise ConfigError(
                f"{name} is hashed twice",
                code="TRANSFORM_MASKED_TWICE",
                remedy="Leave it to one of the two masks; remember those of the pipeline, which come first.",
            )

    def _masked(self, written: Written, types: Mapping[int, Type]) -> Written:
        how, column = self._options.how, written.column
        if how is MaskKind.ZERO:
            return _zero(written, types)
        if how is MaskKind.REDACT:
            return _fixed(_of_type(column, _TEXT), self._options.replacement.encode())
        type_oid, writer, make = (_TEXT, Writer.HASH, hashed) if how is MaskKind.HASH else (_UUID, Writer.TOKEN, token)
        if written.writer is Writer.FIXED:
            return _fixed(_of_type(column, type_oid), make(written.fixed, self._salt))
        canon = _canon(column, types)
        return replace(written, column=_of_type(column, type_oid), writer=writer, salt=self._salt, canon=canon)


def _zero(written: Written, types: Mapping[int, Type]) -> Written:
    column = written.column
    type_oid = base_oid(column.type_oid, types)
    zero = _EMPTY_ARRAY if array_type(type_oid) else _ZERO_OF.get(type_oid)
    if zero is None:  # an enum, a range, a composite: no text of its own is sure to be one of its values
        return _fixed(_of_type(column, _TEXT), b"")
    return _fixed(column, zero)


def _fixed(column: Column, value: bytes) -> Written:
    return Written(column, Writer.FIXED, value)


def _of_type(column: Column, type_oid: int) -> Column:
    return replace(column, type_oid=type_oid, typmod=_UNLIMITED)


def _canon(column: Column, types: Mapping[int, Type]) -> Canon:
    """As in keys (docs/reference/event.md): char of a length is padded alike, without one it is not."""
    kind = kind_of(base_oid(column.type_oid, types))
    if kind is Kind.BPCHAR and column.typmod == _UNLIMITED:
        return Canon.UNPADDED
    return _CANONS.get(kind, Canon.AS_IT_IS)
