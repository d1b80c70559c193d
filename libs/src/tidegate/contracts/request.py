"""What a person asks of a lane, through the admin API: one sealed value a request, done by the lane's driver.

Only the lane itself moves its cursor or delivers again: it alone knows what it has delivered, and can be fenced.
A request names what it is about; the lane refuses what its own position forbids.
"""

from dataclasses import dataclass
from enum import StrEnum

from tidegate.contracts.ack import decode_position, encode_position
from tidegate.contracts.document import build
from tidegate.contracts.sealed import seal, unseal
from tidegate.errors import DecodeError
from tidegate.position import Position

MOST_IDS = 1000


class Asked(StrEnum):
    PAUSE = "pause"
    RESUME = "resume"
    REWIND = "rewind"
    """Read on behind `position`, with a new incarnation; the ack stays where it is."""
    REPLAY = "replay"
    """Deliver these dead letters again, unless something newer of the same key has been delivered."""


@dataclass(frozen=True, slots=True)
class LaneRequest:
    id: str
    """Drawn by whoever asks; the same id twice is one request."""
    asked: Asked
    by: str
    time: int
    """Unix microseconds."""
    position: Position | None = None
    """Of a rewind."""
    ids: tuple[str, ...] = ()
    """Dead letters of a replay."""
    is_forced: bool = False
    """Of a replay: deliver also where something newer has been."""
    is_dry_run: bool = False

    def encode(self) -> bytes:
        return seal(
            {
                "id": self.id,
                "asked": self.asked,
                "by": self.by,
                "time": self.time,
                "position": encode_position(self.position) if self.position else None,
                "ids": list(self.ids),
                "is_forced": self.is_forced,
                "is_dry_run": self.is_dry_run,
            }
        )


def decode_request(value: bytes) -> LaneRequest:
    document = unseal(value)
    try:
        ids, position = document["ids"], document["position"]
        if not isinstance(ids, list) or len(ids) > MOST_IDS or not all(isinstance(each, str) for each in ids):
            raise ValueError("not ids")
        return build(
            LaneRequest,
            document
            | {
                "asked": Asked(str(document["asked"])),
                "position": None if position is None else decode_position(position),
                "ids": tuple(ids),
            },
        )
    except (KeyError, ValueError):
        raise DecodeError("this is not a request to a lane", code="LANE_REQUEST_MALFORMED") from None
