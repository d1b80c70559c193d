"""The envelopes inside CopyData, byte by byte."""

import pytest

from tidegate.errors import DecodeError
from tidegate.lsn import Lsn
from tidegate.pgoutput.wire import Keepalive, XLogData, decode_envelope, encode_envelope, encode_status

_W = bytes.fromhex("77 00000000016b3748 00000000016b3750 0002a5b4c3d2e1f0")
_K = bytes.fromhex("6b 00000000016b3748 0002a5b4c3d2e1f0 01")
_XLOG = XLogData(Lsn(0x16B3748), Lsn(0x16B3750), 0x0002A5B4C3D2E1F0, b"E")
_KEEPALIVE = Keepalive(Lsn(0x16B3748), 0x0002A5B4C3D2E1F0, True)


@pytest.mark.parametrize(("data", "envelope"), [(_W + b"E", _XLOG), (_K, _KEEPALIVE)], ids=["w", "k"])
def test_an_envelope_there_and_back(data: bytes, envelope: XLogData | Keepalive) -> None:
    assert envelope == decode_envelope(data)
    assert data == encode_envelope(envelope)


@pytest.mark.parametrize(
    "data",
    [
        *(_W[:length] for length in range(25)),
        *(_K[:length] for length in range(18)),
        _K + b"\0",
        _K[:-1] + b"\2",
        b"r" + _K,
    ],
)
def test_what_is_no_envelope_is_refused(data: bytes) -> None:
    with pytest.raises(DecodeError):
        decode_envelope(data)


def test_a_status_update_byte_by_byte() -> None:
    status = encode_status(write=Lsn(3), flush=Lsn(2), apply=Lsn(1), clock=-1, reply_requested=True)

    assert status == bytes.fromhex("72 0000000000000003 0000000000000002 0000000000000001 ffffffffffffffff 01")
