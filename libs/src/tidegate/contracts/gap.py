"""A gap that is announced: what was committed between a sink's place and `lsn` never was in the raw topic, or is not
any more, and a snapshot of every table follows.

It stands in the epoch frame that announces it, and in those of later epochs for as long as that frame is in the topic:
so a reader that starts knows that a lane whose place is gone comes in there, and which snapshot is owed.
"""

from dataclasses import asdict, dataclass
from enum import StrEnum

from tidegate.contracts.document import build
from tidegate.lsn import Lsn, format_lsn, parse_lsn

SNAPSHOT_ID_BYTES = 16


class GapReason(StrEnum):
    SLOT_MISSING = "slot_missing"
    SLOT_INVALIDATED = "slot_invalidated"
    SLOT_MOVED = "slot_moved"
    """The slot is good, and beyond what a required sink has and the raw topic holds."""


@dataclass(frozen=True, slots=True)
class Gap:
    lsn: Lsn
    """Where the log goes on."""
    offset: int
    """Raw offset of the epoch frame that announces it; in that frame itself, where it was to land."""
    snapshot: str
    """Id of the snapshot that brings the tables level: 32 hexadecimal digits."""
    reason: GapReason

    def to_json(self) -> dict[str, object]:
        return asdict(self) | {"lsn": format_lsn(self.lsn)}


def decode_gap(members: object) -> Gap | None:
    """ValueError or KeyError if it is no gap."""
    if members is None:
        return None
    if not isinstance(members, dict) or not isinstance(members["lsn"], str):
        raise ValueError("not a gap")
    reason = GapReason(str(members["reason"]))
    if len(bytes.fromhex(str(members["snapshot"]))) != SNAPSHOT_ID_BYTES:
        raise ValueError("not the id of a snapshot")
    gap = build(Gap, members | {"lsn": parse_lsn(members["lsn"]), "reason": reason})
    if gap.offset < 0:
        raise ValueError("not an offset")
    return gap
