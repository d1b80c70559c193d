"""How far snapshots are, for people and dashboards. Written by the reader every second while one runs.

Nothing is decided by it: progress that counts is in the snapshots topic. No value of a row is in here.
"""

import json
from dataclasses import asdict, dataclass
from enum import StrEnum

from tidegate.contracts.document import SHORT_BYTES, build, load
from tidegate.errors import DecodeError


class SnapshotKind(StrEnum):
    INITIAL = "initial"
    REQUESTED = "requested"
    RESNAPSHOT = "resnapshot"
    """Of all tables, because of a gap."""


class SnapshotState(StrEnum):
    WAITING = "waiting"
    RUNNING = "running"
    PAUSED = "paused"
    DONE = "done"
    CANCELLED = "cancelled"
    FAILED = "failed"

    @property
    def is_over(self) -> bool:
        return self in (SnapshotState.DONE, SnapshotState.CANCELLED, SnapshotState.FAILED)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Report:
    def encode(self) -> bytes:
        return json.dumps(asdict(self), separators=(",", ":"), sort_keys=True).encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotStatus(_Report):
    id: str
    """32 hexadecimal digits."""
    kind: SnapshotKind
    state: SnapshotState
    by: str
    requested: int
    """Unix microseconds, as all times here; 0 = not yet."""
    started: int = 0
    finished: int = 0
    time: int = 0
    """Of this report."""
    priority: int = 0
    tables: int = 0
    tables_done: int = 0
    rows: int = 0
    """Durable in the raw topic, as bytes are."""
    bytes: int = 0
    percent: float = 0.0
    """Of the tables' pages on disk."""
    rows_per_second: float = 0.0
    """Over the last seconds, as the next."""
    bytes_per_second: float = 0.0
    seconds_left: float | None = None
    transaction_seconds: float = 0.0
    """Age of the oldest transaction that reads for it: rows that it could see can't be vacuumed."""
    waits_for: str = ""
    """What has to happen before it can go on, in words; empty if nothing has to."""
    code: str = ""
    """Of a failure, as the next two."""
    message: str = ""
    remedy: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableStatus(_Report):
    schema: str
    table: str
    state: SnapshotState
    rows: int = 0
    bytes: int = 0
    estimated_rows: int = 0
    """By the server's statistics."""
    percent: float = 0.0
    rows_per_second: float = 0.0
    """Over the last seconds, as the next; of one that is being read."""
    bytes_per_second: float = 0.0
    seconds_left: float | None = None
    note: str = ""
    """What is special about how it is read; empty if nothing is."""


def decode_snapshot_status(value: bytes) -> SnapshotStatus:
    try:
        document = load(value, limit=SHORT_BYTES)
        kind, state = SnapshotKind(str(document["kind"])), SnapshotState(str(document["state"]))
        return build(SnapshotStatus, document | {"kind": kind, "state": state})
    except (ValueError, KeyError):
        raise DecodeError("this is not a snapshot's status", code="SNAPSHOT_STATUS_MALFORMED") from None


def decode_table_status(value: bytes) -> TableStatus:
    try:
        document = load(value, limit=SHORT_BYTES)
        return build(TableStatus, document | {"state": SnapshotState(str(document["state"]))})
    except (ValueError, KeyError):
        raise DecodeError("this is not a table's status", code="SNAPSHOT_STATUS_MALFORMED") from None
