"""Rows with other columns than the server sent: some left out, some named anew, some masked. The readable reference.

A relation is rewritten once, its rows after it; what comes out is pgoutput again, so that whoever decodes it needs to
know nothing of transforms. `tidegate.columns.rewrites` does the same to whole frames.

Invariant: the three states stay what they are: NULL is never masked, and what was not sent is not made up. Of a masked
value nothing is left, wherever it stands: in the new row, in the old one, in the key.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Final, TypeVar

from tidegate.pgoutput.messages import (
    UNCHANGED,
    Binary,
    Column,
    Delete,
    Insert,
    Relation,
    Row,
    Update,
    Value,
)

HASH_BYTES: Final = 32
TOKEN_BYTES: Final = 16
MAX_SALT_BYTES: Final = 64
"""The longest key of BLAKE2b; a longer salt is hashed to one first."""

RowChange = TypeVar("RowChange", Insert, Update, Delete)


class Writer(IntEnum):
    """What is written in place of a value. Numbers, for kernels."""

    DROP = -1
    COPY = 0
    FIXED = 1
    HASH = 2
    TOKEN = 3


class Canon(IntEnum):
    """Which texts of a type are one value, so that equal values have equal masks."""

    AS_IT_IS = 0
    NUMERIC = 1
    FLOAT = 2
    UNPADDED = 3


@dataclass(frozen=True, slots=True)
class Written:
    """A column of the source, and what becomes of it."""

    column: Column
    """As it is delivered."""
    writer: Writer = Writer.COPY
    fixed: bytes = b""
    salt: bytes = b""
    canon: Canon = Canon.AS_IT_IS

    @property
    def is_dropped(self) -> bool:
        return self.writer is Writer.DROP


def as_it_is(relation: Relation) -> tuple[Written, ...]:
    return tuple(Written(column) for column in relation.columns)


def rewritten_relation(relation: Relation, columns: Sequence[Written]) -> Relation:
    return replace(relation, columns=tuple(each.column for each in columns if not each.is_dropped))


def rewritten_change(change: RowChange, columns: Sequence[Written]) -> RowChange:
    """Of a change whose rows are as wide as the relation."""
    if not isinstance(change, Insert):
        old = None if change.old is None else rewritten_row(change.old, columns)
        change = replace(change, old=old)
    return change if isinstance(change, Delete) else replace(change, new=rewritten_row(change.new, columns))


def rewritten_row(row: Row, columns: Sequence[Written]) -> Row:
    return tuple(_written(value, each) for value, each in zip(row, columns, strict=True) if not each.is_dropped)


def _written(value: Value, column: Written) -> Value:
    if value is None or value is UNCHANGED or column.writer is Writer.COPY:
        return value
    if column.writer is Writer.FIXED:
        return column.fixed
    text = canonical(value.data if isinstance(value, Binary) else value, column.canon)
    return hashed(text, column.salt) if column.writer is Writer.HASH else token(text, column.salt)


def canonical(text: bytes, canon: Canon) -> bytes:
    if canon is Canon.NUMERIC and b"." in text:
        return text.rstrip(b"0").rstrip(b".")
    if canon is Canon.UNPADDED:
        return text.rstrip(b" ")
    return b"0" if canon is Canon.FLOAT and text == b"-0" else text


def hashed(text: bytes, salt: bytes) -> bytes:
    """64 hexadecimal digits."""
    return hashlib.blake2b(text, key=key_of(salt), digest_size=HASH_BYTES).hexdigest().encode()


def token(text: bytes, salt: bytes) -> bytes:
    """A UUID of version 8 (RFC 9562): 122 bits of a hash."""
    digest = bytearray(hashlib.blake2b(text, key=key_of(salt), digest_size=TOKEN_BYTES).digest())
    digest[6] = digest[6] & 0x0F | 0x80
    digest[8] = digest[8] & 0x3F | 0x80
    digits = digest.hex()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:])).encode()


def key_of(salt: bytes) -> bytes:
    return salt if len(salt) <= MAX_SALT_BYTES else hashlib.blake2b(salt, digest_size=MAX_SALT_BYTES).digest()
