"""The cursor: where a lane reads on. It travels with the sink's own commit and may go back (a rewind).

For a Kafka sink it is the metadata of the committed offset in the lane's consumer group. A missing cursor is never
guessed, and an offset counts only with the id of its topic.
"""

import re
from dataclasses import dataclass

from tidegate.contracts.ack import decode_fixed_lsn, decode_position, encode_fixed_lsn, encode_position
from tidegate.contracts.document import build
from tidegate.contracts.sealed import seal, unseal
from tidegate.errors import DecodeError
from tidegate.lsn import Lsn
from tidegate.position import Position

MOST_REFUSED_SHAPES = 16
"""Kafka keeps 4 kB beside an offset (offset.metadata.max.bytes); with so many of the longest a cursor has 3.5."""

_SHAPE = re.compile("[0-9a-f]{16}", re.ASCII)


@dataclass(frozen=True, slots=True)
class RefusedShape:
    """A shape of a table whose rows this lane delivers as dead letters."""

    shape: str
    """BLAKE2b-64 of the Relation message that describes it, in hexadecimal digits."""
    accepted: str
    """The one that was delivered before it: rows of that are again."""
    kinds: tuple[str, ...]
    """What had changed, of which the policy is dead_letter."""


@dataclass(frozen=True, slots=True)
class Cursor:
    generation: str
    topic_id: str
    epoch: int
    epoch_nonce: str
    seq: int
    next_offset: int
    position: Position
    safe_lsn: Lsn
    config_epoch: str
    incarnation: int
    rewound_from: Position | None = None
    """Where the lane was when it was rewound, until it has passed that again: what it needs is what lies behind its own
    position then, whatever it has acked."""
    refused: tuple[RefusedShape, ...] = ()

    def encode(self) -> str:
        rewound = {} if self.rewound_from is None else {"rewound_from": encode_position(self.rewound_from)}
        refused = {"refused": [_refused_members(each) for each in self.refused]} if self.refused else {}
        return seal(
            {
                **rewound,
                **refused,
                "generation": self.generation,
                "topic_id": self.topic_id,
                "epoch": self.epoch,
                "epoch_nonce": self.epoch_nonce,
                "seq": self.seq,
                "next_offset": self.next_offset,
                "position": encode_position(self.position),
                "safe_lsn": encode_fixed_lsn(self.safe_lsn),
                "config_epoch": self.config_epoch,
                "incarnation": self.incarnation,
            }
        ).decode()


def decode_cursor(metadata: str) -> Cursor:
    document = unseal(metadata.encode(errors="surrogatepass"))
    try:
        rewound = document.get("rewound_from")
        cursor = build(
            Cursor,
            document
            | {
                "position": decode_position(document["position"]),
                "safe_lsn": decode_fixed_lsn(document["safe_lsn"]),
                "rewound_from": None if rewound is None else decode_position(rewound),
                "refused": tuple(map(_refused_shape, _list(document.get("refused", [])))),
            },
        )
        bytes.fromhex(cursor.epoch_nonce)
        return cursor
    except (KeyError, ValueError):
        raise DecodeError("this cursor lacks what a cursor must say", code="CURSOR_MALFORMED") from None


def _refused_members(shape: RefusedShape) -> dict[str, object]:
    return {"shape": shape.shape, "accepted": shape.accepted, "kinds": list(shape.kinds)}


def _refused_shape(members: object) -> RefusedShape:
    if not isinstance(members, dict):
        raise ValueError("not an object")
    kinds = _list(members["kinds"])
    shape = build(RefusedShape, members | {"kinds": tuple(kinds)})
    if not all(isinstance(kind, str) for kind in kinds) or not all(
        map(_SHAPE.fullmatch, (shape.shape, shape.accepted))
    ):
        raise ValueError("not a refused shape")
    return shape


def _list(value: object) -> list[object]:
    if not isinstance(value, list):
        raise ValueError("not a list")
    return value
