"""The last Relation and Type messages of the session, as bytes: what a frame's schema section is made of.

Invariant: an entry is what the server sent, so a schema version computed from a frame is the stream's own.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from tidegate.contracts.frame import SchemaEntry, SchemaRole
from tidegate.errors import StreamError
from tidegate.pgoutput.decode import decode_message
from tidegate.pgoutput.messages import Relation, Type

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

    def entries(self, role: SchemaRole) -> list[SchemaEntry]:
        return [SchemaEntry(role, message) for message in (*self.types, self.relation)]


class ShapeBook:
    def __init__(self) -> None:
        self._shapes: dict[int, Shape] = {}
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
        previous = self._shapes.get(shape.relation_id)
        self._shapes[shape.relation_id] = shape
        return previous, shape

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
