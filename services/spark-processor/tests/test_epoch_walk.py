"""The walk over the raw topic's epochs ends, whatever stands in the log."""

from itertools import islice

import pytest
from kit.frames import RawLog, row

from tidegate.contracts.epoch import decode_epoch
from tidegate.contracts.frame import FrameKind, decode_frame
from tidegate_processor.epoch_walk import Seen, epochs


class Log:
    id, beginning = "topic", 0

    def __init__(self, *frames: bytes) -> None:
        self.end = len(frames)
        self._frames = frames

    def at(self, offset: int) -> Seen | None:
        if offset >= self.end:
            return None
        frame = decode_frame(self._frames[offset])
        return Seen(offset, frame.header, decode_epoch(frame.body) if frame.header.kind is FrameKind.EPOCH else None)

    def offset_since(self, time: int) -> int | None:
        return None


@pytest.mark.parametrize("rows", [0, 1])
def test_an_epoch_frame_that_landed_in_a_log_which_was_lost_meanwhile_is_none(rows: int) -> None:
    """The one before it ended where it stands itself now, or behind that."""
    log = RawLog()
    log.epoch()
    for number in range(rows):
        log.transaction(row(number))
    landed = Log(log.epoch())
    assert list(islice(epochs(landed), 10)) == []
