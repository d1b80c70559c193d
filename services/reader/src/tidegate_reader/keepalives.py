"""What the server's keepalives allow: their LSN may follow the stream once no transaction is open.

A keepalive carries how far the server has decoded, so everything that committed before it has been sent. It runs
backwards after a start, and inside a transaction it says nothing about the changes still to come.
Invariant: `lsn` is only ever one that was heard outside a transaction.
"""

import struct

from tidegate.lsn import Lsn
from tidegate_reader.transactions import protocol_broken

_KEEPALIVE = struct.Struct(">cQqB")
INTERVAL_SECONDS = 1.0
"""At most one frame a second only to say that nothing happened."""


class Keepalives:
    def __init__(self, lsn: Lsn) -> None:
        self.lsn = lsn
        self.reply_requests = 0
        self.framed_at = float("-inf")

    def hear(self, data: bytes | memoryview, *, in_transaction: bool) -> Lsn:
        """The LSN it carries."""
        if len(data) != _KEEPALIVE.size or data[0] != 0x6B:
            protocol_broken("an envelope that is neither data nor a keepalive")
        _, lsn, _, reply = _KEEPALIVE.unpack(data)
        self.reply_requests += reply
        if not in_transaction:
            self.lsn = max(self.lsn, Lsn(lsn))
        return Lsn(lsn)

    @property
    def due_at(self) -> float:
        return self.framed_at + INTERVAL_SECONDS
