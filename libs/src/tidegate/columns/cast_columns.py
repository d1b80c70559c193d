"""The columns of one side of changes, old or new, as expressions take them: cast, and what is not known of each told.

Numbers are exact decimals, uuids texts. Invariant: a value that its type can't hold is not known, and noted; and what
was not sent is not known, unless it is certain from the other side.
"""

from collections.abc import Callable, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.columns import layout
from tidegate.columns.batches import HEAD, ChangeBatch
from tidegate.columns.cells import Cells, as_number
from tidegate.columns.plans import Shape
from tidegate.columns.typed import TypedBatch
from tidegate.pgoutput.types import BUILT_IN, base_oid

_FIRST = len(HEAD)
_OLD_KIND = [each.name for each in HEAD].index("old_kind")
_NUMERIC, _UUID = BUILT_IN["numeric"], BUILT_IN["uuid"]


class Cast:
    """By name. `is_old` tells of each change whether its old row is meant."""

    def __init__(self, batch: ChangeBatch, typed: TypedBatch, is_old: np.ndarray) -> None:
        self.shape = batch.shape
        self.operations = np.asarray(batch.rows.column(0))
        self.uncomparable = np.zeros(len(batch), np.bool_)
        """Rows with a value, among those asked for, that its type can't hold."""
        self._batch, self._typed, self._is_old = batch, typed, is_old
        self._has_whole_old = np.asarray(batch.rows.column(_OLD_KIND)) == layout.WHOLE
        self._places = {column.name: place for place, column in enumerate(self.shape.relation.columns)}

    def __call__(self, name: str) -> Cells:
        place = self._places[name]
        new, old = _FIRST + place, _FIRST + len(self._places) + place
        # What an update left alone stands in its old row, if the server sent that whole.
        is_old = self._is_old | self._mask(new, self._batch.unsent) & self._has_whole_old

        def of_its_side(column: Callable[[int], pa.Array]) -> pa.Array:
            return pc.if_else(pa.array(is_old), column(old), column(new))

        def mask(masks: Mapping[int, pa.Array]) -> np.ndarray:
            return np.where(is_old, self._mask(old, masks), self._mask(new, masks))

        source = self._batch if _oid(self.shape, place) == _UUID else self._typed
        beyond, unsent = mask(self._typed.beyond), mask(self._batch.unsent)
        cells = _taken(self.shape, place, Cells(of_its_side(source.rows.column), unsent))
        beyond |= cells.unknown & ~unsent
        self.uncomparable |= beyond
        return Cells(cells.values, unsent | beyond)

    def _mask(self, at: int, masks: Mapping[int, pa.Array]) -> np.ndarray:
        found = masks.get(at)
        return np.zeros(len(self._batch), np.bool_) if found is None else np.asarray(found)


class NoRows:
    """The columns of a shape, without a row: for what an expression makes of their types."""

    def __init__(self, shape: Shape, schema: pa.Schema) -> None:
        self._shape, self._schema = shape, schema
        self._places = {column.name: place for place, column in enumerate(shape.relation.columns)}

    def __call__(self, name: str) -> Cells:
        place = self._places[name]
        is_text = _oid(self._shape, place) == _UUID
        type_ = pa.large_binary() if is_text else self._schema.field(_FIRST + place).type
        return _taken(self._shape, place, Cells(pa.array([], type_), np.zeros(0, np.bool_)))


def _oid(shape: Shape, place: int) -> int:
    return base_oid(shape.relation.columns[place].type_oid, shape.types)


def _taken(shape: Shape, place: int, cells: Cells) -> Cells:
    oid, type_ = _oid(shape, place), cells.values.type
    if oid == _UUID:
        return Cells(pc.cast(cells.values, pa.large_string()), cells.unknown)
    if oid == _NUMERIC or pa.types.is_integer(type_) or pa.types.is_decimal(type_):
        return as_number(cells)
    return cells
