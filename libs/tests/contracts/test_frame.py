"""What a frame refuses, and with which code."""

import struct

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st
from kit.contract_examples import FOLDER, header, messages
from kit.frames import row

from tidegate.contracts.frame import Frame, FrameKind, body_messages, decode_frame, decode_header, encode_frame
from tidegate.errors import DecodeError
from tidegate.pgoutput.encode import encode_message

WAL = (FOLDER / "frame-v1-wal.bin").read_bytes()
NAMES_AT = 184


def resealed(data: bytes, at: int, change: bytes) -> bytes:
    """As a writer that breaks the format would have written it: the checksum fits."""
    covered = data[:at] + change + data[at + len(change) : -4]
    return covered + struct.pack(">I", crc32c(covered))


def sizes(*four: int) -> bytes:
    return struct.pack(">IIII", *four)


@pytest.mark.parametrize(
    ("at", "change", "code"),
    [
        (0, b"TGFS", "FRAME_MAGIC"),
        (4, b"\x00", "FRAME_VERSION"),
        (4, b"\x02", "FRAME_VERSION"),
        (4, b"\xff", "FRAME_VERSION"),
        (5, b"\x00", "FRAME_KIND"),
        (5, b"\x05", "FRAME_KIND"),
        (5, b"\xff", "FRAME_KIND"),
        (6, b"\x00\x02", "FRAME_FLAGS"),
        (6, b"\x80\x00", "FRAME_FLAGS"),
        (8, b"\xff\xff\xff\xff", "FRAME_TRUNCATED"),
        (12, b"\xff\xff\xff\xff", "FRAME_TRUNCATED"),
        (16, b"\xff\xff\xff\xff", "FRAME_TRUNCATED"),
        (20, b"\xff\xff\xff\xff", "FRAME_TRUNCATED"),
        (16, struct.pack(">I", 138), "FRAME_TRUNCATED"),
        (8, sizes(0, 0, 0, len(WAL) - 4), "FRAME_HEADER"),
        (8, sizes(len(WAL) - 4, 0, 0, 0), "FRAME_HEADER"),
        (8, sizes(NAMES_AT, len(WAL) - 4 - NAMES_AT, 0, 0), "FRAME_HEADER"),
        (120, struct.pack(">II", 1, 0), "FRAME_PARTS"),
        (120, struct.pack(">II", 0, 3), "FRAME_PARTS"),
        (120, struct.pack(">II", 4, 3), "FRAME_PARTS"),
        (NAMES_AT, b"\xff", "FRAME_HEADER"),
        (NAMES_AT + 1, b"\xff", "FRAME_HEADER"),
        (NAMES_AT + 19, b"\x02", "FRAME_SCHEMA"),
        (NAMES_AT + 20, b"\x7f\xff\xff\xff", "FRAME_SCHEMA"),
        (NAMES_AT + 20, b"\x00\x00\x00\x00", "FRAME_SCHEMA"),
    ],
)
def test_a_writer_that_breaks_the_format_is_told_so(at: int, change: bytes, code: str) -> None:
    with pytest.raises(DecodeError) as refused:
        decode_frame(resealed(WAL, at, change))
    assert refused.value.code == code


def test_a_newer_version_is_refused_with_what_to_do() -> None:
    with pytest.raises(DecodeError, match="version 2") as refused:
        decode_frame(resealed(WAL, 4, b"\x02"))
    assert "Update" in refused.value.remedy


def test_a_damaged_schema_section_does_not_hide_behind_the_header_alone() -> None:
    """Stepping over a frame verifies all of it: a tail that was found is a tail that can be read."""
    damaged = bytearray(WAL)
    damaged[-10] ^= 1
    with pytest.raises(DecodeError) as refused:
        decode_header(bytes(damaged))
    assert refused.value.code == "FRAME_CRC"


def test_padding_is_no_part_of_the_body() -> None:
    assert decode_frame((FOLDER / "frame-v1-tick.bin").read_bytes()).body == b""


def test_parts_joined_are_the_message() -> None:
    bodies = [decode_frame((FOLDER / f"frame-v1-wal-part-{part}.bin").read_bytes()).body for part in (1, 2)]
    whole = Frame(header(), (), b"".join(bodies))
    assert [raw for _, raw in body_messages(whole)] == [encode_message(row(2, "x" * 100))]


def test_a_body_cut_anywhere_gives_its_whole_messages_and_then_a_refusal() -> None:
    body = messages(row(1, "tea"), row(2, "milk"))
    borders = {0, len(messages(row(1, "tea"))), len(body)}
    for length in range(len(body) + 1):
        if length in borders:
            list(body_messages(Frame(header(), (), body[:length])))
        else:
            with pytest.raises(DecodeError):
                list(body_messages(Frame(header(), (), body[:length])))


@given(st.lists(st.binary(max_size=30), max_size=6))
def test_the_messages_of_a_body_are_those_put_in(pieces: list[bytes]) -> None:
    body = b"".join(struct.pack(">IQ", len(piece), at) + piece for at, piece in enumerate(pieces))
    frame = decode_frame(encode_frame(header(FrameKind.WAL), (), (body,)))
    assert list(body_messages(frame)) == list(enumerate(pieces))
