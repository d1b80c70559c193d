"""A run of changes of one table to what is staged and which commands follow. Pure: imports no client."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tidegate_processor.sinks.pg_table.copy_text import TYPE, copy_text, numbers
from tidegate_processor.sinks.pg_table.fold import Columns, fold
from tidegate_processor.sinks.pg_table.statements import DELETES, FIRST_PATTERN, WRITES
from tidegate_processor.sinks.pg_table.targets import Target


@dataclass(frozen=True, slots=True)
class Staged:
    text: bytes
    """For COPY into the staging table."""
    deletes: bool
    writes: bool
    patterns: tuple[tuple[int, ...], ...]
    """Of writes with columns to leave alone: the places of those to set, in the order of their kinds."""
    incomplete: dict[int, int]
    """Of those writes: the row of the batch by the number it is staged under."""


def staged(columns: Columns, rows: np.ndarray, target: Target) -> Staged:
    net = fold(columns, rows)
    unsent = net.unsent[:, list(target.places)]
    patterns, which = _patterns(unsent)
    kinds = np.concatenate((np.full(len(net.deletes), DELETES), which))
    count = len(kinds)
    texts = [
        pa.concat_arrays([_of_deletes(columns, net.deletes, place, target), net.values[place]])
        for place in target.places
    ]
    text = copy_text([numbers(np.arange(count)), numbers(kinds), *texts]) if count else b""
    first = len(net.deletes)
    incomplete = {first + at: int(net.writes[at]) for at in np.flatnonzero(which >= FIRST_PATTERN).tolist()}
    return Staged(text, bool(first), bool((which == WRITES).any()), patterns, incomplete)


def _of_deletes(columns: Columns, rows: np.ndarray, place: int, target: Target) -> pa.Array:
    return columns.old[place].take(pa.array(rows)) if place in target.keys else pa.nulls(len(rows), TYPE)


def _patterns(unsent: np.ndarray) -> tuple[tuple[tuple[int, ...], ...], np.ndarray]:
    kinds = np.full(len(unsent), WRITES, np.int64)
    holes = np.flatnonzero(unsent.any(axis=1))
    if not len(holes):
        return (), kinds
    found, which = np.unique(unsent[holes], axis=0, return_inverse=True)
    kinds[holes] = FIRST_PATTERN + which.ravel()
    return tuple(tuple(np.flatnonzero(~pattern).tolist()) for pattern in found), kinds
