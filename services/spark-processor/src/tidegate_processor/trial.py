"""Whether a sink takes what the raw topic held last: written as any frame is, and dropped before it is committed.

Invariant: nothing of it is ever committed. What a sink without transactions shows of it, it shows once more with the
same ids.
"""

from typing import Protocol

from tidegate.contracts.frame import Frame, FrameKind
from tidegate.errors import ConfigError
from tidegate.position import BEGINNING
from tidegate_processor.sinks.base import Receipt, Sink

_LOOKED_AT = 500
"""Frames from the end back; most of an idle log's are empty."""


class Frames(Protocol):
    beginning: int
    end: int

    def frame_at(self, offset: int) -> tuple[int, Frame] | None: ...


def try_out(sink: Sink, log: Frames) -> Receipt:
    """Fenced first, as whatever is written."""
    frame = _newest_rows(log)
    try:
        sink.open()
        receipt = sink.write(frame, BEGINNING)
    finally:
        sink.close()
    if receipt.rejected:
        first = receipt.rejected[0].error
        raise ConfigError(
            f"{len(receipt.rejected)} of the newest changes would be dead letters: {first.message}",
            code=first.code,
            remedy=first.remedy,
        )
    return receipt


def _newest_rows(log: Frames) -> Frame:
    for offset in range(log.end - 1, max(log.beginning, log.end - _LOOKED_AT) - 1, -1):
        found = log.frame_at(offset)
        if found is None:
            continue
        _, frame = found
        if frame.header.kind is FrameKind.WAL and frame.header.changes and not frame.header.parts:
            return frame
    raise ConfigError(
        "the raw topic holds no rows to try the sink with",
        code="SINK_TRIAL_EMPTY",
        remedy="Change a row in the source, then try again.",
    )
