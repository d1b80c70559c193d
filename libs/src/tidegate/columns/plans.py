"""What is known of relations before their rows come, in the tables that kernels read: names, forms, envelopes, routes.

A plan is made once per version of a relation and kept; a frame picks the rows of the tables that its schema section
names. Invariant: equal bytes of a relation and its types are one plan, and a plan never changes.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from tidegate.columns import layout
from tidegate.columns.arrays import ARRAY, SEMICOLON
from tidegate.columns.envelopes import ROW_OPERATIONS, Envelope, EventSource, json_text
from tidegate.columns.layout import Slot
from tidegate.columns.memory import address_of
from tidegate.columns.text import SLACK
from tidegate.columns.values import Form
from tidegate.contracts.frame import Frame, SchemaRole
from tidegate.errors import DecodeError, RecordError
from tidegate.events import Operation
from tidegate.pgoutput.decode import decode_message
from tidegate.pgoutput.messages import Relation, Type
from tidegate.pgoutput.types import Kind, array_type, base_oid, kind_of

Route: TypeAlias = Callable[[str, str, Operation], str | None]
"""(schema, table, operation) to a topic, or None for what is not wanted. A RecordError refuses each such change."""

_CURRENT = SchemaRole.CURRENT
_NOWHERE = -1
_UNLIMITED = -1

# More live only on sources with very many tables; then all are planned anew.
PLANS_KEPT = 4096
_SECTIONS_KEPT = 256

# Slots that are neither rows nor names: six numbers of up to 20 digits, an id, two times, and what a row ends with.
_FIXED_SLOTS = 512
# In row, old and key: `false`, quotes, a number made of a time, or the mark of a value that was not sent.
_PER_VALUE = 3 * 40

_FORMS = {
    Kind.BOOL: Form.BOOL,
    Kind.INTEGER: Form.INTEGER,
    Kind.FLOAT: Form.FLOAT,
    Kind.BYTEA: Form.BYTEA,
    Kind.JSON: Form.JSON,
    Kind.TIMESTAMP: Form.TIMESTAMP,
    Kind.TIMESTAMPTZ: Form.TIMESTAMPTZ,
}
_KEY_FORMS = {**_FORMS, Kind.FLOAT: Form.KEY_FLOAT, Kind.NUMERIC: Form.KEY_NUMERIC}
_UNPADDED_KEY_FORMS = {**_KEY_FORMS, Kind.BPCHAR: Form.KEY_UNPADDED}


@dataclass(frozen=True, slots=True, eq=False)
class Shape:
    """One version of one relation. Compared by identity."""

    relation: Relation
    types: Mapping[int, Type]
    source: tuple[bytes, ...]
    """The messages it was made from, for a dead letter."""


@dataclass(frozen=True, slots=True)
class Section:
    """A frame's schema section as kernels read it: one row a relation, ascending by id."""

    ids: np.ndarray
    shapes: tuple[Shape, ...]
    relations: np.ndarray
    topics: np.ndarray
    """Index of the topic, by relation and operation; below 0 for what is not wanted."""
    widest: int
    is_arranged: bool
    """No two topics, so that any of its changes stand in the order of their topics."""
    values: np.ndarray
    """Scratch: a row a column of the widest relation."""
    seen: np.ndarray
    """Scratch: a row a relation."""
    tables: np.ndarray
    """Addresses of all that kernels read, as in `layout`."""


class Plans:
    """`columns`, `keys`, `steps` and `pieces` grow; what stands in them keeps its row until `_forget`."""

    def __init__(self, source: EventSource, route: Route, envelope: Envelope) -> None:
        self._source, self._route, self._envelope = source, route, envelope
        self._forget()

    def _forget(self) -> None:
        self.topics: list[str] = []
        self.refusals: dict[int, RecordError] = {}
        self._sections: dict[tuple[bytes, ...], Section] = {}
        # A section says where these stand: when one moves, all sections are made anew.
        moved = self._sections.clear
        self.columns = _Growing((layout.COLUMN_FIELDS,), np.int64, moved)
        self.keys = _Growing((), np.int64, moved)
        self.steps = _Growing((layout.STEP_FIELDS,), np.int64, moved)
        self.pieces = _Growing((), np.uint8, moved)
        self._relations = _Growing((layout.RELATION_FIELDS,), np.int64, moved)
        self._routes = _Growing((layout.OPERATIONS,), np.int64, moved)
        self._planned: dict[tuple[bytes, tuple[bytes, ...]], tuple[int, Shape]] = {}
        self._topic_places: dict[str, int] = {}

    def section(self, frame: Frame) -> Section:
        messages = tuple([entry.message for entry in frame.schema if entry.role is _CURRENT])
        found = self._sections.get(messages)
        if found is None:
            if len(self._planned) > PLANS_KEPT:
                self._forget()
            if len(self._sections) >= _SECTIONS_KEPT:
                self._sections.clear()
            found = self._sections[messages] = self._section(messages)
        return found

    def _section(self, messages: Sequence[bytes]) -> Section:
        types = tuple(raw for raw in messages if raw[:1] == b"Y")
        plans = (self._plan(raw, types) for raw in messages if raw[:1] == b"R")
        by_id = {shape.relation.relation_id: (place, shape) for place, shape in plans}
        ids = sorted(by_id)
        places = [by_id[id_][0] for id_ in ids]
        shapes = tuple(by_id[id_][1] for id_ in ids)
        widest = max((len(shape.relation.columns) for shape in shapes), default=0)
        relations, topics = self._relations.view[places], self._routes.view[places]
        values, seen = np.empty((widest, layout.VALUE_FIELDS), np.int64), np.empty((len(ids), 2), np.int64)
        shared = (self.columns.view, self.keys.view, self.steps.view, self.pieces.view)
        tables = np.array([address_of(table) for table in (relations, topics, *shared, values)], np.int64)
        is_arranged = len(np.unique(topics[topics != _NOWHERE])) < 2
        ids_ = np.array(ids, np.int64)
        return Section(ids_, shapes, relations, topics, widest, is_arranged, values, seen, tables)

    def _plan(self, raw: bytes, types: tuple[bytes, ...]) -> tuple[int, Shape]:
        found = self._planned.get((raw, types))
        if found is None:
            shape = _shape(raw, types)
            place = self._relations.append([self._relation(shape)])
            routes = [self._topic(shape.relation, operation) for operation in ROW_OPERATIONS]
            self._routes.append([routes])
            found = self._planned[raw, types] = (place, shape)
        return found

    def _topic(self, relation: Relation, operation: Operation) -> int:
        try:
            topic = self._route(relation.schema, relation.name, operation)
        except RecordError as error:
            self.topics.append("")
            self.refusals[len(self.topics) - 1] = error
            return len(self.topics) - 1
        if topic is None:
            return _NOWHERE
        if topic not in self._topic_places:
            self._topic_places[topic] = len(self.topics)
            self.topics.append(topic)
        return self._topic_places[topic]

    def _relation(self, shape: Shape) -> list[int]:
        relation = shape.relation
        keys = [place for place, column in enumerate(relation.columns) if column.is_key]
        names = [f",{json_text(column.name)}:".encode() for column in relation.columns]
        columns = [
            self._column(name, base_oid(column.type_oid, shape.types), column.typmod, column.is_key)
            for name, column in zip(names, relation.columns, strict=True)
        ]
        programs = [self._program(relation, operation) for operation in ROW_OPERATIONS]
        bound = max(constant for _, constant in programs) + _FIXED_SLOTS
        # A name stands in row, old and either key or unchanged.
        bound += 3 * sum(map(len, names)) + _PER_VALUE * len(names) + SLACK
        starts = [start for start, _ in programs]
        return [
            self.columns.append(columns),
            len(columns),
            self.keys.append(keys),
            len(keys),
            bound,
            *starts,
            len(self.steps),
        ]

    def _column(self, name: bytes, type_oid: int, typmod: int, is_key: bool) -> list[int]:
        key_forms = _UNPADDED_KEY_FORMS if typmod == _UNLIMITED else _KEY_FORMS
        forms = [self._form(type_oid, typmod, each) for each in (_FORMS, key_forms)]
        return [self._piece(name), len(name), *forms, is_key]

    def _form(self, type_oid: int, typmod: int, forms: Mapping[Kind, Form]) -> int:
        array = array_type(type_oid)
        oid = type_oid if array is None else array.element_oid
        own = self._envelope.forms.get(oid)
        form = int(forms.get(kind_of(oid), Form.TEXT) if own is None else own(typmod))
        if array is None:
            return form
        return ARRAY + form + (SEMICOLON if array.delimiter == b";" else 0)

    def _program(self, relation: Relation, operation: Operation) -> tuple[int, int]:
        """First step, and how many bytes are the same in each event."""
        steps = [
            (self._piece(piece), len(piece), slot)
            for piece, slot in _steps(self._envelope.program(relation, operation, self._source))
        ]
        return self.steps.append(steps), sum(length for _, length, _ in steps)

    def _piece(self, piece: bytes) -> int:
        return self.pieces.append(np.frombuffer(piece, np.uint8))


def _steps(envelope: Iterator[str | Slot]) -> Iterator[tuple[bytes, Slot]]:
    piece = ""
    for part in envelope:
        if isinstance(part, Slot):
            yield piece.encode(), part
            piece = ""
        else:
            piece += part
    yield piece.encode(), Slot.END


def _shape(raw: bytes, types: tuple[bytes, ...]) -> Shape:
    relation = decode_message(raw)
    described = [decode_message(type_) for type_ in types]
    if not isinstance(relation, Relation):  # the tag says it is one; this says it to the type checker
        raise DecodeError("the schema section holds something else than relations and types", code="FRAME_SCHEMA")
    named = {message.type_oid: message for message in described if isinstance(message, Type)}
    return Shape(relation, named, (raw, *types))


class _Growing:
    """Rows in an array that doubles, so that what has been appended is one array for a kernel at any time."""

    def __init__(self, shape: tuple[int, ...], dtype: type, moved: Callable[[], None]) -> None:
        self._rows: np.ndarray = np.zeros((1024, *shape), dtype)
        self._used = 0
        self._moved = moved

    def __len__(self) -> int:
        return self._used

    @property
    def view(self) -> np.ndarray:
        return self._rows

    def append(self, rows: "Sequence[object] | np.ndarray") -> int:
        """Where the first of them stands."""
        at, end = self._used, self._used + len(rows)
        # Kernels read names in words: SLACK rows behind the last one are always there.
        if end + SLACK > len(self._rows):
            larger = np.zeros((2 * (end + SLACK), *self._rows.shape[1:]), self._rows.dtype)
            larger[:at] = self._rows[:at]
            self._rows = larger
            self._moved()
        if len(rows):
            self._rows[at:end] = rows
        self._used = end
        return at
