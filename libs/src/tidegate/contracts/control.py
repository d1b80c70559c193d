"""What the driver of a lane tells the stage that serves it, and which of several stages is the current one.

A stage whose incarnation is below the posted one has been superseded: it commits nothing more. A missing control value,
or one of an earlier incarnation, changes nothing: Redis was emptied, set back to a copy, or took nothing when this one
began. The fence at the sink holds without it.
"""

from dataclasses import dataclass
from enum import StrEnum

from tidegate.contracts.document import build
from tidegate.contracts.sealed import seal, unseal
from tidegate.errors import DecodeError


class Command(StrEnum):
    RUN = "run"
    STOP = "stop"
    """Flush, commit, ack, report drained, then touch nothing more."""


@dataclass(frozen=True, slots=True)
class LaneControl:
    incarnation: int
    command: Command

    def encode(self) -> bytes:
        return seal({"incarnation": self.incarnation, "command": self.command})

    def supersedes(self, incarnation: int) -> bool:
        return self.incarnation > incarnation

    def stops(self, incarnation: int) -> bool:
        return self.command is Command.STOP and self.incarnation == incarnation


def decode_control(value: bytes) -> LaneControl:
    document = unseal(value)
    try:
        return build(LaneControl, document | {"command": Command(str(document["command"]))})
    except (KeyError, ValueError):
        raise DecodeError("this is not a lane's control value", code="CONTROL_MALFORMED") from None
