"""A run of changes of one table to what remains of them: one entry a key, the last one wins. Pure, in columns.

    INSERT 1 · UPDATE 1 · UPDATE 1→7 · DELETE 3        delete 1, 3 · write 7

Invariant: to apply the deletes and then the writes leaves the table as the changes one by one would. A value that was
not sent is what an earlier change of the run made it, or stays what it is in the target; it is never made up.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tidegate.columns.batches import HEAD, ChangeBatch
from tidegate_processor.sinks.shared.change_batches import operations

_OLD_KIND = len(HEAD) - 1
UPDATE, DELETE, TRUNCATE = (ord(letter) for letter in "udt")


@dataclass(frozen=True, slots=True)
class Columns:
    """A batch as a target with these key columns sees it. `new` and `old` in the order of the relation."""

    ops: np.ndarray
    new: list[pa.Array]
    old: list[pa.Array]
    unsent: np.ndarray
    """By row and column of `new`."""
    keys: tuple[int, ...]
    moved: np.ndarray
    """Updates whose key is another one now."""
    old_code: np.ndarray
    new_code: np.ndarray

    @property
    def moved_with_holes(self) -> np.ndarray:
        holes: np.ndarray = self.moved & self.unsent.any(axis=1)
        return holes


@dataclass(frozen=True, slots=True)
class Net:
    deletes: np.ndarray
    """Rows of the batch whose old key is to go."""
    writes: np.ndarray
    """Rows of the batch that are the last of their key."""
    values: list[pa.Array]
    """Of the writes, by column."""
    unsent: np.ndarray
    """By write and column: to be left alone in the target."""


def columns_of(batch: ChangeBatch, keys: Sequence[int]) -> Columns:
    rows, width = batch.rows, len(batch.shape.relation.columns)
    first = len(HEAD)
    new = [rows.column(first + at) for at in range(width)]
    old = [rows.column(first + width + at) for at in range(width)]
    unsent = np.zeros((len(batch), width), np.bool_)
    for at, mask in batch.unsent.items():
        if first <= at < first + width:
            unsent[:, at - first] = mask.to_numpy(zero_copy_only=False)
    ops = operations(batch)
    old_code, new_code = _codes([old[at] for at in keys], [new[at] for at in keys], len(batch))
    has_old = rows.column(_OLD_KIND).to_numpy() != 0
    moved = (ops == UPDATE) & has_old & (old_code != new_code)
    return Columns(ops, new, old, unsent, tuple(keys), moved, old_code, new_code)


def runs(columns: Columns, rows: np.ndarray) -> Iterator[np.ndarray]:
    """Rows that can be folded, and between them those that stand alone: a truncate, and a key that moves while the
    target alone knows some of the row's values."""
    alone = (columns.ops[rows] == TRUNCATE) | columns.moved_with_holes[rows]
    at = 0
    for place in np.flatnonzero(alone).tolist():
        if place > at:
            yield rows[at:place]
        yield rows[place : place + 1]
        at = place + 1
    if at < len(rows):
        yield rows[at:]


def fold(columns: Columns, rows: np.ndarray) -> Net:
    row, code, is_write = _touches(columns, rows)
    order = np.lexsort((np.arange(len(row)), code))
    row, code, is_write = row[order], code[order], is_write[order]
    is_last = np.append(code[1:] != code[:-1], True)
    last_writes = np.flatnonzero(is_last & is_write)
    writes = row[last_writes]
    values, unsent = [], np.zeros((len(writes), len(columns.new)), np.bool_)
    for at, column in enumerate(columns.new):
        source = writes
        if columns.unsent[writes, at].any():
            known = ~is_write | ~columns.unsent[row, at]
            source, unsent[:, at] = _filled(row, code, is_write, known, last_writes)
        values.append(column.take(pa.array(source)))
    return Net(row[is_last & ~is_write], writes, values, unsent)


def _touches(columns: Columns, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Each key that a change touches, in order: row, key, and whether the row is there afterwards."""
    leaves = (columns.ops[rows] == DELETE) | columns.moved[rows]
    stays = columns.ops[rows] != DELETE
    row = np.repeat(rows, 2)
    code = np.column_stack((columns.old_code[rows], columns.new_code[rows])).ravel()
    is_write = np.tile(np.array([False, True]), len(rows))
    touched = np.column_stack((leaves, stays)).ravel()
    return row[touched], code[touched], is_write[touched]


def _filled(
    row: np.ndarray, code: np.ndarray, is_write: np.ndarray, known: np.ndarray, places: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Of each place the row that has the value, and whether none has."""
    at = np.arange(len(row))
    starts = np.maximum.accumulate(np.where(np.append(True, code[1:] != code[:-1]), at, 0))
    newest = np.maximum.accumulate(np.where(known, at, -1))[places]
    is_missing = (newest < starts[places]) | ~is_write[newest]
    return np.where(is_missing, row[places], row[newest]), is_missing


def _codes(old: Sequence[pa.Array], new: Sequence[pa.Array], rows: int) -> tuple[np.ndarray, np.ndarray]:
    """A number for each key, equal for equal ones. Without key columns no row is another one's next version."""
    if not new:
        return np.arange(rows), np.arange(rows)
    code = np.zeros(2 * rows, np.int64)
    for old_column, new_column in zip(old, new, strict=True):
        both = pa.concat_arrays([old_column, new_column]).dictionary_encode(null_encoding="encode")
        places = both.indices.to_numpy().astype(np.int64)
        _, code = np.unique(code * (len(both.dictionary) + 1) + places, return_inverse=True)
    return code[:rows], code[rows:]
