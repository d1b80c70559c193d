"""Shapes of tables whose rows a lane does not deliver, with the stretch of the stream for which that holds.

Kept in the cursor and in the ack that stands in for it. What was refused stays known behind its stretch: a lane that is
rewound into it refuses the same rows again, and no others of that shape.
"""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from tidegate.contracts.document import build
from tidegate.contracts.fixed_width import decode_position, encode_position
from tidegate.position import BEGINNING, Position

_MOST_BYTES = 3072
"""Kafka keeps 4 kB beside an offset (offset.metadata.max.bytes), and the rest of a cursor has 0.5: 11 of the longest,
14 with one kind of change each."""

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
    since: Position = BEGINNING
    """Of the first change behind the mark that led into it."""
    until: Position | None = None
    """Of the first change behind a mark that led into it again and was accepted."""

    def holds(self, position: Position) -> bool:
        """Whether a row of this shape is refused there."""
        return self.since <= position and (self.until is None or position < self.until)

    def holds_before(self, position: Position) -> bool:
        """Whether a row immediately before it is."""
        return self.since < position and (self.until is None or position <= self.until)

    def to_json(self) -> dict[str, object]:
        until = {} if self.until is None else {"until": encode_position(self.until)}
        since = {"since": encode_position(self.since)}
        return {"shape": self.shape, "accepted": self.accepted, "kinds": list(self.kinds), **since, **until}


def members_of(refused: Iterable[RefusedShape]) -> dict[str, object]:
    """Of a document that says what is refused; none if nothing is."""
    documents = [each.to_json() for each in refused]
    return {"refused": documents} if documents else {}


def refused_shapes(document: dict[str, object]) -> tuple[RefusedShape, ...]:
    """As `members_of` wrote them, or ValueError."""
    return tuple(map(_refused_shape, _list(document.get("refused", []))))


def are_too_many(refused: Iterable[RefusedShape]) -> bool:
    """For a cursor, once all of them have an end."""
    ended = [replace(each, until=each.until or each.since).to_json() for each in refused]
    return len(json.dumps(ended, separators=(",", ":"))) > _MOST_BYTES


def _refused_shape(members: object) -> RefusedShape:
    if not isinstance(members, dict):
        raise ValueError("not an object")
    kinds, since, until = _list(members["kinds"]), members.get("since"), members.get("until")
    stretch = {
        "since": BEGINNING if since is None else decode_position(since),
        "until": None if until is None else decode_position(until),
    }
    shape = build(RefusedShape, members | {"kinds": tuple(kinds)} | stretch)
    if not all(isinstance(kind, str) for kind in kinds):
        raise ValueError("not the kinds of a change")
    if not all(map(_SHAPE.fullmatch, (shape.shape, shape.accepted))):
        raise ValueError("not a shape")
    return shape


def _list(value: object) -> list[object]:
    if not isinstance(value, list):
        raise ValueError("not a list")
    return value
