"""A record of the schemas topic: what a relation looked like last, and before that. Key: generation and relation.

It is written before the frame that first needs the new shape, so a record may say what the raw topic never got: whoever
reads it takes the newest form that stands at or below the raw topic's tail, and that is why there are two.
"""

import base64
import json
from dataclasses import dataclass

from tidegate.contracts.document import load
from tidegate.contracts.fixed_width import decode_position, encode_position
from tidegate.errors import DecodeError
from tidegate.position import Position

VERSION = 1


@dataclass(frozen=True, slots=True)
class ShapeForm:
    """The messages as the server sent them, and the position of the first change that needed them."""

    position: Position
    relation: bytes
    types: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class ShapeRecord:
    generation: str
    relation_id: int
    current: ShapeForm
    previous: ShapeForm | None = None

    @property
    def key(self) -> bytes:
        return f"{self.generation}:{self.relation_id}".encode()

    def at(self, position: Position) -> ShapeForm | None:
        """The form that was in force there; none if it came later."""
        forms = (self.current, self.previous)
        return next((form for form in forms if form is not None and form.position <= position), None)

    def encode(self) -> bytes:
        document = {
            "version": VERSION,
            "generation": self.generation,
            "relation_id": self.relation_id,
            "current": _form(self.current),
            "previous": None if self.previous is None else _form(self.previous),
        }
        return json.dumps(document, separators=(",", ":"), sort_keys=True).encode()


def decode_shape_record(value: bytes) -> ShapeRecord:
    try:
        document = load(value)
        version, generation, relation_id = (document[name] for name in ("version", "generation", "relation_id"))
        previous = document["previous"]
        if version != VERSION or not isinstance(generation, str) or type(relation_id) is not int:
            raise ValueError("another version, or not of the right types")
        return ShapeRecord(
            generation,
            relation_id,
            _read_form(document["current"]),
            None if previous is None else _read_form(previous),
        )
    except (ValueError, KeyError, TypeError):
        raise DecodeError("this is not a record of the schemas topic", code="SHAPE_MALFORMED") from None


def _form(form: ShapeForm) -> dict[str, object]:
    return {
        "position": encode_position(form.position),
        "relation": base64.b64encode(form.relation).decode(),
        "types": [base64.b64encode(message).decode() for message in form.types],
    }


def _read_form(form: object) -> ShapeForm:
    if not isinstance(form, dict) or not isinstance(form["types"], list):
        raise ValueError("not a form")
    return ShapeForm(
        decode_position(form["position"]),
        base64.b64decode(form["relation"], validate=True),
        tuple(base64.b64decode(message, validate=True) for message in form["types"]),
    )
