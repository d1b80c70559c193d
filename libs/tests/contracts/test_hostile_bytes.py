"""Any bytes are a value or a DecodeError: no other exception, never slow, no more memory than they are worth."""

import json
import sys
import time
import tracemalloc
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit.contract_examples import FOLDER, examples
from kit.contract_values import any_json

from tidegate.contracts.epoch import decode_epoch
from tidegate.contracts.mark import decode_mark
from tidegate.contracts.sealed import seal, unseal
from tidegate.errors import DecodeError

Decode = Callable[[bytes], object]

DECODERS: dict[str, Decode] = {name: example.decode for name, example in examples().items() if "-v1-" not in name}
DECODERS |= {
    "frame": examples()["frame-v1-wal.bin"].decode,
    "sealed": unseal,
    "epoch": decode_epoch,
    "mark": decode_mark,
}
JSON_DECODERS = {name: decode for name, decode in DECODERS.items() if name != "frame"}
CPU_SECONDS = 0.05
each_decoder = pytest.mark.parametrize("decode", DECODERS.values(), ids=list(DECODERS))
each_json = pytest.mark.parametrize("decode", JSON_DECODERS.values(), ids=list(JSON_DECODERS))


def value_or_refusal(decode: Decode, data: bytes) -> object:
    outcome, seconds = _timed(decode, data)
    # A pause of the collector that falls into it is not the decoder's; it does not fall into the next ones too.
    assert seconds < CPU_SECONDS or min(_timed(decode, data)[1] for _ in range(3)) < CPU_SECONDS
    return outcome


def _timed(decode: Decode, data: bytes) -> tuple[object, float]:
    began = time.thread_time()
    try:
        outcome = decode(data)
    except DecodeError as refused:
        outcome = refused
    return outcome, time.thread_time() - began


@each_decoder
@given(data=st.binary(max_size=400))
def test_any_bytes(decode: Decode, data: bytes) -> None:
    value_or_refusal(decode, data)


@given(data=st.binary(max_size=400))
def test_any_bytes_behind_a_frames_first(data: bytes) -> None:
    value_or_refusal(DECODERS["frame"], b"TGFR\x01\x01\x00\x00" + data)


@each_json
@given(document=any_json())
def test_any_json(decode: Decode, document: object) -> None:
    value_or_refusal(decode, json.dumps(document).encode())


@each_json
@given(document=st.dictionaries(st.text(max_size=8), any_json(), max_size=5))
def test_any_sealed_json(decode: Decode, document: dict[str, object]) -> None:
    """The seal fits, so that what lies behind it is reached."""
    value_or_refusal(decode, json.dumps(document | {"checksum": "00000000"}).encode())
    document.pop("checksum", None)
    value_or_refusal(decode, seal(document))


@pytest.mark.parametrize("name", [path.name for path in FOLDER.glob("*.json")] + ["epoch", "mark"])
@given(replacement=any_json(), at=st.integers(0, 30))
def test_a_member_of_any_other_type(name: str, replacement: object, at: int) -> None:
    """Everything else is right: the value is refused, or whole."""
    document = _document(name)
    member = sorted(document)[at % len(document)]
    is_sealed = document.pop("checksum", None) is not None
    document[member] = replacement
    encoded = seal(document) if is_sealed and member != "checksum" else json.dumps(document).encode()
    value_or_refusal(_decoder(name), encoded)


HOSTILE = {
    "empty": b"",
    "nothing but space": b" " * 1000,
    "BOM": b'\xef\xbb\xbf{"kind":"sentinel","details":{}}',
    "UTF-16": '{"kind":"sentinel","details":{}}'.encode("utf-16"),
    "not UTF-8": b'{"kind":"\xff"}',
    "CESU-8 surrogate": b'{"kind":"\xed\xa0\x80"}',
    "lone surrogate": b'{"kind":"sentinel","details":{"a":"\\ud800"}}',
    "lone surrogate, upper case": b'{"kind":"sentinel","details":{"a":"\\uDC00"}}',
    "lone surrogate as a name": b'{"kind":"sentinel","details":{"\\ud800":1}}',
    "NaN": b'{"kind":"sentinel","details":{"a":NaN}}',
    "Infinity": b'{"tail":["0/0",Infinity]}',
    "-Infinity": b'{"kind":"sentinel","details":{"a":-Infinity}}',
    "1e400": b'{"kind":"sentinel","details":{"a":1e400}}',
    "a number of 5000 digits": b'{"kind":"sentinel","details":{"a":' + b"9" * 5000 + b"}}",
    "a member twice": b'{"kind":"sentinel","kind":"heartbeat","details":{}}',
    "a member twice inside": b'{"kind":"sentinel","details":{"a":1,"a":1}}',
    "an array": b'[["kind","sentinel"],["details",{}]]',
    "details as pairs": b'{"kind":"sentinel","details":[["a",1]]}',
    "a text": b'"sentinel"',
    "null": b"null",
    "deep arrays": b"[" * 100_000,
    "deep objects": b'{"a":' * 100_000,
    "deep and closed": b'{"kind":"sentinel","details":' + b'{"a":' * 5000 + b"1" + b"}" * 5000 + b"}",
    "bytes behind the end": b'{"kind":"sentinel","details":{}}{}',
}


@pytest.mark.parametrize("data", HOSTILE.values(), ids=list(HOSTILE))
@each_json
def test_hostile_json_is_refused(decode: Decode, data: bytes) -> None:
    assert isinstance(value_or_refusal(decode, data), DecodeError)


def test_a_value_as_deep_as_the_parser_goes_is_refused_and_not_a_crash() -> None:
    """Checking a seal writes the value again, which gives up a level or two earlier than reading it does."""
    for depth in range(sys.getrecursionlimit()):
        nested = b'{"checksum":"00000000","a":' + b"[" * depth + b"]" * depth + b"}"
        with pytest.raises(DecodeError):
            unseal(nested)


def test_pairs_of_surrogates_are_a_character() -> None:
    assert decode_mark(b'{"kind":"sentinel","details":{"a":"\\ud83d\\ude00"}}').details == {"a": "\N{GRINNING FACE}"}


def test_a_long_value_is_refused_before_it_is_read() -> None:
    """Redis answers with whatever stands there; a gigabyte of it is not parsed."""
    long = b'{"a":"' + b"x" * 2**24 + b'"}'
    for name in ("ack.json", "cursor.json", "control.json", "lane-status.json", "reader-status.json"):
        assert _peak_bytes(DECODERS[name], long) < len(long) * 3


@pytest.mark.parametrize("at", [8, 12, 16, 20, 184, 204])
def test_a_length_beyond_the_end_allocates_nothing(at: int) -> None:
    data = (FOLDER / "frame-v1-wal.bin").read_bytes()
    lying = data[:at] + b"\x7f\xff\xff\xff" + data[at + 4 :]
    assert _peak_bytes(DECODERS["frame"], lying) < 100_000


def _peak_bytes(decode: Decode, data: bytes) -> int:
    tracemalloc.start()
    try:
        with pytest.raises(DecodeError):
            decode(data)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def _document(name: str) -> dict[str, object]:
    bodies = {"epoch": "frame-v1-epoch-refeed.bin", "mark": "frame-v1-mark.bin"}
    if name in bodies:
        return json.loads(DECODERS["frame"]((FOLDER / bodies[name]).read_bytes()).body)  # type: ignore[attr-defined]
    return json.loads((FOLDER / name).read_bytes())


def _decoder(name: str) -> Decode:
    return DECODERS[name] if name in DECODERS else examples()[name].decode
