"""What stands behind a newer epoch frame, or behind a hole, is void."""

import pytest

from tidegate.contracts.frame import NO_OFFSET, FrameHeader, FrameKind
from tidegate.contracts.generation import Generation
from tidegate.lsn import Lsn
from tidegate.position import Position
from tidegate_reader.tail import find_tail

GENERATION = Generation(7, 1, "shop", "slot", b"n" * 16)


def header(epoch: int, seq: int, *, epoch_offset: int | None = None, nonce: bytes = b"e" * 16) -> FrameHeader:
    """Its position is (epoch, seq), so that a test sees at once which frame was the last valid one."""
    position = Position(Lsn(epoch), seq)
    return FrameHeader(
        kind=FrameKind.EPOCH if epoch_offset is None else FrameKind.WAL,
        generation=GENERATION,
        epoch=epoch,
        epoch_nonce=nonce,
        epoch_offset=NO_OFFSET if epoch_offset is None else epoch_offset,
        seq=seq,
        first=position,
        last=position,
        safe_lsn=Lsn(epoch * 100 + seq),
        created=0,
    )


def begins(epoch: int) -> FrameHeader:
    return header(epoch, 0)


CASES = {
    "one epoch": ([begins(1), header(1, 1, epoch_offset=0), header(1, 2, epoch_offset=0)], (1, 2)),
    "only an epoch frame": ([begins(1)], (1, 0)),
    "late frames of a fenced writer": (
        [
            begins(1),
            header(1, 1, epoch_offset=0),
            begins(2),
            header(1, 2, epoch_offset=0),
            header(2, 1, epoch_offset=2),
        ],
        (2, 1),
    ),
    "a late epoch frame": ([begins(3), begins(2), header(2, 1, epoch_offset=1), header(3, 1, epoch_offset=0)], (3, 1)),
    "two epoch frames of one number": (
        [begins(2), header(2, 0, nonce=b"x" * 16), header(2, 1, epoch_offset=1, nonce=b"x" * 16)],
        (2, 0),
    ),
    "a hole": ([begins(1), header(1, 2, epoch_offset=0), header(1, 3, epoch_offset=0)], (1, 0)),
    "a hole that is filled too late": (
        [begins(1), *(header(1, seq, epoch_offset=0) for seq in (1, 3, 2))],
        (1, 1),
    ),
    "a newer epoch whose epoch frame is not there": ([begins(1), header(2, 1, epoch_offset=1)], (1, 0)),
}


@pytest.mark.parametrize(("headers", "last"), CASES.values(), ids=CASES.keys())
def test_the_tail_is_the_last_valid_frame(headers: list[FrameHeader], last: tuple[int, int]) -> None:
    tail = find_tail(enumerate(headers), window_start=0)
    assert tail is not None
    assert (tail.number, tail.last_seq) == last
    assert tail.position == last
    assert headers[tail.epoch_offset].epoch == tail.number


def test_a_window_may_begin_in_the_middle_of_an_epoch() -> None:
    old = [(7 + seq, header(1, seq, epoch_offset=7)) for seq in range(83, 86)]
    late_then_new = [(93, header(1, 86, epoch_offset=7)), (94, header(2, 46, epoch_offset=48))]
    assert find_tail(old, window_start=90) is not None
    tail = find_tail(old + late_then_new, window_start=90)
    assert tail is not None
    assert (tail.number, tail.last_seq, tail.epoch_offset) == (2, 46, 48)


def test_a_hole_before_the_window_shows_in_the_offsets() -> None:
    """Trimmed to what stands behind it, an epoch looks whole; what it lacks was acknowledged to nobody."""
    behind = [(90 + n, header(1, 84 + n, epoch_offset=7)) for n in range(3)]
    before = [(89, header(0, 88, epoch_offset=1))]
    assert find_tail(behind, window_start=90) is None
    assert find_tail(before + behind, window_start=89) is None
    tail = find_tail([*before, *behind, (93, begins(2))], window_start=89)
    assert tail is not None
    assert tail.number == 2


def test_an_empty_topic_has_no_tail() -> None:
    assert find_tail([], window_start=0) is None
