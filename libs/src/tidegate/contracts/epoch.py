"""The body of an `epoch` frame: one run of the reader begins.

It is valid only if its number is higher than that of every valid epoch frame before it. Everything of older epochs
behind it is void, for everyone.
"""

import json
from dataclasses import asdict, dataclass
from enum import StrEnum

from tidegate.errors import DecodeError
from tidegate.lsn import Lsn, format_lsn, parse_lsn
from tidegate.position import Position


class EpochMode(StrEnum):
    CONTINUE = "continue"
    """Changes that the server sends again are skipped up to the tail's last position."""
    REFEED = "refeed"
    """Nothing is skipped: the raw topic does not hold everything any more. Lanes drop what they already have."""


@dataclass(frozen=True, slots=True)
class PreviousEpoch:
    number: int
    epoch_offset: int
    last_seq: int
    last_offset: int


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """What the reader asked of the server. They change only at a commit boundary: ordinals depend on them."""

    publications: tuple[str, ...]
    protocol: int
    messages: bool
    streaming: bool = False
    origin: str = "any"


@dataclass(frozen=True, slots=True)
class EpochRecord:
    mode: EpochMode
    start_lsn: Lsn
    tail: Position
    """The stream position the raw topic had reached; where the mode is `continue`, the skipping ends here."""
    options: StreamOptions
    previous: PreviousEpoch | None
    topic_id: str
    server_version: int
    software: str

    def encode(self) -> bytes:
        document = {
            "mode": self.mode,
            "start_lsn": format_lsn(self.start_lsn),
            "tail": [format_lsn(self.tail.commit_lsn), self.tail.ordinal],
            "options": asdict(self.options),
            "previous": asdict(self.previous) if self.previous else None,
            "topic_id": self.topic_id,
            "server_version": self.server_version,
            "software": self.software,
        }
        return json.dumps(document, separators=(",", ":")).encode()


def decode_epoch(body: bytes) -> EpochRecord:
    try:
        document = json.loads(body)
        options, previous, tail = document["options"], document["previous"], document["tail"]
        return EpochRecord(
            mode=EpochMode(document["mode"]),
            start_lsn=parse_lsn(document["start_lsn"]),
            tail=Position(parse_lsn(tail[0]), int(tail[1])),
            options=StreamOptions(**{**options, "publications": tuple(options["publications"])}),
            previous=PreviousEpoch(**previous) if previous else None,
            topic_id=document["topic_id"],
            server_version=document["server_version"],
            software=document["software"],
        )
    except (ValueError, KeyError, TypeError, IndexError, RecursionError):
        raise DecodeError("the body of an epoch frame is malformed", code="EPOCH_MALFORMED") from None
