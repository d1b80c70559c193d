"""One JSON object with a checksum over its other members: a value that says of itself whether it is whole and whose.

Redis values are read through connections that can mix replies up and from replicas that can be stale; a value is only
believed if its seal fits.
"""

import json

from crc32c import crc32c

from tidegate.contracts.document import SHORT_BYTES, load
from tidegate.errors import DecodeError

_SEAL = "checksum"
_BEFORE, _AFTER = b'{"checksum":"', b'",'
_HEX_AT, _REST_AT = 13, 23
"""Of a value as `seal` writes it: where the checksum begins, and the members that it covers."""
_ENCODER = json.JSONEncoder(separators=(",", ":"), sort_keys=True)


def seal(document: dict[str, object]) -> bytes:
    members = _canonical(document)
    if document and min(document) > _SEAL:  # it comes first: the members need not be written again
        return _BEFORE + f"{crc32c(members):08x}".encode() + _AFTER + members[1:]
    return _canonical({**document, _SEAL: _checksum(document)})


def unseal(value: bytes) -> dict[str, object]:
    try:
        document = load(value, limit=SHORT_BYTES)
        checksum = document.pop(_SEAL)
        is_whole = _fits_as_written(value) or checksum == _checksum(document)
    except (ValueError, KeyError, RecursionError):
        raise DecodeError("this is not a sealed value", code="SEAL_MALFORMED") from None
    if not is_whole:
        raise DecodeError("the seal does not fit the value", code="SEAL_BROKEN")
    return document


def _fits_as_written(value: bytes) -> bool:
    """Without writing the document again, which takes longer than to read it; no answer for other ways to write it."""
    if value[:_HEX_AT] != _BEFORE or value[_REST_AT - 2 : _REST_AT] != _AFTER:
        return False
    return value[_HEX_AT : _REST_AT - 2] == f"{crc32c(b'{' + value[_REST_AT:]):08x}".encode()


def _checksum(document: dict[str, object]) -> str:
    return f"{crc32c(_canonical(document)):08x}"


def _canonical(document: dict[str, object]) -> bytes:
    return _ENCODER.encode(document).encode()
