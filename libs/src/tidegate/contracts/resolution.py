"""What has become of dead letters: a record in their own topic, so that every index of it comes to the same.

A dead letter is open until a resolution behind it that closes names its id; the same failure found again behind that
is open again. A resolution holds ids and no row data.
"""

import json
from dataclasses import asdict, dataclass
from enum import StrEnum

from tidegate.contracts.dead_letter import DeadLetter, decode_dead_letter, is_letter_id
from tidegate.contracts.document import build, load
from tidegate.errors import DecodeError

VERSION = 1
MOST_IDS = 1000


class Outcome(StrEnum):
    PURGED = "purged"
    """A person has given it up."""
    REPLAYED = "replayed"
    """Its lane has delivered it after all."""
    COPIED = "copied"
    """Another lane has delivered it to its own sink; it stays open."""


@dataclass(frozen=True, slots=True)
class Resolution:
    outcome: Outcome
    ids: tuple[str, ...]
    by: str
    """The name of the token, or the lane."""
    time: int
    """Unix microseconds."""
    request: str = ""
    """The replay that it belongs to: a lane that was cut off behind its commit knows its own work by it."""
    lane: str = ""
    """Which lane has delivered."""

    @property
    def closes(self) -> bool:
        return self.outcome is not Outcome.COPIED

    def encode(self) -> bytes:
        document = asdict(self) | {"resolution": VERSION}
        for name in ("request", "lane"):
            if not document[name]:
                del document[name]
        return json.dumps(document, separators=(",", ":"), sort_keys=True).encode()


def decode_resolution(value: bytes) -> Resolution:
    try:
        document = load(value)
        version, ids = document.pop("resolution"), document["ids"]
        if type(version) is not int or version != VERSION:
            raise ValueError("not a version")
        if not isinstance(ids, list) or not 1 <= len(ids) <= MOST_IDS or not all(map(is_letter_id, ids)):
            raise ValueError("not ids")
        return build(Resolution, document | {"ids": tuple(ids), "outcome": Outcome(str(document["outcome"]))})
    except (ValueError, KeyError):
        raise DecodeError("this is not a resolution of dead letters", code="RESOLUTION_MALFORMED") from None


def decode_record(value: bytes) -> DeadLetter | Resolution:
    """Whichever of the two a record of the topic is."""
    return decode_resolution(value) if value.startswith(b'{"by":') else decode_dead_letter(value)
