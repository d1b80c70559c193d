"""The body of a `snapshot` frame: rows that were there before, as COPY sent them, and what tells if they still count.

Layout, byte by byte: docs/reference/frame.md; why it is so: docs/decisions/0070. A body is head | rows; the schema
section holds the one relation the rows are of. Rows are lines of COPY's text format, whole, each ended by one LF; their
values are then the text that pgoutput sends. One line larger than a frame makes a frame in parts, as in `wal` frames.

Invariant: a row is named by (snapshot, relation, reading, row number), and a reading never begins anew under its
number, so the same name is the same row for ever.
"""

import hashlib
import struct
from dataclasses import dataclass
from typing import NamedTuple

from tidegate.contracts.frame import NO_OFFSET
from tidegate.errors import DecodeError
from tidegate.events import EventIds
from tidegate.lsn import Lsn
from tidegate.position import BEGINNING, Position

HEAD = struct.Struct(">B16sIQQIQQQq")
SNAPSHOT_ID_BYTES = 16
_LAST = 1
"""The only flag: the reading ends with this frame."""
_NAMED = struct.Struct(">16sIQ")
_LF = b"\n"


@dataclass(frozen=True, slots=True)
class SnapshotHead:
    snapshot: bytes
    relation_id: int
    reading: int
    """One reading of one range of the table; a range that is read again is another reading."""
    first_row: int
    """Number of the first row here within its reading, from 0."""
    rows: int
    read_at: int
    """When the rows were seen, by the source's clock: microseconds since 2000-01-01 UTC. Their commit time."""
    low: Position = BEGINNING
    """Changes above it may be newer than the rows; those at or below it are contained in them."""
    low_offset: int = NO_OFFSET
    """Every change above `low` stands at this raw offset or behind it. NO_OFFSET: rows precede every change of the
    stream, none is to be compared with."""
    is_last: bool = False

    @property
    def has_window(self) -> bool:
        return self.low_offset != NO_OFFSET

    def encode(self) -> bytes:
        return HEAD.pack(
            _LAST if self.is_last else 0,
            self.snapshot,
            self.relation_id,
            self.reading,
            self.first_row,
            self.rows,
            self.low_offset,
            *self.low,
            self.read_at,
        )

    @property
    def name(self) -> Lsn:
        """What stands for these rows' reading where a transaction has its commit LSN."""
        digest = hashlib.blake2b(_NAMED.pack(self.snapshot, self.relation_id, self.reading), digest_size=8).digest()
        return Lsn(int.from_bytes(digest) >> 1)

    def ids(self, system_identifier: int) -> EventIds:
        """Of these rows, by their number within the reading: `ids(…).id(first_row + n)`.

        The formula is that of a transaction: xid 0, which no transaction has, its commit LSN a hash of the name.
        """
        return EventIds(system_id=system_identifier, commit_lsn=self.name, xid=0, commit_time=self.read_at)


class SnapshotRows(NamedTuple):
    head: SnapshotHead
    text: bytes
    """`head.rows` lines of COPY text."""


def reading_number(epoch: int, counted: int) -> int:
    """Never drawn twice, though nothing is remembered: epochs are numbered without repeating."""
    return epoch << 32 | counted


def decode_snapshot(body: bytes) -> SnapshotRows:
    """The body of a whole (or re-joined) snapshot frame."""
    if len(body) < HEAD.size:
        raise DecodeError("the body of a snapshot frame ends inside its head", offset=len(body), code="SNAPSHOT_HEAD")
    flags, snapshot, relation_id, reading, first_row, rows, low_offset, lsn, ordinal, read_at = HEAD.unpack_from(body)
    if flags & ~_LAST:
        raise DecodeError(f"snapshot flags {flags:#x} are not known", offset=0, code="SNAPSHOT_HEAD")
    text = body[HEAD.size :]
    if text.count(_LF) != rows or (text and not text.endswith(_LF)):
        raise DecodeError("the rows of a snapshot frame are not whole lines", offset=HEAD.size, code="SNAPSHOT_ROWS")
    low = Position(Lsn(lsn), ordinal)
    head = SnapshotHead(snapshot, relation_id, reading, first_row, rows, read_at, low, low_offset, bool(flags & _LAST))
    return SnapshotRows(head, text)
