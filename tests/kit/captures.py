"""What real servers sent, kept as files: tests/golden/pgoutput. Made by tools/capture_pgoutput.py, read by tests.

A capture is the CopyData payloads of one session, each behind its length: `<major>-v<protocol>.xz`, or `…-binary.xz`
with the option binary. `<major>.test_decoding.xz` is what the other decoder says of the same WAL.
"""

import lzma
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tidegate.pgoutput import XLogData, decode_envelope, decode_message
from tidegate.pgoutput.messages import Message
from tidegate.pgoutput.transactions import Transactions
from tidegate.position import Position

FOLDER = Path(__file__).parents[1] / "golden" / "pgoutput"
_LENGTH = struct.Struct(">I")


@dataclass(frozen=True, slots=True)
class Capture:
    path: Path

    @property
    def major(self) -> int:
        return int(self.path.name[:2])

    @property
    def protocol(self) -> int:
        return int(self.path.name[4])

    @property
    def is_parallel(self) -> bool:
        return self.protocol == 4

    def __str__(self) -> str:
        return self.path.name.removesuffix(".xz")


@dataclass(frozen=True, slots=True)
class Sent:
    """A message with what its decoder has to know."""

    raw: bytes
    in_stream: bool
    message: Message
    position: Position | None
    aborted: frozenset[int] = frozenset()
    """Of the commit of a streamed transaction: subtransactions that are void."""


def captures() -> list[Capture]:
    return [Capture(path) for path in sorted(FOLDER.glob("*-v*.xz"))]


def payloads(path: Path) -> Iterator[bytes]:
    whole, at = lzma.decompress(path.read_bytes()), 0
    while at < len(whole):
        (length,) = _LENGTH.unpack_from(whole, at)
        yield whole[at + 4 : at + 4 + length]
        at += 4 + length


@cache
def sent(capture: Capture) -> tuple[Sent, ...]:
    transactions, found = Transactions(), []
    for payload in payloads(capture.path):
        envelope = decode_envelope(payload)
        if isinstance(envelope, XLogData):
            in_stream = transactions.in_stream
            message = decode_message(envelope.data, in_stream=in_stream, parallel=capture.is_parallel)
            aborted = transactions.aborted(getattr(message, "xid", None) or 0)
            found.append(Sent(envelope.data, in_stream, message, transactions.place(message), aborted))
    return tuple(found)


def other_decoder(major: int) -> list[str]:
    return lzma.decompress((FOLDER / f"{major}.test_decoding.xz").read_bytes()).decode().split("\0")


def save(path: Path, parts: Sequence[bytes]) -> None:
    whole = b"".join(_LENGTH.pack(len(part)) + part for part in parts)
    path.write_bytes(lzma.compress(whole, preset=9 | lzma.PRESET_EXTREME))
