"""Each target over its corpus: what real servers sent, what was found before, and both of them damaged."""

import random
from pathlib import Path

import pytest

from fuzz import bounds
from fuzz.targets import TARGETS, decode_by_kernels, message, seeds
from tidegate.contracts.frame import BODY_ENTRY
from tidegate.errors import DecodeError
from tidegate.lsn import Lsn
from tidegate.pgoutput import decode_envelope, decode_message, encode_message
from tidegate.pgoutput.messages import Begin, Insert, LogicalMessage, Origin, Truncate

FOUND = Path(__file__).parent / "found"


@pytest.mark.parametrize("name", TARGETS)
def test_the_corpus_and_what_was_found_before(name: str) -> None:
    corpus = list(dict.fromkeys(seeds(name)))
    assert len(corpus) > 5

    for data in [*corpus, *(path.read_bytes() for path in sorted(FOUND.glob(f"{name}-*")))]:
        TARGETS[name](data)


@pytest.mark.parametrize("name", TARGETS)
def test_damage_breaks_no_promise(name: str) -> None:
    chance, corpus = random.Random(5), list(dict.fromkeys(seeds(name)))
    for _ in range(300):
        data = bytearray(chance.choice(corpus))
        for _ in range(chance.randint(1, 4) if data else 0):
            data[chance.randrange(len(data))] = chance.randrange(256)
        TARGETS[name](bytes(data[: chance.randint(0, len(data))]))


HOSTILE = [
    b"I\0\0\0\5N\x7f\xff" + b"n" * 32_767,
    b"I\0\0\0\5N\x7f\xff" + b"t\0\0\0\0" * 13_000,
    b"T\0\0\x3f\xff\0" + b"\xff" * 4 * 0x3FFF,
    b"R\0\0\0\1\0t\0d\x19\0" + b"\0\0\0\0\0\0\0\0\0\0" * 6_400,
    b"Y\0\0\0\1" + b"x" * 65_000 + b"\0\0",
    b"M\1" + bytes(8) + "é".encode() * 30_000 + b"\0\0\0\0\0",
    b"I\0\0\0\5N\0\1t\0\0\xff\xf0" + b"{" * 0xFFF0,
]


@pytest.mark.parametrize("data", HOSTILE, ids=range(len(HOSTILE)))
def test_the_worst_of_64_kib_is_decoded_within_the_bounds(data: bytes) -> None:
    def decode(raw: bytes) -> None:
        try:
            decode_message(raw)
        except DecodeError:
            return

    decode(data)
    assert min(bounds.seconds(decode, data) for _ in range(3)) < bounds.MOST_SECONDS
    assert bounds.peak_bytes(decode, data) < bounds.MOST_TIMES * len(data) + bounds.FIXED_BYTES
    message(b"\0" + data)


def _body(*messages: bytes) -> bytes:
    return b"".join(BODY_ENTRY.pack(len(message), 1) + message for message in (_BEGIN, *messages))


_BEGIN = encode_message(Begin(Lsn(9), 5, 7))
_LONG = 64_000
HOSTILE_BODIES = [
    *(_body(encode_message(Insert(6, (mark * _LONG,)))) for mark in (b"{", b'"', b"\x01", b"\\", b"\xff")),
    _body(*[encode_message(Insert(6, (b"",)))] * 3_000),
    _body(*[_BEGIN] * 1_900),
    _body(encode_message(Truncate((5, 6) * 1_000, 0))),
    _body(*[encode_message(Origin(Lsn(1), ""))] * 2_500),
    _body(encode_message(LogicalMessage(1, Lsn(1), "é" * 30_000, b""))),
    _body(encode_message(Insert(5, (None,) * 6 + (b"{" + b"1," * 31_000 + b"1}",) + (None,) * 7))),
    _body(*[b"?"] * 4_900),
]


@pytest.mark.parametrize("data", HOSTILE_BODIES, ids=range(len(HOSTILE_BODIES)))
def test_the_worst_body_of_64_kib_is_done_by_kernels_within_the_bounds(data: bytes) -> None:
    decode_by_kernels(data)
    assert min(bounds.seconds(decode_by_kernels, data) for _ in range(3)) < bounds.MOST_SECONDS


@pytest.mark.parametrize("mark", [b"{", b'"', b"\x01", b"\\", b"t"])
def test_kernels_touch_no_more_than_ten_times_a_body(mark: bytes) -> None:
    """Resident pages: a buffer for the worst case is reserved, and written only as far as it is needed."""
    nothing, key, text = (None,), (b"1",), (mark * 8_000_000,)
    data = _body(encode_message(Insert(5, 2 * nothing + key + 2 * nothing + text + 8 * nothing)))
    decode_by_kernels(data[: 64 * 1024])

    assert bounds.peak_resident_bytes(decode_by_kernels, data) < bounds.MOST_TIMES * len(data) + bounds.FIXED_BYTES


def test_an_envelope_is_not_copied_more_than_once() -> None:
    data = b"w" + bytes(24) + b"x" * 10_000_000

    assert bounds.peak_bytes(decode_envelope, data) < 1.1 * len(data)
