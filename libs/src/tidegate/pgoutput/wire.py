"""Bytes of the replication link: a cursor that never reads past its end, and the envelopes inside CopyData.

Invariant: nothing is sliced or allocated before its length has been checked against what is there.
(PostgreSQL manual, "Streaming Replication Protocol" and "Logical Replication Message Formats".)
"""

import struct
from dataclasses import dataclass
from typing import NoReturn

from tidegate.errors import DecodeError
from tidegate.lsn import Lsn

I16 = struct.Struct(">h")
I32 = struct.Struct(">i")
U32 = struct.Struct(">I")
I64 = struct.Struct(">q")
U64 = struct.Struct(">Q")

_U32_U8 = struct.Struct(">IB")
_XLOG_DATA = struct.Struct(">cQQq")
_KEEPALIVE = struct.Struct(">cQqB")
_STATUS = struct.Struct(">cQQQqB")


class Cursor:
    """Reads one message from front to back; `finish` insists that nothing is left."""

    __slots__ = ("data", "position")

    def __init__(self, data: bytes, position: int = 0) -> None:
        self.data = data
        self.position = position

    @property
    def remaining(self) -> int:
        return len(self.data) - self.position

    def fail(self, reason: str, *, code: str = "DECODE_FAILED") -> NoReturn:
        raise DecodeError(reason, offset=self.position, code=code)

    def _number(self, layout: struct.Struct) -> int:
        try:
            (value,) = layout.unpack_from(self.data, self.position)
        except struct.error:
            self._cut(layout.size)
        self.position += layout.size
        number: int = value
        return number

    def _cut(self, wanted: int) -> NoReturn:
        self.fail(f"{wanted} bytes wanted, {self.remaining} are left", code="DECODE_CUT_SHORT")

    def u8(self) -> int:
        if self.position >= len(self.data):
            self._cut(1)
        value = self.data[self.position]
        self.position += 1
        return value

    def i16(self) -> int:
        return self._number(I16)

    def i32(self) -> int:
        return self._number(I32)

    def u32(self) -> int:
        return self._number(U32)

    def u32_u8(self) -> tuple[int, int]:
        """As every change of a row begins: one reading costs half of two."""
        try:
            numbers: tuple[int, int] = _U32_U8.unpack_from(self.data, self.position)
        except struct.error:
            self._cut(_U32_U8.size)
        self.position += _U32_U8.size
        return numbers

    def i64(self) -> int:
        return self._number(I64)

    def lsn(self) -> Lsn:
        return Lsn(self._number(U64))

    def count(self, layout_size: int, number: int, of: str) -> int:
        """A count that the rest of the message can hold, `layout_size` bytes each at least."""
        if number < 0:
            self.fail(f"a negative number of {of}")
        if number * layout_size > self.remaining:
            self.fail(f"{number} {of} announced, {self.remaining} bytes are left", code="DECODE_CUT_SHORT")
        return number

    def take(self, length: int) -> bytes:
        if length < 0:
            self.fail("a negative length")
        if length > self.remaining:
            self._cut(length)
        start = self.position
        self.position += length
        return self.data[start : self.position]

    def text(self) -> str:
        """A name up to its NUL. Names are UTF-8 because the session pins client_encoding."""
        end = self.data.find(b"\0", self.position)
        if end < 0:
            self.fail("a name without its final NUL", code="DECODE_CUT_SHORT")
        raw = self.data[self.position : end]
        try:
            value = raw.decode()
        except UnicodeDecodeError:
            # No `from`: the cause would carry the bytes of the name into a log.
            raise DecodeError("a name that is not UTF-8", offset=self.position, code="DECODE_NAME_ENCODING") from None
        self.position = end + 1
        return value

    def finish(self) -> None:
        if self.remaining:
            raise DecodeError(
                f"{self.remaining} bytes behind the end of the message", offset=self.position, code="DECODE_TRAILING"
            )


@dataclass(frozen=True, slots=True)
class XLogData:
    """`w`: one pgoutput message. start and end are equal, and both 0/0 for Relation, Type and a Begin before Origin."""

    start: Lsn
    end: Lsn
    clock: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Keepalive:
    """`k`: how far the server has decoded. It runs backwards after a start, so take a monotone maximum."""

    end: Lsn
    clock: int
    reply_requested: bool


def decode_envelope(data: bytes) -> XLogData | Keepalive:
    tag = data[:1]
    if tag == b"w":
        if len(data) < _XLOG_DATA.size:
            raise DecodeError("an XLogData envelope cut short", offset=len(data), code="DECODE_CUT_SHORT")
        _, start, end, clock = _XLOG_DATA.unpack_from(data)
        return XLogData(Lsn(start), Lsn(end), clock, data[_XLOG_DATA.size :])
    if tag == b"k":
        if len(data) != _KEEPALIVE.size:
            raise DecodeError("a keepalive of the wrong length", offset=len(data), code="DECODE_CUT_SHORT")
        _, end, clock, reply = _KEEPALIVE.unpack(data)
        if reply > 1:
            raise DecodeError("a reply flag that is neither 0 nor 1", offset=_KEEPALIVE.size - 1)
        return Keepalive(Lsn(end), clock, reply == 1)
    raise DecodeError("an unknown envelope", code="DECODE_UNKNOWN_ENVELOPE")


def encode_envelope(envelope: XLogData | Keepalive) -> bytes:
    """What a server would send; for simulators and tests."""
    if isinstance(envelope, XLogData):
        return _XLOG_DATA.pack(b"w", envelope.start, envelope.end, envelope.clock) + envelope.data
    return _KEEPALIVE.pack(b"k", envelope.end, envelope.clock, envelope.reply_requested)


def encode_status(*, write: Lsn, flush: Lsn, apply: Lsn, clock: int, reply_requested: bool = False) -> bytes:
    """`r`: what we have. `flush` releases WAL at the server, so only what an ack covers belongs there."""
    return _STATUS.pack(b"r", write, flush, apply, clock, reply_requested)
