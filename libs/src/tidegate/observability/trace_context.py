"""A transaction's place in a trace, derived from what its events' ids are derived from: nothing carries it.

Invariant: whoever knows a transaction's identity computes the same W3C traceparent and the same decision whether it is
sampled, in any process, at any time, on every replay. Written down in docs/reference/event.md.
"""

import hashlib
import os
import struct
from dataclasses import dataclass
from typing import Any, Final

from tidegate.lsn import Lsn

_IDENTITY = struct.Struct(">QQqI")
# Else the trace id would be the seed of the events' ids.
_PURPOSE: Final = b"tidegate.trace"
_TRACE_BYTES, _SPAN_BYTES = 16, 8

_MASK = 2**64 - 1
_FIRST_FACTOR, _SECOND_FACTOR = 0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53  # of MurmurHash3's finaliser
_SHARES: Final = 2**53
"""As finely as a float divides one: each ratio is a whole number of them."""


@dataclass(frozen=True, slots=True)
class TraceContext:
    trace_id: int
    span_id: int
    """Of the reader's span of the whole transaction, which is every other one's parent."""

    @property
    def traceparent(self) -> str:
        """Always with the flag `sampled`: what is not sampled has none."""
        return f"00-{self.trace_id:032x}-{self.span_id:016x}-01"


def trace_of(*, system_id: int, commit_lsn: Lsn, xid: int, commit_time: int) -> TraceContext:
    identity = _IDENTITY.pack(system_id, commit_lsn, commit_time, xid)
    digest = hashlib.blake2b(identity, digest_size=_TRACE_BYTES + _SPAN_BYTES, person=_PURPOSE).digest()
    # W3C forbids ids of zeros alone.
    return TraceContext(int.from_bytes(digest[:_TRACE_BYTES]) or 1, int.from_bytes(digest[_TRACE_BYTES:]) or 1)


def new_span_id() -> int:
    """Of a span that is not derived: a delivery that is repeated is another one."""
    return int.from_bytes(os.urandom(_SPAN_BYTES)) or 1


class Sampler:
    """Takes a share of all transactions, by their commit LSN alone."""

    __slots__ = ("_below",)

    def __init__(self, ratio: float) -> None:
        self._below = int(ratio * _SHARES)

    def takes(self, commit_lsn: Any) -> Any:  # an LSN, or an array of them as uint64: the operations are the same
        return mix(commit_lsn) < self._below


def mix(number: Any) -> Any:  # as above
    """To 0 … 2⁵³ - 1, evenly, however regularly the numbers follow each other."""
    number = (number ^ (number >> 33)) * _FIRST_FACTOR & _MASK
    number = (number ^ (number >> 33)) * _SECOND_FACTOR & _MASK
    return (number ^ (number >> 33)) >> 11
