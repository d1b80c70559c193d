"""A frame's body with values more at the end of its tuples: bytes put in between, and the numbers before them set.

Invariant: an entry is as long as it says, and a tuple as wide; all else stays as it is.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.columns import layout
from tidegate.columns.frames import Changes
from tidegate.columns.layout import Refusal
from tidegate.columns.refusals import decode_error
from tidegate.columns.text import SLACK

_BYTES = pa.large_binary()
_NEW_TAG = 1


class Insertion(NamedTuple):
    """Into one side of some changes of one relation."""

    rows: np.ndarray
    side: int
    width: int
    """So many values a tuple has."""
    added: int
    values: pa.Array
    """For each of these rows, as a tuple has them."""


def inserted(changes: Changes, insertions: Sequence[Insertion]) -> bytes:
    body = changes.body[: len(changes.body) - SLACK].copy()
    if not insertions:
        return body.tobytes()
    grown = np.zeros(len(changes.rows), np.int64)
    for each in insertions:
        _widen(body, changes, each)
        np.add.at(grown, each.rows, np.asarray(pc.binary_length(each.values)))
    touched = np.flatnonzero(grown)
    at = changes.rows[touched, layout.MESSAGE] - layout.ENTRY_HEAD
    _put(body, at, changes.rows[touched, layout.LENGTH] + grown[touched], 4)
    places = np.concatenate([_ends(changes, each) for each in insertions])
    values = pa.concat_arrays([each.values for each in insertions])
    order = np.argsort(places, kind="stable")
    return _between(body, places[order], values.take(pa.array(order)))


def _widen(body: np.ndarray, changes: Changes, insertion: Insertion) -> None:
    at = changes.rows[insertion.rows, insertion.side]
    widths = body[at].astype(np.int64) << 8 | body[at + 1]
    wrong = np.flatnonzero(widths != insertion.width)
    if len(wrong):
        raise decode_error(changes, int(insertion.rows[wrong[0]]), Refusal.ROW_WIDTH)
    _put(body, at, widths + insertion.added, 2)


def _put(body: np.ndarray, at: np.ndarray, numbers: np.ndarray, size: int) -> None:
    """Big-endian."""
    for place in range(size):
        body[at + place] = numbers >> 8 * (size - 1 - place) & 255


def _ends(changes: Changes, insertion: Insertion) -> np.ndarray:
    """Where the tuple ends: the old one, before the tag of the new one."""
    rows = changes.rows[insertion.rows]
    end = rows[:, layout.MESSAGE] + rows[:, layout.LENGTH]
    is_last = (rows[:, layout.NEW] == layout.NONE) | (insertion.side == layout.NEW)
    ends: np.ndarray = np.where(is_last, end, rows[:, layout.NEW] - _NEW_TAG)
    return ends


def _between(body: np.ndarray, places: np.ndarray, values: pa.Array) -> bytes:
    offsets = np.concatenate([[0], places, [len(body)]]).astype(np.int64)
    pieces = pa.Array.from_buffers(_BYTES, len(places) + 1, [None, pa.py_buffer(offsets), pa.py_buffer(body)])
    values = pa.concat_arrays([values, pa.array([b""], _BYTES)])
    joined = pc.binary_join_element_wise(pieces, values, pa.scalar(b"", _BYTES))
    whole: bytes = joined.buffers()[2].to_pybytes()
    return whole
