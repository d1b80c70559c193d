"""What every event has, whatever its encoding: an operation, an id that never changes, and its commit time as text.

Invariant: the same change has the same id and the same created_at on every replay, so nothing here asks a clock or
draws a random number. Layout of the id: docs/reference/event.md.
"""

import hashlib
import struct
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from tidegate.errors import DecodeError
from tidegate.lsn import Lsn

POSTGRES_EPOCH_UNIX_US: Final = 946_684_800_000_000
"""2000-01-01 00:00 UTC in Unix microseconds: where PostgreSQL counts from."""

_POSTGRES_EPOCH = datetime(2000, 1, 1)
_LATEST_MS = 2**48 - 1
_SEED = struct.Struct(">QQqI")

SNAPSHOT_ORDINALS: Final = 2**40
"""Where the ordinals of rows of a snapshot begin: behind every change of the transaction that they stand behind."""

# The 62 free low bits are a Weyl sequence from a hashed start: an odd step modulo 2**62 meets no number twice, so two
# events of one transaction never share an id, and two transactions only if their starts lie side by side by chance.
# Adding and multiplying is also all that a compiled kernel has to do for a row.
_MASK = 2**62 - 1
_STEP = 0x1E3779B97F4A7C15
_SUB_SHIFT = 40
_VARIANT = 1 << 63


class Operation(StrEnum):
    INSERT = "INSERT"
    UPDATE = "UPDATE"
    DELETE = "DELETE"
    TRUNCATE = "TRUNCATE"
    SNAPSHOT = "SNAPSHOT"
    SNAPSHOT_STARTED = "SNAPSHOT_STARTED"
    SNAPSHOT_COMPLETED = "SNAPSHOT_COMPLETED"
    SCHEMA_CHANGE = "SCHEMA_CHANGE"
    MESSAGE = "MESSAGE"


class EventIds:
    """The ids of one transaction's events: what they share is hashed once, so an id costs one multiplication."""

    __slots__ = ("_prefix", "_seed")

    def __init__(self, *, system_id: int, commit_lsn: Lsn, xid: int, commit_time: int) -> None:
        seed = hashlib.blake2b(_SEED.pack(system_id, commit_lsn, commit_time, xid), digest_size=10).digest()
        milliseconds = min(max((commit_time + POSTGRES_EPOCH_UNIX_US) // 1000, 0), _LATEST_MS)
        time = f"{milliseconds:012x}"
        tag = int.from_bytes(seed[8:]) & 0xFFF
        self._prefix = f"{time[:8]}-{time[8:]}-7{tag:03x}-"
        self._seed = int.from_bytes(seed[:8])

    def id(self, ordinal: int, sub: int = 0) -> str:
        """`sub` tells the events apart that one change is split into, as a TRUNCATE of several tables is."""
        low = (self._seed + (ordinal + (sub << _SUB_SHIFT)) * _STEP) & _MASK
        digits = f"{low | _VARIANT:016x}"
        return f"{self._prefix}{digits[:4]}-{digits[4:]}"


def event_id(*, system_id: int, commit_lsn: Lsn, xid: int, commit_time: int, ordinal: int, sub: int = 0) -> str:
    return EventIds(system_id=system_id, commit_lsn=commit_lsn, xid=xid, commit_time=commit_time).id(ordinal, sub)


def format_time(microseconds: int) -> str:
    """A time of PostgreSQL's clock as RFC 3339 in UTC, always with six decimals."""
    try:
        moment = _POSTGRES_EPOCH + timedelta(microseconds=microseconds)
    except OverflowError:
        raise DecodeError("a commit time outside the years 1 to 9999", code="DECODE_TIME_RANGE") from None
    return moment.isoformat(timespec="microseconds") + "Z"
