"""The id of an event as docs/reference/event.md computes it, from nothing but the event.

Invariant: independent of the product's code, so that a wrong id is wrong here.
"""

import uuid
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from typing import Any

from tidegate.lsn import parse_lsn

_STEP = 0x1E3779B97F4A7C15
_UNIX = datetime(1970, 1, 1, tzinfo=UTC)
_POSTGRES = datetime(2000, 1, 1, tzinfo=UTC)


def expected_id(event: dict[str, Any]) -> str:
    """Of a change that is the only one at its position: no TRUNCATE."""
    time = datetime.fromisoformat(event["transaction"]["commit_time"])
    words = (
        int(event["source"]["system_id"]).to_bytes(8, "big"),
        int(parse_lsn(event["position"]["commit_lsn"])).to_bytes(8, "big"),
        ((time - _POSTGRES) // timedelta(microseconds=1)).to_bytes(8, "big", signed=True),
        int(event["transaction"]["xid"].digits).to_bytes(4, "big"),
    )
    digest = blake2b(b"".join(words), digest_size=10).digest()
    low = (int.from_bytes(digest[:8], "big") + int(event["position"]["ordinal"].digits) * _STEP) % 2**62
    high = int.from_bytes(digest[8:], "big") & 0xFFF
    milliseconds = (time - _UNIX) // timedelta(milliseconds=1)
    return str(uuid.UUID(int=milliseconds << 80 | 7 << 76 | high << 64 | 2 << 62 | low))
