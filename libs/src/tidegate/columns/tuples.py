"""The values of a change's tuples: where each stands, and what takes the place of those that were not sent.

Invariant: what the reference refuses before it looks into a value is refused here, in the same order. `values` has four
rows, a column of the table each: addresses and lengths of the new tuple, then of the old one.
"""

import numpy as np

from tidegate.columns import layout
from tidegate.columns.compiled import inlined
from tidegate.columns.layout import Refusal
from tidegate.columns.memory import be_i16, be_i32, byte

_ROW_WIDTH, _INSERT_UNCHANGED = int(Refusal.ROW_WIDTH), int(Refusal.INSERT_UNCHANGED)
_BINARY_VALUE = int(Refusal.BINARY_VALUE)
_NULL, _TEXT, _BINARY = (ord(tag) for tag in "ntb")

KEY_ONLY = ord("K")
"""Kind of an old tuple that says nothing of the columns outside the replica identity."""


@inlined
def locate_tuples(begin: int, change: np.ndarray, relation: np.ndarray, values: np.ndarray) -> int:
    """Locates both tuples' values; refuses what the reference refuses before it converts anything."""
    width = relation[layout.COLUMNS]
    for place, field in ((0, layout.NEW), (2, layout.OLD)):
        if change[field] == layout.NONE or change[layout.OPERATION] == layout.TRUNCATE:
            continue
        at = begin + change[field]
        if be_i16(at) != width:
            return _ROW_WIDTH
        at += 2
        binary = unchanged = False
        for column in range(width):
            values[place, column], values[place + 1, column], at = locate_value(at)
            binary |= values[place + 1, column] <= layout.BINARY
            unchanged |= values[place + 1, column] == layout.UNCHANGED
        if binary:
            return _BINARY_VALUE
        if unchanged and change[layout.OPERATION] == layout.INSERT:
            return _INSERT_UNCHANGED
    return 0


@inlined
def fill_holes(change: np.ndarray, relation: np.ndarray, columns: np.ndarray, values: np.ndarray) -> bool:
    """An unchanged value is the old one, where the server sent the old one. Whether the new row had holes."""
    if not change[layout.FLAGS] & layout.HAS_UNCHANGED or change[layout.NEW] == layout.NONE:
        return False
    holes = False
    sent, key_only = change[layout.OLD] != layout.NONE, change[layout.OLD_KIND] == KEY_ONLY
    for place in range(relation[layout.COLUMNS]):
        if values[1, place] == layout.UNCHANGED:
            holes = True
            if sent and (not key_only or columns[relation[layout.COLUMNS_FROM] + place, layout.IS_KEY]):
                values[0, place], values[1, place] = values[2, place], values[3, place]
    return holes


@inlined
def locate_value(place: int) -> tuple[int, int, int]:
    """Where its bytes begin, their length or what there is instead, and where the next value stands."""
    kind = byte(place)
    if kind == _TEXT or kind == _BINARY:
        length = be_i32(place + 1)
        return place + 5, length if kind == _TEXT else layout.BINARY - length, place + 5 + length
    return place, layout.NULL if kind == _NULL else layout.UNCHANGED, place + 1
