"""A dead letter: one record that can never be delivered, durable before its position is passed.

It carries what is needed to try again without the raw topic: the relation's messages and the change as received.
`payload` and `schema` are row data; whoever may read states may not thereby read them, and they never reach a log.
"""

import base64
import json
import re
from dataclasses import asdict, dataclass, fields

from tidegate.contracts.document import build, load
from tidegate.contracts.fixed_width import decode_position, encode_position
from tidegate.errors import DecodeError
from tidegate.position import Position

VERSION = 1
_ID = re.compile(r"[0-9a-f]{32}", re.ASCII)


@dataclass(frozen=True, slots=True)
class FrameAddress:
    topic_id: str
    offset: int
    epoch: int
    seq: int


@dataclass(frozen=True, slots=True)
class DeadLetter:
    id: str
    """Derived from lane, generation and position, so that the same failure found twice is the same dead letter: 32
    hexadecimal digits, which paths and pages take as they are."""
    pipeline: str
    lane: str
    generation: str
    frame: FrameAddress
    position: Position
    channel: str
    operation: str
    code: str
    message: str
    remedy: str
    time: int
    """Unix microseconds."""
    payload: bytes
    schema: tuple[bytes, ...]
    attempts: int = 1
    xid: int | None = None
    """With `commit_time` and `lsn`, what an event says of its transaction: a change delivered later is the same event.
    None: it stands in none."""
    commit_time: int | None = None
    """PostgreSQL's microseconds."""
    lsn: int | None = None

    def encode(self) -> bytes:
        document = {name: getattr(self, name) for name in _MEMBERS} | {
            "version": VERSION,
            "frame": asdict(self.frame),
            "position": encode_position(self.position),
            "payload": base64.b64encode(self.payload).decode(),
            "schema": [base64.b64encode(message).decode() for message in self.schema],
        }
        for name in ("xid", "commit_time", "lsn"):
            if document[name] is None:
                del document[name]
        return json.dumps(document, separators=(",", ":"), sort_keys=True).encode()


_MEMBERS = tuple(each.name for each in fields(DeadLetter))
"""`asdict` copies what is in them, all the way down: half of a letter's time."""


def decode_dead_letter(value: bytes) -> DeadLetter:
    try:
        document = load(value)
        version = document.pop("version")
        if type(version) is int and version > VERSION:
            raise DecodeError(
                "this dead letter's format version is not known here",
                code="DEAD_LETTER_VERSION",
                remedy="Update this service to at least the version of the processor that wrote it.",
            )
        if type(version) is not int or version < 1:
            raise ValueError("not a version")
        if not is_letter_id(document["id"]):
            raise ValueError("not an id")
        return build(
            DeadLetter,
            document
            | {
                "frame": build(FrameAddress, document["frame"]),
                "position": decode_position(document["position"]),
                "payload": _binary(document["payload"]),
                "schema": _binaries(document["schema"]),
            },
        )
    except (ValueError, KeyError):
        raise DecodeError("this is not a dead letter", code="DEAD_LETTER_MALFORMED") from None


def is_letter_id(text: object) -> bool:
    return isinstance(text, str) and _ID.fullmatch(text) is not None


def _binaries(texts: object) -> tuple[bytes, ...]:
    if not isinstance(texts, list):
        raise ValueError("not a list")
    return tuple(map(_binary, texts))


def _binary(text: object) -> bytes:
    if not isinstance(text, str):
        raise ValueError("not base64")
    return base64.b64decode(text, validate=True)
