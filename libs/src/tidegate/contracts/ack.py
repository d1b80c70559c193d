"""The ack: what one sink has made durable. It only grows within a generation, and only it moves the gate.

LSNs and ordinals are written with a fixed width, so that the comparing script in Redis, whose numbers are doubles,
compares them as text without losing a bit.
"""

import re
from dataclasses import dataclass

from tidegate.contracts.document import build
from tidegate.contracts.sealed import seal, unseal
from tidegate.errors import DecodeError
from tidegate.lsn import Lsn
from tidegate.position import Position

# Only these widths compare as text as the numbers do.
_LSN = re.compile("[0-9a-f]{16}", re.ASCII)
_POSITION = re.compile("([0-9a-f]{16}):([0-9a-f]{16})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Ack:
    sink: str
    generation: str
    epoch: int
    topic_id: str
    offset: int
    """Raw offset of the last frame that is durable in the sink; means nothing without `topic_id`."""
    position: Position
    safe_lsn: Lsn
    time: int
    """Unix microseconds."""
    config_epoch: str = ""
    """Of the settings under which the last of it was delivered; empty where a writer did not say."""

    def encode(self) -> bytes:
        return seal(
            {
                "sink": self.sink,
                "generation": self.generation,
                "epoch": self.epoch,
                "topic_id": self.topic_id,
                "offset": self.offset,
                "position": encode_position(self.position),
                "safe_lsn": encode_fixed_lsn(self.safe_lsn),
                "time": self.time,
                "config_epoch": self.config_epoch,
            }
        )


def decode_ack(value: bytes, *, sink: str, generation: str) -> Ack:
    """Believed only when it is whole and about this sink in this generation."""
    document = unseal(value)
    if document.get("sink") != sink or document.get("generation") != generation:
        raise DecodeError("this ack belongs to another sink or generation", code="ACK_FOREIGN")
    try:
        return build(
            Ack,
            document
            | {
                "position": decode_position(document["position"]),
                "safe_lsn": decode_fixed_lsn(document["safe_lsn"]),
            },
        )
    except (KeyError, ValueError):
        raise DecodeError("this ack lacks what an ack must say", code="ACK_MALFORMED") from None


def encode_position(position: Position) -> str:
    return f"{position.commit_lsn:016x}:{position.ordinal:016x}"


def decode_position(text: object) -> Position:
    match = _POSITION.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise ValueError("not a position")
    return Position(Lsn(int(match[1], 16)), int(match[2], 16))


def encode_fixed_lsn(lsn: Lsn) -> str:
    return f"{lsn:016x}"


def decode_fixed_lsn(text: object) -> Lsn:
    if not isinstance(text, str) or _LSN.fullmatch(text) is None:
        raise ValueError("not an LSN")
    return Lsn(int(text, 16))
