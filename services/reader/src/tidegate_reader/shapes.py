"""The last Relation and Type messages of the session, as bytes: what a frame's schema section is made of.

Invariant: an entry is what the server sent, so a schema version computed from a frame is the stream's own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tidegate.contracts.frame import SchemaEntry, SchemaRole
from tidegate.contracts.mark import Mark, MarkKind
from tidegate.contracts.shape import ShapeForm, ShapeRecord
from tidegate.errors import StreamError
from tidegate.pgoutput.decode import decode_message
from tidegate.pgoutput.messages import Relation, Type
from tidegate.position import BEGINNING, Position

# Lower OIDs are initdb's and mean the same on every server (FirstNormalObjectId, access/transam.h).
FIRST_USER_OID = 16384
_ENTRY_BYTES = 5


@dataclass(frozen=True, slots=True)
class Shape:
    """One relation with the user-defined types of its columns."""

    relation_id: int
    schema: str
    table: str
    relation: bytes
    types: tuple[bytes, ...]

    @property
    def size(self) -> int:
        """An upper bound: types that two relations share are written once."""
        return sum(_ENTRY_BYTES + len(message) for message in (self.relation, *self.types))

    def form(self, position: Position) -> ShapeForm:
        return ShapeForm(position, self.relation, self.types)

    def entries(self, role: SchemaRole) -> list[SchemaEntry]:
        return [SchemaEntry(role, message) for message in (*self.types, self.relation)]

    def before(self, current: Shape) -> tuple[SchemaEntry, ...]:
        """Schema section of the mark that stands between the two."""
        return (*self.entries(SchemaRole.PREVIOUS), *current.entries(SchemaRole.CURRENT))

    def mark(self, kind: MarkKind, **more: object) -> bytes:
        named: dict[str, object] = {"schema": self.schema, "table": self.table, "relation_id": self.relation_id}
        return Mark(kind, named | more).encode()


@dataclass(frozen=True, slots=True)
class NewShape:
    """A shape that the schemas topic does not have yet, and the one it takes the place of."""

    shape: Shape
    position: Position
    previous: Shape | None
    previous_position: Position

    def record(self, generation: str) -> ShapeRecord:
        before = None if self.previous is None else self.previous.form(self.previous_position)
        return ShapeRecord(generation, self.shape.relation_id, self.shape.form(self.position), before)


def known_shape(form: ShapeForm) -> Shape:
    decoded = decode_message(form.relation)
    assert isinstance(decoded, Relation)
    return Shape(decoded.relation_id, decoded.schema, decoded.name, form.relation, form.types)


class ShapeBook:
    """`known`: from the schemas topic, what the session before has seen last."""

    def __init__(self, known: Mapping[int, Shape]) -> None:
        self._known = known
        self._shapes: dict[int, Shape] = {}
        self._since: dict[int, Position] = {}
        self._new: list[NewShape] = []
        self._types: dict[int, bytes] = {}

    def learn_type(self, message: bytes) -> None:
        decoded = decode_message(message)
        if isinstance(decoded, Type):
            self._types[decoded.type_oid] = message

    def learn_relation(self, message: bytes) -> tuple[Shape | None, Shape]:
        """The shape known before and the one known now; the server announces types before the relation."""
        decoded = decode_message(message)
        if not isinstance(decoded, Relation):
            raise StreamError("this is not a Relation message", code="PROTOCOL_RELATION", remedy="Report this.")
        oids = dict.fromkeys(column.type_oid for column in decoded.columns if column.type_oid >= FIRST_USER_OID)
        types = tuple(self._types[oid] for oid in oids if oid in self._types)
        shape = Shape(decoded.relation_id, decoded.schema, decoded.name, message, types)
        previous = self._shapes.get(shape.relation_id) or self._known.get(shape.relation_id)
        self._shapes[shape.relation_id] = shape
        return previous, shape

    def note(self, shape: Shape, previous: Shape | None, position: Position) -> None:
        """In force from this position on."""
        since = self._since.get(shape.relation_id, BEGINNING)
        self._new.append(NewShape(shape, position, previous, since))
        self._since[shape.relation_id] = position

    def take_new(self) -> list[NewShape]:
        new, self._new = self._new, []
        return new

    def size_of(self, relation_ids: Iterable[int]) -> int:
        return sum(self.shape(each).size for each in relation_ids)

    def shape(self, relation_id: int) -> Shape:
        try:
            return self._shapes[relation_id]
        except KeyError:
            raise StreamError(
                f"a change of relation {relation_id}, which the server never described",
                code="PROTOCOL_UNKNOWN_RELATION",
                remedy="Restart the reader: a new session describes every relation again. Report this if it repeats.",
            ) from None


def section(shapes: Iterable[Shape]) -> tuple[SchemaEntry, ...]:
    """What these shapes need to be decoded, each message once."""
    entries = {entry.message: entry for shape in shapes for entry in shape.entries(SchemaRole.CURRENT)}
    return tuple(entries.values())
