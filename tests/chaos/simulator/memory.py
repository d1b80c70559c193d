"""Decoders that remember: in a run the same few bytes are read by each lane, by each start, and at each poll.

Invariant: what they give is what the production decoder gave for these very bytes, and cannot be changed by who gets
it; what it refuses is not remembered. That equal bytes decode equally is the decoders' own tests.
"""

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

import tidegate.checkpoint.redis_store
import tidegate.pgoutput.changes
import tidegate_processor.control
import tidegate_processor.decode
import tidegate_processor.ingest
import tidegate_reader.raw_log
from tidegate.contracts.ack import decode_ack
from tidegate.contracts.control import decode_control
from tidegate.contracts.frame import Frame, decode_frame, decode_header
from tidegate.errors import DecodeError
from tidegate.pgoutput.changes import PlacedChange, placed_changes
from tidegate.pgoutput.decode import decode_message

# More than a run has of any; frames are few, and up to 20 kB each.
_KEPT = 2048
_FRAMES_KEPT = 512

remembered_header = lru_cache(_FRAMES_KEPT)(decode_header)
remembered_frame = lru_cache(_FRAMES_KEPT)(decode_frame)
remembered_message = lru_cache(_KEPT)(decode_message)
remembered_ack: Callable[..., Any] = lru_cache(_KEPT)(decode_ack)


class _Placed:
    """A frame by what says which changes it has: two that are equal have the same."""

    __slots__ = ("frame", "key")

    def __init__(self, frame: Frame) -> None:
        self.frame, self.key = frame, (frame.body, frame.header.open_transaction)

    def __hash__(self) -> int:
        return hash(self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Placed) and self.key == other.key


@lru_cache(_FRAMES_KEPT)
def _all_placed(placed: _Placed) -> tuple[PlacedChange, ...]:
    return tuple(placed_changes(placed.frame))


def remembered_changes(frame: Frame) -> Iterable[PlacedChange]:
    try:
        return _all_placed(_Placed(frame))
    except DecodeError:
        return placed_changes(frame)  # which gives what stands before the fault, and then says it


STAND_INS: tuple[tuple[Any, str, Any], ...] = (
    (tidegate.checkpoint.redis_store, "decode_ack", remembered_ack),
    (tidegate.pgoutput.changes, "decode_message", remembered_message),
    (tidegate_processor.control, "decode_control", lru_cache(_KEPT)(decode_control)),
    (tidegate_processor.decode, "placed_changes", remembered_changes),
    (tidegate_processor.ingest, "decode_frame", remembered_frame),
    (tidegate_reader.raw_log, "decode_header", remembered_header),
    (tidegate_reader.raw_log, "decode_frame", remembered_frame),
)
