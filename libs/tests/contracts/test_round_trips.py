"""Encode and decode are inverse, for any value that a contract can hold."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit import contract_values as values
from kit.contract_examples import CURSOR

from tidegate.contracts.ack import Ack, decode_ack
from tidegate.contracts.control import LaneControl, decode_control
from tidegate.contracts.cursor import Cursor, decode_cursor
from tidegate.contracts.dead_letter import DeadLetter, decode_dead_letter
from tidegate.contracts.epoch import EpochRecord, decode_epoch
from tidegate.contracts.fixed_width import decode_position, encode_position
from tidegate.contracts.frame import Frame, decode_frame, decode_header, encode_frame
from tidegate.contracts.mark import Mark, decode_mark
from tidegate.contracts.refused_shape import RefusedShape, are_too_many
from tidegate.contracts.status import LaneStatus, ReaderStatus
from tidegate.lsn import Lsn
from tidegate.pgoutput.shape_changes import ShapeChangeKind
from tidegate.position import Position


@given(values.FRAME, st.integers(0, 3000))
def test_a_frame_is_read_as_it_was_written(frame: Frame, min_bytes: int) -> None:
    data = encode_frame(frame.header, frame.schema, (frame.body[:5], frame.body[5:]), min_bytes=min_bytes)
    assert decode_frame(data) == frame
    assert decode_header(data) == frame.header
    assert len(data) >= min_bytes


@given(values.ACK)
def test_an_ack_is_read_as_it_was_written(ack: Ack) -> None:
    assert decode_ack(ack.encode(), sink=ack.sink, generation=ack.generation) == ack


@given(values.CURSOR, values.REFUSED)
def test_a_cursor_is_read_as_it_was_written(cursor: Cursor, refused: tuple[RefusedShape, ...]) -> None:
    cursor = replace(cursor, refused=refused)
    assert decode_cursor(cursor.encode()) == cursor


@given(values.CURSOR)
def test_a_cursor_fits_beside_an_offset(cursor: Cursor) -> None:
    """Brokers take 4096 bytes of metadata (offset.metadata.max.bytes)."""
    assert len(cursor.encode()) < 2048


@pytest.mark.parametrize(("kinds", "least"), [(list(ShapeChangeKind), 11), ([ShapeChangeKind.COLUMN_ADDED], 14)])
def test_the_most_refused_shapes_fit_beside_an_offset(kinds: list[ShapeChangeKind], least: int) -> None:
    end = Position(Lsn(2**64 - 1), 2**64 - 1)
    longest = RefusedShape("f" * 16, "f" * 16, tuple(map(str, kinds)), end)
    most = max(count for count in range(100) if not are_too_many((longest,) * count))

    assert most >= least
    assert len(replace(CURSOR, refused=(replace(longest, until=end),) * most).encode()) < 4096 - 512


@given(values.CONTROL)
def test_a_control_value_is_read_as_it_was_written(control: LaneControl) -> None:
    assert decode_control(control.encode()) == control


@given(values.DEAD_LETTER)
def test_a_dead_letter_is_read_as_it_was_written(letter: DeadLetter) -> None:
    assert decode_dead_letter(letter.encode()) == letter


@given(values.EPOCH)
def test_an_epoch_is_read_as_it_was_written(epoch: EpochRecord) -> None:
    assert decode_epoch(epoch.encode()) == epoch


@given(values.MARK)
def test_a_mark_is_read_as_it_was_written(mark: Mark) -> None:
    assert decode_mark(mark.encode()) == mark


@given(values.LANE_STATUS)
def test_a_lanes_status_is_read_as_it_was_written(status: LaneStatus) -> None:
    assert LaneStatus.decode(status.encode()) == status


@given(values.READER_STATUS)
def test_a_readers_status_is_read_as_it_was_written(status: ReaderStatus) -> None:
    assert ReaderStatus.decode(status.encode()) == status


@given(values.POSITION, values.POSITION)
def test_positions_compare_as_text_as_they_do_as_numbers(a: Position, b: Position) -> None:
    """What the comparing script in Redis rests on."""
    assert (a < b) == (encode_position(a) < encode_position(b))
    assert decode_position(encode_position(a)) == a
