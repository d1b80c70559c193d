"""The ack: what one sink has made durable. It only grows within a generation, and only it moves the gate.

LSNs and ordinals are written with a fixed width, so that the comparing script in Redis, whose numbers are doubles,
compares them as text without losing a bit.
"""

from dataclasses import dataclass

from tidegate.contracts.sealed import seal, unseal
from tidegate.errors import DecodeError
from tidegate.lsn import Lsn
from tidegate.position import Position


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

    def encode(self) -> bytes:
        return seal(
            {
                "sink": self.sink,
                "generation": self.generation,
                "epoch": self.epoch,
                "topic_id": self.topic_id,
                "offset": self.offset,
                "position": encode_position(self.position),
                "safe_lsn": f"{self.safe_lsn:016x}",
                "time": self.time,
            }
        )


def decode_ack(value: bytes, *, sink: str, generation: str) -> Ack:
    """Believed only when it is whole and about this sink in this generation."""
    document = unseal(value)
    if document.get("sink") != sink or document.get("generation") != generation:
        raise DecodeError("this ack belongs to another sink or generation", code="ACK_FOREIGN")
    try:
        return Ack(
            sink=sink,
            generation=generation,
            epoch=_integer(document["epoch"]),
            topic_id=str(document["topic_id"]),
            offset=_integer(document["offset"]),
            position=decode_position(str(document["position"])),
            safe_lsn=Lsn(int(str(document["safe_lsn"]), 16)),
            time=_integer(document["time"]),
        )
    except (KeyError, ValueError):
        raise DecodeError("this ack lacks what an ack must say", code="ACK_MALFORMED") from None


def encode_position(position: Position) -> str:
    return f"{position.commit_lsn:016x}:{position.ordinal:016x}"


def decode_position(text: str) -> Position:
    commit_lsn, ordinal = text.split(":")
    return Position(Lsn(int(commit_lsn, 16)), int(ordinal, 16))


def _integer(value: object) -> int:
    if not isinstance(value, int):
        raise ValueError("not an integer")
    return value
