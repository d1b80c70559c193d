"""The raw frame: one record of the raw topic, self-contained, so that any frame decodes alone and years later.

Layout, byte by byte: docs/reference/frame.md. All integers are big-endian. A frame is
header (fixed part, then two names) | schema section | body | padding | CRC32C of everything before it.
A decoder either returns a whole frame or raises one DecodeError; nothing partial escapes.
"""

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum

from crc32c import crc32c

from tidegate.contracts.generation import Generation
from tidegate.errors import DecodeError
from tidegate.lsn import Lsn
from tidegate.position import Position

MAGIC = b"TGFR"
VERSION = 1
NO_OFFSET = 2**64 - 1
"""`epoch_offset` of an epoch frame: it can't know its own offset before the broker has given it one."""

_FIXED = struct.Struct(">4sBBHIIIIQ16sQQQQQQQqIIIIIQqQQI16s")
_PART_AT = 120
_OPEN_TRANSACTION = 1
"""The only flag of version 1: the frame begins inside a transaction."""
_CRC = struct.Struct(">I")
_SCHEMA_ENTRY = struct.Struct(">BI")
BODY_ENTRY = struct.Struct(">IQ")
"""Before each message of a `wal` body: its length, and the WAL start of its XLogData envelope."""


class FrameKind(IntEnum):
    WAL = 1
    SNAPSHOT = 2
    EPOCH = 3
    MARK = 4
    # 5 and 6 are kept for streamed and prepared transactions.


class SchemaRole(IntEnum):
    CURRENT = 0
    PREVIOUS = 1
    """The shape before a SCHEMA_CHANGE mark; never needed to decode a row."""


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """The transaction that was open when the frame began, so that a frame can start in its middle."""

    xid: int
    commit_lsn: Lsn
    commit_time: int
    """Microseconds since 2000-01-01 UTC, as PostgreSQL sends it."""
    next_ordinal: int


@dataclass(frozen=True, slots=True)
class SchemaEntry:
    role: SchemaRole
    message: bytes
    """A Relation or Type message as received."""


@dataclass(frozen=True, slots=True)
class FrameHeader:
    kind: FrameKind
    generation: Generation
    epoch: int
    epoch_nonce: bytes
    epoch_offset: int
    """Raw offset of this epoch's own epoch frame, so that the chain of epochs can be walked from any frame."""
    seq: int
    first: Position
    """Position of the first change or COMMIT inside; where there is none, equal to `last`."""
    last: Position
    """Stream position after this frame. Parts before the final one carry the position before their change."""
    safe_lsn: Lsn
    """End LSN of the last transaction complete in or before this frame, or a keepalive's under the flush gate."""
    created: int
    """Unix microseconds at which the frame was closed."""
    messages: int = 0
    changes: int = 0
    part: int = 0
    parts: int = 0
    """0 of 0 for a whole frame; else 1..parts of one message larger than the frame limit."""
    open_transaction: OpenTransaction | None = None

    def is_in_step(self, offset: int) -> bool:
        """At this raw offset, no frame of its epoch is missing before it, for all one can tell without having seen
        them: a writer is alone and numbers without a gap, so a hole leaves its offsets behind its seqs."""
        return offset - self.epoch_offset == self.seq


@dataclass(frozen=True, slots=True)
class Frame:
    header: FrameHeader
    schema: tuple[SchemaEntry, ...]
    body: bytes


def encode_frame(
    header: FrameHeader, schema: Iterable[SchemaEntry] = (), body: Iterable[bytes] = (), *, min_bytes: int = 0
) -> bytes:
    """`body` in pieces, of which nothing but the frame is made; zero padding up to `min_bytes` makes a tick."""
    generation = header.generation
    names = b"".join(_short_text(name) for name in (generation.database, generation.slot))
    schema_section = b"".join(_SCHEMA_ENTRY.pack(e.role, len(e.message)) + e.message for e in schema)
    pieces = tuple(body)
    body_bytes = sum(map(len, pieces))
    header_bytes = _FIXED.size + len(names)
    unpadded = header_bytes + len(schema_section) + body_bytes + _CRC.size
    padding = max(0, min_bytes - unpadded)
    transaction = header.open_transaction or _NO_TRANSACTION
    fixed = _FIXED.pack(
        MAGIC,
        VERSION,
        header.kind,
        _OPEN_TRANSACTION if header.open_transaction else 0,
        header_bytes,
        len(schema_section),
        body_bytes,
        padding,
        header.epoch,
        header.epoch_nonce,
        header.epoch_offset,
        header.seq,
        *header.first,
        *header.last,
        header.safe_lsn,
        header.created,
        header.messages,
        header.changes,
        header.part,
        header.parts,
        transaction.xid,
        transaction.commit_lsn,
        transaction.commit_time,
        transaction.next_ordinal,
        generation.system_identifier,
        generation.timeline,
        generation.nonce,
    )
    covered = (fixed, names, schema_section, *pieces, bytes(padding))
    crc = 0
    for piece in covered:
        crc = crc32c(piece, crc)
    return b"".join((*covered, _CRC.pack(crc)))


def decode_frame(data: bytes) -> Frame:
    header, sizes = _decode_header(data)
    _check_crc(data)
    schema_end = sizes.header + sizes.schema
    schema = tuple(_schema_entries(data, sizes.header, schema_end))
    return Frame(header, schema, data[schema_end : schema_end + sizes.body])


def decode_header(data: bytes) -> FrameHeader:
    """The header alone, CRC verified: enough to find the tail or to step over a frame."""
    header, _ = _decode_header(data)
    _check_crc(data)
    return header


def body_messages(frame: Frame) -> Iterator[tuple[Lsn, bytes]]:
    """The messages of a whole (or re-joined) `wal` frame with the LSNs of their envelopes."""
    body, at = frame.body, 0
    while at < len(body):
        if at + BODY_ENTRY.size > len(body):
            raise DecodeError("the frame's body ends inside an entry", offset=at, code="FRAME_BODY_TRUNCATED")
        length, lsn = BODY_ENTRY.unpack_from(body, at)
        at += BODY_ENTRY.size
        if at + length > len(body):
            raise DecodeError("a message is longer than the frame's body", offset=at, code="FRAME_BODY_TRUNCATED")
        yield Lsn(lsn), body[at : at + length]
        at += length


@dataclass(frozen=True, slots=True)
class _Sizes:
    header: int
    schema: int
    body: int


_NO_TRANSACTION = OpenTransaction(0, Lsn(0), 0, 0)


def _short_text(text: str) -> bytes:
    encoded = text.encode()
    return bytes((len(encoded),)) + encoded


def _check_crc(data: bytes) -> None:
    (expected,) = _CRC.unpack_from(data, len(data) - _CRC.size)
    if crc32c(memoryview(data)[: -_CRC.size]) != expected:
        raise DecodeError("the frame's checksum does not fit its bytes", offset=len(data) - 4, code="FRAME_CRC")


def _decode_header(data: bytes) -> tuple[FrameHeader, _Sizes]:
    if len(data) < _FIXED.size + 2 + _CRC.size:
        raise DecodeError("a frame is longer than this", offset=len(data), code="FRAME_TRUNCATED")
    if data[:4] != MAGIC:
        raise DecodeError("these bytes are not a frame", code="FRAME_MAGIC")
    if not 1 <= data[4] <= VERSION:
        raise DecodeError(
            f"frame format version {data[4]} is not known here",
            offset=4,
            code="FRAME_VERSION",
            remedy="Update this service to at least the version of the reader that wrote the frame.",
        )
    fields = _FIXED.unpack_from(data)
    sizes = _Sizes(*fields[4:7])
    padding = fields[7]
    if sizes.header + sizes.schema + sizes.body + padding + _CRC.size != len(data):
        raise DecodeError("the frame's sections do not add up to its length", offset=8, code="FRAME_TRUNCATED")
    return _header_of(data, fields, sizes), sizes


def _header_of(data: bytes, fields: tuple[int, ...], sizes: _Sizes) -> FrameHeader:
    database, at = _read_short_text(data, _FIXED.size, sizes.header)
    slot, at = _read_short_text(data, at, sizes.header)
    if at != sizes.header:
        raise DecodeError("the frame's header has bytes left over", offset=at, code="FRAME_HEADER")
    try:
        kind = FrameKind(fields[2])
    except ValueError:
        raise DecodeError(f"frame kind {fields[2]} is not known", offset=5, code="FRAME_KIND") from None
    if fields[3] & ~_OPEN_TRANSACTION:
        raise DecodeError(f"frame flags {fields[3]:#x} are not known", offset=6, code="FRAME_FLAGS")
    part, parts = fields[20:22]
    if not min(parts, 1) <= part <= parts:
        raise DecodeError(f"part {part} of {parts} does not exist", offset=_PART_AT, code="FRAME_PARTS")
    return FrameHeader(
        kind=kind,
        generation=Generation(fields[26], fields[27], database, slot, fields[28]),  # type: ignore[arg-type]
        epoch=fields[8],
        epoch_nonce=fields[9],  # type: ignore[arg-type]
        epoch_offset=fields[10],
        seq=fields[11],
        first=Position(Lsn(fields[12]), fields[13]),
        last=Position(Lsn(fields[14]), fields[15]),
        safe_lsn=Lsn(fields[16]),
        created=fields[17],
        messages=fields[18],
        changes=fields[19],
        part=part,
        parts=parts,
        open_transaction=OpenTransaction(fields[22], Lsn(fields[23]), fields[24], fields[25])
        if fields[3] & _OPEN_TRANSACTION
        else None,
    )


def _read_short_text(data: bytes, at: int, end: int) -> tuple[str, int]:
    if at >= end or at + 1 + data[at] > end:
        raise DecodeError("a name reaches beyond the frame's header", offset=at, code="FRAME_HEADER")
    stop = at + 1 + data[at]
    try:
        return data[at + 1 : stop].decode(), stop
    except UnicodeDecodeError:
        raise DecodeError("a name in the frame's header is not UTF-8", offset=at, code="FRAME_HEADER") from None


def _schema_entries(data: bytes, at: int, end: int) -> Iterator[SchemaEntry]:
    while at < end:
        if at + _SCHEMA_ENTRY.size > end:
            raise DecodeError("the schema section ends inside an entry", offset=at, code="FRAME_SCHEMA")
        role, length = _SCHEMA_ENTRY.unpack_from(data, at)
        at += _SCHEMA_ENTRY.size
        if at + length > end or role not in (SchemaRole.CURRENT, SchemaRole.PREVIOUS):
            raise DecodeError("a schema entry is malformed", offset=at, code="FRAME_SCHEMA")
        yield SchemaEntry(SchemaRole(role), data[at : at + length])
        at += length
