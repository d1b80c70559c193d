"""LSNs and positions as text of one width, which compares as the numbers do."""

import re

from tidegate.lsn import Lsn
from tidegate.position import Position

_LSN = re.compile("[0-9a-f]{16}", re.ASCII)
_POSITION = re.compile("([0-9a-f]{16}):([0-9a-f]{16})", re.ASCII)


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
