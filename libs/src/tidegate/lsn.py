"""Log sequence numbers: a 64-bit byte position in the WAL, written `HI/LO` in upper-case hexadecimal by PostgreSQL."""

import re
from typing import NewType

Lsn = NewType("Lsn", int)

ZERO = Lsn(0)
MAX_LSN = Lsn(2**64 - 1)

# int() takes underscores, signs, spaces and any Unicode digit; PostgreSQL writes none of these.
_TEXT = re.compile(r"([0-9A-Fa-f]{1,8})/([0-9A-Fa-f]{1,8})", re.ASCII)


def parse_lsn(text: str) -> Lsn:
    match = _TEXT.fullmatch(text)
    if match is None:
        raise ValueError(
            "an LSN is two hexadecimal numbers of up to eight digits with a slash between, as in 0/16B3748"
        )
    return Lsn(int(match[1], 16) << 32 | int(match[2], 16))


def format_lsn(lsn: int) -> str:
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"
