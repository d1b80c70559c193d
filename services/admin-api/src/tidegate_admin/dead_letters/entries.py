"""What is known of a dead letter without its row, and how some are told from others."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

NEWEST = (2**63 - 1, 2**63 - 1)
"""Where a list begins."""
OLDEST = (-1, -1)
"""Where a selection begins."""


@dataclass(frozen=True, slots=True)
class Filter:
    lane: str | None = None
    code: str | None = None
    table: str | None = None
    key: bytes | None = None
    since: int | None = None
    until: int | None = None
    """Unix microseconds."""

    def where(self) -> tuple[str, list[Any]]:
        wanted = {
            "lane = ?": self.lane,
            "code = ?": self.code,
            "channel = ?": self.table,
            "key = ?": self.key,
            "time >= ?": self.since,
            "time < ?": self.until,
        }
        given = {text: value for text, value in wanted.items() if value is not None}
        return "".join(f" AND {text}" for text in given), list(given.values())


@dataclass(frozen=True, slots=True)
class Entry:
    offset: int
    id: str
    lane: str
    code: str
    channel: str
    operation: str
    commit_lsn: str
    ordinal: int
    time: int
    found: int
    message: str
    remedy: str
    frame_offset: int


@dataclass(frozen=True, slots=True)
class Chosen:
    """What a replay has to know of a letter."""

    id: str
    lane: str
    time: int
    offset: int
    kin: bytes
    """Letters of one key share it, in one lane."""
    place: tuple[str, int]


def key_hash(table: str, key: Mapping[str, str | None]) -> bytes:
    text = json.dumps([table, dict(sorted(key.items()))], separators=(",", ":"))
    return hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=16).digest()
