"""The transaction the stream is in: which ordinal comes next, and whether the raw topic already has it.

Invariant: ordinals count row changes, truncates and messages from 0, also those that are skipped, so a change has the
same position however often the server sends it.

| state | BEGIN | change | COMMIT |
| --- | --- | --- | --- |
| outside | → inside | refused | refused |
| inside | refused | inside, ordinal + 1 | → outside |
"""

import struct
from typing import NoReturn

from tidegate.contracts.frame import OpenTransaction
from tidegate.errors import StreamError
from tidegate.lsn import Lsn
from tidegate.position import Position
from tidegate_reader.history import HistoryCheck

_BEGIN = struct.Struct(">xQqI")
_COMMIT = struct.Struct(">xxQQq")


class TransactionTracker:
    """`skip_to` is the last position that needs no delivering any more."""

    def __init__(self, skip_to: Position, history: HistoryCheck | None = None) -> None:
        self._skip_to = skip_to
        self._history = history
        self._last_commit = Lsn(0)
        self.is_open = False
        self.xid = 0
        self.commit_lsn = Lsn(0)
        self.commit_time = 0
        self.ordinal = 0
        self.is_skipping = False
        """Some of this transaction's changes, from its first, are already in the raw topic."""

    def begin(self, message: bytes) -> None:
        if self.is_open:
            protocol_broken("a BEGIN inside a transaction")
        commit_lsn, self.commit_time, self.xid = _BEGIN.unpack(message)
        if commit_lsn <= self._last_commit:
            protocol_broken("a transaction that commits before the one sent before it")
        self.commit_lsn = Lsn(commit_lsn)
        if self._history is not None and not self._history.begins(self.commit_lsn, self.xid, self.commit_time):
            self._history = None
        self.is_open, self.ordinal = True, 0
        self.is_skipping = Position(self.commit_lsn, 0) <= self._skip_to

    def passes(self, lsn: Lsn) -> None:
        """The server has sent all that ends at or below it, unless a transaction is open."""
        if self._history is not None and not self.is_open:
            self._history.passes(lsn)

    def count(self) -> bool:
        """Takes the next ordinal; true if the change at it is to be skipped."""
        if not self.is_open:
            protocol_broken("a change outside a transaction")
        ordinal = self.ordinal
        self.ordinal = ordinal + 1
        return self.is_skipping and (self.commit_lsn, ordinal) <= self._skip_to

    def commit(self, message: bytes) -> tuple[Position, Lsn, bool]:
        """Where the COMMIT stands, the LSN that confirms it, and whether it is to be skipped."""
        commit_lsn, end_lsn, _ = _COMMIT.unpack(message)
        if not self.is_open or commit_lsn != self.commit_lsn:
            protocol_broken("a COMMIT that does not belong to the transaction before it")
        self.is_open, self._last_commit = False, self.commit_lsn
        position = Position(self.commit_lsn, self.ordinal)
        return position, Lsn(end_lsn), position <= self._skip_to

    @property
    def skips_next(self) -> bool:
        return self.is_open and (self.commit_lsn, self.ordinal) <= self._skip_to

    def open_transaction(self) -> OpenTransaction | None:
        return self.opened(self.ordinal) if self.is_open else None

    def opened(self, ordinal: int) -> OpenTransaction:
        """The newest one, as it was before this change."""
        return OpenTransaction(self.xid, self.commit_lsn, self.commit_time, ordinal)


def protocol_broken(what: str) -> NoReturn:
    raise StreamError(
        f"the server sent {what}",
        code="PROTOCOL_BROKEN",
        remedy="Stop, keep the logs and report this: nothing was confirmed, the WAL is still there.",
    )
