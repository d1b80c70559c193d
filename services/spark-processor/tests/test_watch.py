"""What the log shows of a letter's row: also in changes that are larger than a frame."""

from collections.abc import Sequence

import pytest
from kit.frames import RawLog, row
from kit.letters import make_letter

from tidegate.contracts.frame import decode_frame
from tidegate.contracts.request import Asked, LaneRequest
from tidegate.position import BEGINNING
from tidegate_processor.replay import Letters, Watch


def is_overtaken(number: int, frames: Sequence[bytes]) -> bool:
    """The letter about that row, by what stands behind it."""
    letter = make_letter(number, position=BEGINNING, xid=700, commit_time=0, lsn=1)
    letters = Letters(LaneRequest("r1", Asked.REPLAY, "somebody", 0, ids=(letter.id,)), "events")
    letters.take(letter)
    watch = Watch(letters)
    for frame in frames:
        watch.see(decode_frame(frame))
    return letters.open[letter.id].newer is not None


@pytest.mark.parametrize(("number", "overtaken"), [(2, True), (3, False)])
def test_a_row_larger_than_a_frame_is_looked_at_by_its_key(number: int, overtaken: bool) -> None:
    log = RawLog()
    log.epoch()
    log.in_parts(row(2, "long" * 50), parts=3)
    assert is_overtaken(number, log.frames) == overtaken


def test_a_part_whose_beginning_was_not_seen_may_be_of_any_row() -> None:
    log = RawLog()
    log.epoch()
    log.in_parts(row(2, "long" * 50), parts=3)
    assert is_overtaken(3, log.frames[-3:])
