"""Of each change the writer it is of: the key as its event has it, hashed.

Invariant: the owner is that of `tidegate.ownership`. A change whose key can't be told goes by its table: whoever has
that refuses it, once.
"""

import numpy as np

from tidegate.columns import layout
from tidegate.columns.compiled import Word, inlined, kernel, unsigned
from tidegate.columns.members import put_key
from tidegate.columns.memory import address, field, put_word, row_of, word
from tidegate.columns.tuples import fill_holes, locate_tuples
from tidegate.ownership import SHIFT, SPREAD, TAKEN_FROM

_U = unsigned
_SPREAD, _SHIFT, _TAKEN_FROM = _U(SPREAD), _U(SHIFT), _U(TAKEN_FROM)


@kernel
def find_owners(
    body: np.ndarray,
    changes: np.ndarray,
    tables: np.ndarray,
    seeds: np.ndarray,
    has_keys: np.ndarray,
    key: np.ndarray,
    scratch: np.ndarray,
    writers: int,
    owners: np.ndarray,
) -> None:
    """`seeds` and `has_keys` by relation: of what has none all is one writer's. `key` has room for any, and SLACK."""
    begin, key_at = address(body), address(key)
    for turn in range(len(changes)):
        change = row_of(address(changes), turn, layout.CHANGE_FIELDS)
        relation = field(change, layout.RELATION)
        end = key_at
        if has_keys[relation] and field(change, layout.OPERATION) < layout.TRUNCATE:
            end = _key_end(key_at, begin, change, relation, address(tables), address(scratch))
        owners[turn] = _owner(_U(seeds[relation]), key_at, end - key_at, writers)


@inlined
def _key_end(to: int, begin: int, change: int, place: int, tables: int, scratch: int) -> int:
    """Where the key ends that is written there; where it begins if there is none to be told."""
    relation = row_of(field(tables, layout.RELATIONS_AT), place, layout.RELATION_FIELDS)
    columns, values = field(tables, layout.COLUMNS_AT), field(tables, layout.VALUES_AT)
    if locate_tuples(begin, change, relation, values) != 0:
        return to
    fill_holes(change, relation, columns, values)
    pieces = field(tables, layout.PIECES_AT)
    end = put_key(to, change, relation, columns, field(tables, layout.KEYS_AT), values, pieces, scratch)
    return max(end, to)


@inlined
def _owner(seed: Word, at: int, length: int, writers: int) -> int:
    mixed = seed ^ _U(length)
    put_word(at + length, _U(0))
    for place in range(0, length, 8):
        mixed = (mixed ^ word(at + place)) * _SPREAD
        mixed ^= mixed >> _SHIFT
    return int((mixed * _SPREAD >> _TAKEN_FROM) % _U(writers))
