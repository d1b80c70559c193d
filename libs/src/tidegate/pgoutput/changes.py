"""The changes of a whole frame in order, each with the transaction it belongs to and its place in that.

Invariant: a frame decodes alone: its header says which transaction was open when it began, and at which ordinal.
"""

from collections.abc import Iterator
from typing import NamedTuple

from tidegate.contracts.frame import Frame, body_messages
from tidegate.errors import DecodeError
from tidegate.events import Operation
from tidegate.lsn import Lsn
from tidegate.pgoutput.decode import decode_message
from tidegate.pgoutput.messages import Begin, Commit, Delete, Insert, LogicalMessage, Truncate, Update

RowMessage = Insert | Update | Delete | Truncate | LogicalMessage

OPERATIONS = {
    Insert: Operation.INSERT,
    Update: Operation.UPDATE,
    Delete: Operation.DELETE,
    Truncate: Operation.TRUNCATE,
    LogicalMessage: Operation.MESSAGE,
}


class PlacedChange(NamedTuple):
    message: RowMessage
    transaction: Begin
    ordinal: int
    lsn: Lsn
    raw: bytes


def placed_changes(frame: Frame) -> Iterator[PlacedChange]:
    opened = frame.header.open_transaction
    transaction = Begin(opened.commit_lsn, opened.commit_time, opened.xid) if opened else None
    ordinal = opened.next_ordinal if opened else 0
    for lsn, raw in body_messages(frame):
        message = decode_message(raw)
        if isinstance(message, Begin):
            transaction, ordinal = message, 0
        elif isinstance(message, Commit):
            transaction = None
        elif isinstance(message, RowMessage):
            if transaction is None:
                raise DecodeError("a change outside a transaction", code="DECODE_ORDER")
            yield PlacedChange(message, transaction, ordinal, lsn, raw)
            ordinal += 1
