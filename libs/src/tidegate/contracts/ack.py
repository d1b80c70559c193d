"""The ack: what one sink has made durable. It only grows within a generation, and only it moves the gate.

LSNs and ordinals are written with a fixed width, so that the comparing script in Redis, whose numbers are doubles,
compares them as text without losing a bit.
"""

from dataclasses import dataclass

from tidegate.contracts.document import build
from tidegate.contracts.fixed_width import decode_fixed_lsn, decode_position, encode_fixed_lsn, encode_position
from tidegate.contracts.missed import NONE, Missed, missed_of
from tidegate.contracts.refused_shape import RefusedShape, members_of, refused_shapes
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
    config_epoch: str = ""
    """Of the settings under which the last of it was delivered; empty where a writer did not say."""
    refused: tuple[RefusedShape, ...] = ()
    """As in the cursor, for which the ack stands where that went with its raw topic."""
    missed: Missed = NONE
    """Of `topic_id`."""

    def encode(self) -> bytes:
        return seal(
            {
                **members_of(self.refused),
                **self.missed.members,
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
                "refused": refused_shapes(document),
                "missed": missed_of(document),
            },
        )
    except (KeyError, ValueError):
        raise DecodeError("this ack lacks what an ack must say", code="ACK_MALFORMED") from None
