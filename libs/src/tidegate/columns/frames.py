"""Frames to tables of changes. The kernel says where and how a body breaks its rules; the reference says what is wrong.

Invariant: a body gives its changes or one DecodeError, the one that the reference gives; nothing partial escapes.
"""

from typing import Final, NamedTuple

import numpy as np

from tidegate.columns import layout
from tidegate.columns.kernels import scan
from tidegate.columns.layout import Verdict
from tidegate.columns.plans import Section
from tidegate.columns.text import SLACK
from tidegate.contracts.frame import Frame, FrameKind
from tidegate.errors import DecodeError
from tidegate.events import Operation
from tidegate.pgoutput.decode import decode_message
from tidegate.pgoutput.wire import U32
from tidegate.position import Position

_SLACK: Final = bytes(SLACK)
# The members of an enumeration are looked up by a function of Python's.
_DONE, _NO_ROOM, _ROWS = int(Verdict.DONE), int(Verdict.NO_ROOM), FrameKind.SNAPSHOT


class Changes(NamedTuple):
    """The wanted changes of a frame: tables as in `layout`, offsets into `body`."""

    body: np.ndarray
    """With SLACK bytes behind it, so that kernels may read words."""
    section: Section
    rows: np.ndarray
    transactions: np.ndarray
    operation: Operation | None = None
    """That of all of them, where `rows` can't say it."""
    longest: int = 0
    """No message among `rows` has more bytes."""


def scan_frame(
    frame: Frame, after: Position, section: Section, wanted: np.ndarray, *, messages: bool = False
) -> Changes:
    """What lies above `after` and is wanted; `wanted[relation, operation]` is at least 0 for that."""
    header, size = frame.header, len(frame.body)
    body = np.frombuffer(frame.body + _SLACK, np.uint8)
    transactions = np.empty((size // layout.SMALLEST_BEGIN + 2, layout.TRANSACTION_FIELDS), np.int64)
    opened, ordinal = header.open_transaction, 0
    if opened is not None:
        transactions[0] = opened.xid, _signed(opened.commit_lsn), opened.commit_time
        ordinal = _signed(opened.next_ordinal)
    start = int(opened is not None), ordinal, _signed(after.commit_lsn), _signed(after.ordinal), int(messages)
    room = min(max(header.changes, header.messages), size // layout.SMALLEST_ROW) + 1
    while True:
        rows = np.empty((room, layout.CHANGE_FIELDS), np.int64)
        found = scan(body, section.ids, wanted, section.seen, rows, transactions, start)
        verdict, at, kept, begun, noted, longest = found
        if verdict != _NO_ROOM:
            break
        room *= 2
    if noted:
        for message, length in rows[: -noted - 1 : -1, [layout.MESSAGE, layout.LENGTH]].tolist():
            decode_message(frame.body[message : message + length])
    if verdict != _DONE:
        raise _error(frame.body, Verdict(verdict), at)
    operation = Operation.SNAPSHOT if header.kind is _ROWS else None
    return Changes(body, section, rows[:kept], transactions[:begun], operation, longest)


def _signed(number: int) -> int:
    return number if number < 2**63 else number - 2**64


def _error(body: bytes, verdict: Verdict, at: int) -> DecodeError:
    if verdict is Verdict.CUT_SHORT:
        return DecodeError("an entry does not end inside the frame's body", offset=at, code="FRAME_BODY_TRUNCATED")
    if verdict is Verdict.NO_TRANSACTION:
        return DecodeError("a change outside a transaction", offset=at, code="DECODE_ORDER")
    if verdict is Verdict.UNKNOWN_RELATION:
        reason = "a change of a relation which the frame does not describe"
        return DecodeError(reason, offset=at, code="RELATION_UNKNOWN")
    (length,) = U32.unpack_from(body, at - layout.ENTRY_HEAD)
    try:
        decode_message(body[at : at + length])
    except DecodeError as error:
        reason, _, _ = error.message.rpartition(" (at byte ")
        return DecodeError(reason, offset=at + error.offset, code=error.code, remedy=error.remedy)
    return DecodeError("a message that only one of two decoders takes", offset=at, code="DECODE_DISPUTED")
