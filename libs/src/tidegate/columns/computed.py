"""Frames to frames with columns more: what expressions make of those that are there, all rows of a relation at once.

    computer = FrameComputer(means, {"total": parse_value("price * quantity")})
    made = computer.rewrite(frame, after)

| a row | its computed value |
| --- | --- |
| new, or old and sent whole | the value, or NULL |
| new, with a value that the expression needs and that was not sent | not sent either |
| old, of which the key was sent | NULL, as any other column that is not of the key |

Invariant: every change keeps its ordinal; a row whose value can't be computed exactly is refused, not rounded or left
out in silence.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.columns import layout
from tidegate.columns.batches import ChangeBatch, FrameDecoder
from tidegate.columns.cast_columns import Cast, NoRows
from tidegate.columns.cells import Cells, ConditionError, kind, written
from tidegate.columns.conditions import Batch
from tidegate.columns.envelopes import EventSource
from tidegate.columns.frames import Changes, scan_frame
from tidegate.columns.insertions import Insertion, inserted
from tidegate.columns.plans import PLANS_KEPT, Shape
from tidegate.columns.refusals import rejected
from tidegate.columns.rewrites import FrameRewriter, Rewritten, without
from tidegate.columns.schema_sections import SchemaSections
from tidegate.columns.snapshots import Taken, Takes
from tidegate.columns.typed import Caster, TypedBatch
from tidegate.config.expression import Value, columns_of
from tidegate.contracts.frame import Frame, FrameKind
from tidegate.errors import ConfigError, RecordError
from tidegate.pgoutput.messages import Column, Relation, Type
from tidegate.pgoutput.rewrite import Writer, Written
from tidegate.pgoutput.types import BUILT_IN
from tidegate.position import BEGINNING, Position
from tidegate.quoting import qualified

_TYPES: Final = {
    "number": BUILT_IN["numeric"],
    "float": BUILT_IN["float8"],
    "text": BUILT_IN["text"],
    "boolean": BUILT_IN["bool"],
}
Means: TypeAlias = Callable[[str, str], bool | None]
"""By schema and table: None, not meant; True, a column that is missing there stops the lane."""
_NO_TYPMOD = -1
_BYTES = pa.large_binary()
_EMPTY = pa.scalar(b"", _BYTES)
_NULL, _UNSENT, _TEXT = (pa.scalar(tag, _BYTES) for tag in (b"n", b"u", b"t"))
_TRUE, _FALSE = (pa.scalar(text, _BYTES) for text in (b"t", b"f"))


class _Computed(NamedTuple):
    values: tuple[Value, ...]
    columns: tuple[Column, ...]


class FrameComputer:
    """Of one transform. Not for two threads at once."""

    def __init__(self, means: Means, takes: Takes, values: Mapping[str, Value], *, marks_fit: bool = True) -> None:
        """`marks_fit`: what can't be computed of a shape is refused at the mark already that leads into it, not only at
        its first row. Nothing is computed, or refused, of what is not taken."""
        self._means, self._values, self._marks_fit = means, values, marks_fit
        self._names = frozenset().union(*map(columns_of, values.values()))
        self._sections = Taken(takes)
        self._decoder, self._caster = FrameDecoder(EventSource("", "", 0)), Caster()
        self._needed = FrameRewriter(self._columns_needed, takes)
        self._schemas = SchemaSections(self._relation)
        self._computed: dict[Shape, _Computed] = {}

    def mean(self, relation: Relation) -> bool:
        """A relation without columns has no row to compute from."""
        return bool(relation.columns) and self._means(relation.schema, relation.name) is not None

    def rewrite(self, frame: Frame, after: Position = BEGINNING) -> Rewritten:
        """A snapshot frame comes as `frame_of_rows` makes it."""
        is_mark = frame.header.kind is FrameKind.MARK
        schema = self._schemas.of(frame.schema, is_strict=self._marks_fit or not is_mark)
        if schema == frame.schema or is_mark:
            return Rewritten(replace(frame, schema=schema))
        section = self._sections.section(frame)
        changes = scan_frame(frame, after, section, section.topics)
        insertions, refused = self._insertions(frame, after, changes)
        if not refused:
            return Rewritten(replace(frame, schema=schema, body=inserted(changes, insertions)))
        letters = tuple(rejected(changes, row, error) for row, error in sorted(refused.items()))
        left = np.ones(len(changes.rows), np.bool_)
        left[list(refused)] = False
        rest = self.rewrite(replace(frame, body=without(changes, left)), after)
        return Rewritten(rest.frame, letters)

    def _insertions(
        self, frame: Frame, after: Position, changes: Changes
    ) -> tuple[list[Insertion], dict[int, RecordError]]:
        needed = self._needed.rewrite(frame, after).frame
        decoded = self._decoder.placed(needed, after, changes.section.topics, self.mean)
        found = {
            batch.shape.relation.relation_id: _Decoded(batch, self._caster.cast(batch), places)
            for batch, places in decoded
            if len(places)
        }
        is_row = changes.rows[:, layout.OPERATION] != layout.TRUNCATE
        insertions: list[Insertion] = []
        refused: dict[int, RecordError] = {}
        for number, shape in enumerate(changes.section.shapes):
            computed = self._of(shape) if self.mean(shape.relation) else _NOTHING
            if not computed.columns:
                continue
            is_of_it = is_row & (changes.rows[:, layout.RELATION] == number)
            for side in (layout.OLD, layout.NEW):
                rows = np.flatnonzero(is_of_it & (changes.rows[:, side] != layout.NONE))
                if len(rows):
                    values, lost = _values(computed, side, changes, rows, found.get(shape.relation.relation_id))
                    refused |= dict.fromkeys(lost.tolist(), _beyond(shape.relation))
                    insertions.append(Insertion(rows, side, len(shape.relation.columns), len(computed.columns), values))
        return insertions, refused

    def _columns_needed(self, relation: Relation, *_: object) -> Sequence[Written]:
        """One at least, so that there are rows to put a constant into."""
        own = {column.name for column in relation.columns}
        names = (self._names & own or {relation.columns[0].name}) if self.mean(relation) else frozenset()
        return [Written(column, Writer.COPY if column.name in names else Writer.DROP) for column in relation.columns]

    def _relation(self, relation: Relation, types: Mapping[int, Type], is_strict: bool) -> Relation:
        if not self.mean(relation):
            return relation
        columns = self._fitting(Shape(relation, types, ()), is_strict=is_strict).columns
        return replace(relation, columns=(*relation.columns, *columns))

    def _of(self, shape: Shape) -> _Computed:
        found = self._computed.get(shape)
        if found is None:
            if len(self._computed) >= PLANS_KEPT:
                self._computed.clear()
            found = self._computed[shape] = self._fitting(shape, is_strict=True)
        return found

    def _fitting(self, shape: Shape, *, is_strict: bool) -> _Computed:
        """What can be computed of such rows. Of a shape that was before, nothing is refused: no row of it will come."""
        relation = shape.relation
        stops = is_strict and bool(self._means(relation.schema, relation.name))
        names = {column.name for column in relation.columns}
        batch = Batch(0, NoRows(shape, self._caster.schema(shape)))
        made: list[tuple[Value, Column]] = []
        for name, value in self._values.items():
            missing = sorted(columns_of(value) - names)
            if missing:
                if stops:
                    raise _missing(relation, missing[0])
                continue
            if name in names and is_strict:
                raise _taken(relation, name)
            try:
                column = Column(0, name, _type(batch.value(value)), _NO_TYPMOD)
            except ConditionError as error:
                if is_strict:
                    raise _unfit(relation, name, error) from None
                continue
            made.append((value, column))
        return _Computed(tuple(value for value, _ in made), tuple(column for _, column in made))


def _type(cells: Cells) -> int:
    found = _TYPES.get(kind(cells.values.type))
    if found is None:
        raise ConditionError("only texts, numbers and booleans can be what comes out")
    return found


_NOTHING = _Computed((), ())


class _Decoded(NamedTuple):
    batch: ChangeBatch
    typed: TypedBatch
    places: np.ndarray
    """Of its rows among all changes, ascending."""


def _values(
    computed: _Computed, side: int, changes: Changes, rows: np.ndarray, found: _Decoded | None
) -> tuple[pa.Array, np.ndarray]:
    """For each of these changes, as a tuple has them; and those whose values can't be computed. A change that is not
    among those found has a value in binary form: whoever reads all of it refuses it."""
    if found is None:
        return _joined([pa.repeat(_NULL, len(rows))] * len(computed.columns)), rows[:0]
    batch, typed, places = found
    is_old = side == layout.OLD
    at = np.minimum(np.searchsorted(places, rows), len(places) - 1)
    is_asked = places[at] == rows
    if is_old:
        is_asked &= changes.rows[rows, layout.OLD_KIND] == layout.WHOLE
    cast = Cast(batch, typed, np.full(len(batch), is_old))
    made = Batch(len(batch), cast)
    cells = [made.value(value) for value in computed.values]
    unknown = np.logical_or.reduce([each.unknown for each in cells])
    is_lost = unknown & (cast.uncomparable | made.lost)
    wanted = pa.array(at, mask=~is_asked)
    values = [pc.fill_null(_encoded(each).take(wanted), _NULL) for each in cells]
    return _joined(values), rows[is_asked & is_lost[at]]


def _encoded(cells: Cells) -> pa.Array:
    """As a tuple of pgoutput has a value."""
    if kind(cells.values.type) == "boolean":
        texts = pc.if_else(cells.values, _TRUE, _FALSE)
    else:
        texts = pc.cast(written(cells), _BYTES)
    lengths = np.asarray(pc.fill_null(pc.binary_length(texts), 0)).astype(">u4")
    heads = pa.Array.from_buffers(pa.binary(4), len(texts), [None, pa.py_buffer(lengths.tobytes())]).cast(_BYTES)
    values = pc.fill_null(pc.binary_join_element_wise(_TEXT, heads, texts, _EMPTY), _NULL)
    return pc.if_else(pa.array(cells.unknown), _UNSENT, values)


def _joined(suffixes: Sequence[pa.Array]) -> pa.Array:
    return pc.binary_join_element_wise(*suffixes, _EMPTY)


def _missing(relation: Relation, column: str) -> ConfigError:
    return ConfigError(
        f"{qualified(relation.schema, relation.name)} has no column {column} that a value is computed from",
        code="TRANSFORM_COLUMN_MISSING",
        remedy="Mend the name; transforms go by the names that those before left. If the column was renamed or "
        "dropped, set missing: ignore until the lane has passed the changes from before.",
    )


def _taken(relation: Relation, column: str) -> ConfigError:
    return ConfigError(
        f"two columns of {qualified(relation.schema, relation.name)} would be named {column}",
        code="TRANSFORM_NAME_TAKEN",
        remedy="Choose another name, or drop or rename the column that has it.",
    )


def _unfit(relation: Relation, column: str, error: ConditionError) -> ConfigError:
    return ConfigError(
        f"{column} can't be computed of the columns of {qualified(relation.schema, relation.name)}: {error}",
        code="TRANSFORM_VALUE",
        remedy="Put together what is of one kind; docs/reference/transforms.md says what may be done to which.",
    )


def _beyond(relation: Relation) -> RecordError:
    return RecordError(
        f"a value in {qualified(relation.schema, relation.name)} is beyond what is computed in",
        code="COMPUTED_BEYOND",
        remedy="Numbers are exact: 19 digits before the point and 18 behind it, no NaN and no infinity. Choose another "
        "value for such rows with CASE, or round first, and replay it.",
    )
