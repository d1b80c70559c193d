"""The lineage in which positions compare: one slot, from its birth, on one timeline of one cluster.

Positions of two generations never compare; a generation is part of every Redis key and of whatever carries a position.
"""

import hashlib
import struct
from dataclasses import dataclass
from functools import cached_property

NONCE_BYTES = 16


@dataclass(frozen=True)
class Generation:
    system_identifier: int
    timeline: int
    database: str
    slot: str
    nonce: bytes
    """Drawn by the reader when it creates the slot: a slot re-created under the same name is another generation."""

    @cached_property
    def id(self) -> str:
        digest = hashlib.blake2b(digest_size=16)
        digest.update(struct.pack(">QI16s", self.system_identifier, self.timeline, self.nonce))
        for name in (self.database, self.slot):
            encoded = name.encode()
            digest.update(struct.pack(">I", len(encoded)) + encoded)
        return digest.hexdigest()

    def to_json(self) -> dict[str, object]:
        return {
            "id": self.id,
            "system_identifier": str(self.system_identifier),
            "timeline": self.timeline,
            "database": self.database,
            "slot": self.slot,
            "nonce": self.nonce.hex(),
        }
