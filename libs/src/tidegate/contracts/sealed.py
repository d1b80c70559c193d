"""One JSON object with a checksum over its other members: a value that says of itself whether it is whole and whose.

Redis values are read through connections that can mix replies up and from replicas that can be stale; a value is only
believed if its seal fits.
"""

import json

from crc32c import crc32c

from tidegate.contracts.document import SHORT_BYTES, load
from tidegate.errors import DecodeError

_SEAL = "checksum"
_ENCODER = json.JSONEncoder(separators=(",", ":"), sort_keys=True)


def seal(document: dict[str, object]) -> bytes:
    return _canonical({**document, _SEAL: _checksum(document)})


def unseal(value: bytes) -> dict[str, object]:
    try:
        document = load(value, limit=SHORT_BYTES)
        checksum, expected = document.pop(_SEAL), _checksum(document)
    except (ValueError, KeyError, RecursionError):
        raise DecodeError("this is not a sealed value", code="SEAL_MALFORMED") from None
    if checksum != expected:
        raise DecodeError("the seal does not fit the value", code="SEAL_BROKEN")
    return document


def _checksum(document: dict[str, object]) -> str:
    return f"{crc32c(_canonical(document)):08x}"


def _canonical(document: dict[str, object]) -> bytes:
    return _ENCODER.encode(document).encode()
