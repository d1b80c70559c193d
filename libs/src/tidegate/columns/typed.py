"""Change batches of text to typed record batches: the same rows and columns, each value in the type of its own.

    typed = Caster().cast(change_batch)
    typed.rows, typed.unsent, typed.beyond

Invariant: a cell of the typed batch is the value, or null; and a null is one of three, told apart by the masks: NULL,
not sent (`unsent`), or a value that the column's type can't hold (`beyond`: infinity in a timestamp, NaN in a decimal,
an array of two dimensions in a list). The text of what is beyond stands at the same place in the batch it came from.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from tidegate.columns.batches import HEAD, ChangeBatch
from tidegate.columns.cast_kernels import Cell, cast_columns
from tidegate.columns.cast_nested import cast_text
from tidegate.columns.casts import Arrays, Cast, cast_of, settle_floats
from tidegate.columns.plans import PLANS_KEPT, Shape
from tidegate.columns.record_batches import BatchLayout
from tidegate.columns.refusals import RejectedChange

_COPY = (int(Cell.COPY), 0, 0, 0, 0)
_FIRST = len(HEAD)


class TypedBatch(NamedTuple):
    shape: Shape
    rows: pa.RecordBatch
    unsent: Mapping[int, pa.Array]
    beyond: Mapping[int, pa.Array]
    """By the column's place in `rows`, only columns that have such values."""
    rejected: tuple[RejectedChange, ...] = ()


class _Plan:
    """Of shapes with equal columns: how each is cast, and the layout of what the kernel writes."""

    def __init__(self, columns: Sequence[str], casts: Sequence[Cast]) -> None:
        self.casts = (*casts, *casts)
        self.numbers = np.array([_COPY] * _FIRST + [cast.numbers for cast in self.casts], np.int64)
        names = [f"{side}.{column}" for side in ("new", "old") for column in columns]
        flat = [pa.field(name, cast.flat_type) for name, cast in zip(names, self.casts, strict=True)]
        self.layout = BatchLayout(pa.schema([*HEAD, *flat]))
        typed = [pa.field(name, cast.type) for name, cast in zip(names, self.casts, strict=True)]
        self.schema = pa.schema([*HEAD, *typed])
        self.nested = [(_FIRST + at, cast) for at, cast in enumerate(self.casts) if cast.nest is not None]


class Caster:
    """Keeps the plans of the shapes it has seen. Not for two threads at once."""

    def __init__(self, arrays: Arrays = Arrays.LISTS) -> None:
        self._arrays = arrays
        self._plans: dict[Shape, _Plan] = {}
        self._plans_of: dict[tuple[tuple[str, ...], tuple[Cast, ...]], _Plan] = {}

    def schema(self, shape: Shape) -> pa.Schema:
        return (self._plans.get(shape) or self._plan(shape)).schema

    def cast(self, batch: ChangeBatch) -> TypedBatch:
        plan = self._plans.get(batch.shape) or self._plan(batch.shape)
        layout = plan.layout
        message, marks = cast_columns(batch.message, batch.layout.form, 0, plan.numbers, layout.form)
        beyond: dict[int, pa.Array] = {}
        if marks:
            _settle(batch, plan, message)
            beyond = layout.marked(message)
        flat = layout.read(message)
        typed = _nested(flat, plan, beyond) if plan.nested else flat
        return TypedBatch(batch.shape, typed, batch.unsent, beyond, batch.rejected)

    def _plan(self, shape: Shape) -> _Plan:
        if len(self._plans) >= PLANS_KEPT:
            self._plans.clear()
            self._plans_of.clear()
        columns = shape.relation.columns
        casts = tuple(cast_of(each.type_oid, each.typmod, shape.types, self._arrays) for each in columns)
        names = tuple(column.name for column in columns)
        found = self._plans_of.get((names, casts))
        if found is None:
            found = self._plans_of[names, casts] = _Plan(names, casts)
        self._plans[shape] = found
        return found


def _settle(batch: ChangeBatch, plan: _Plan, message: np.ndarray) -> None:
    marks = plan.layout.marks(message)
    for at in np.flatnonzero(marks.any(axis=1)).tolist():
        cast: Cast = plan.casts[at - _FIRST]
        if cast.cell is Cell.FLOAT:
            texts = batch.rows.column(at)
            settle_floats(cast, lambda row, texts=texts: texts[row].as_py(), plan.layout, message, at)  # type: ignore[misc]


def _nested(flat: pa.RecordBatch, plan: _Plan, beyond: dict[int, pa.Array]) -> pa.RecordBatch:
    columns = flat.columns
    for at, cast in plan.nested:
        typed = cast_text(columns[at], cast)
        columns[at] = typed.values
        if typed.beyond is not None:
            beyond[at] = pa.array(typed.beyond)
    return pa.RecordBatch.from_arrays(columns, schema=plan.schema)
