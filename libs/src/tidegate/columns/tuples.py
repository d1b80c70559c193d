"""The values of a change's tuples: where each stands, and what takes the place of those that were not sent.

Invariant: what the reference refuses before it looks into a value is refused here, in the same order. Tables and their
rows are addresses, as all places are (`memory.py`); `values` has a row a column.
"""

from tidegate.columns import layout
from tidegate.columns.compiled import inlined
from tidegate.columns.layout import Refusal
from tidegate.columns.memory import be_i16, be_i32, byte, field, row_of, set_field

_ROW_WIDTH, _INSERT_UNCHANGED = int(Refusal.ROW_WIDTH), int(Refusal.INSERT_UNCHANGED)
_BINARY_VALUE = int(Refusal.BINARY_VALUE)
_NULL, _TEXT, _BINARY = (ord(tag) for tag in "ntb")

KEY_ONLY = ord("K")
"""Kind of an old tuple that says nothing of the columns outside the replica identity."""


@inlined
def locate_tuples(begin: int, change: int, relation: int, values: int) -> int:
    """Locates both tuples' values; refuses what the reference refuses before it converts anything."""
    width = field(relation, layout.COLUMNS)
    for side, tuple_ in ((0, layout.NEW), (layout.OLD_SIDE, layout.OLD)):
        if field(change, tuple_) == layout.NONE or field(change, layout.OPERATION) == layout.TRUNCATE:
            continue
        at = begin + field(change, tuple_)
        if be_i16(at) != width:
            return _ROW_WIDTH
        at += 2
        binary = unchanged = False
        for column in range(width):
            cell = row_of(values, column, layout.VALUE_FIELDS)
            value, length, at = locate_value(at)
            set_field(cell, side + layout.VALUE, value)
            set_field(cell, side + layout.LENGTH_OF, length)
            binary |= length <= layout.BINARY
            unchanged |= length == layout.UNCHANGED
        if binary:
            return _BINARY_VALUE
        if unchanged and field(change, layout.OPERATION) == layout.INSERT:
            return _INSERT_UNCHANGED
    return 0


@inlined
def fill_holes(change: int, relation: int, columns: int, values: int) -> bool:
    """An unchanged value is the old one, where the server sent the old one. Whether the new row had holes."""
    if not field(change, layout.FLAGS) & layout.HAS_UNCHANGED or field(change, layout.NEW) == layout.NONE:
        return False
    holes = False
    sent, key_only = field(change, layout.OLD) != layout.NONE, field(change, layout.OLD_KIND) == KEY_ONLY
    for place in range(field(relation, layout.COLUMNS)):
        cell = row_of(values, place, layout.VALUE_FIELDS)
        if field(cell, layout.LENGTH_OF) == layout.UNCHANGED:
            holes = True
            if sent and (not key_only or is_key(columns, relation, place)):
                set_field(cell, layout.VALUE, field(cell, layout.OLD_SIDE + layout.VALUE))
                set_field(cell, layout.LENGTH_OF, field(cell, layout.OLD_SIDE + layout.LENGTH_OF))
    return holes


@inlined
def is_key(columns: int, relation: int, place: int) -> bool:
    return field(column_of(columns, relation, place), layout.IS_KEY) != 0


@inlined
def column_of(columns: int, relation: int, place: int) -> int:
    return row_of(columns, field(relation, layout.COLUMNS_FROM) + place, layout.COLUMN_FIELDS)


@inlined
def locate_value(place: int) -> tuple[int, int, int]:
    """Where its bytes begin, their length or what there is instead, and where the next value stands."""
    kind = byte(place)
    if kind == _TEXT or kind == _BINARY:
        length = be_i32(place + 1)
        return place + 5, length if kind == _TEXT else layout.BINARY - length, place + 5 + length
    return place, layout.NULL if kind == _NULL else layout.UNCHANGED, place + 1
