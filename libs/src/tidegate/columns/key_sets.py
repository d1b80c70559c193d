"""What has become of the keys of one relation: exact, for what is wrongly found here is a row that nobody delivers.

Keys are kept whole, one behind the other in an arena, and found through a table of hashes with open addressing; two are
the same only if all their bytes are. A key is the texts of the replica identity's columns, each behind its length, so
that (`a`, `bc`) is not (`ab`, `c`).

| newest change of a key                              | fate    | life                                   |
| --------------------------------------------------- | ------- | -------------------------------------- |
| an insert, an update that sent every value          | WHOLE   | a new one                              |
| an update that left values out, of what was WHOLE   | WHOLE   | the same                               |
| an update that left values out, of anything else    | PARTIAL | the same: what it sent is noted        |
| a delete, an update that moves it to another key    | GONE    | ends; where it went, if not as a whole |
"""

from typing import Final

import numpy as np

from tidegate.columns import layout
from tidegate.columns.compiled import Word, inlined, kernel, signed, unsigned
from tidegate.columns.layout import Refusal
from tidegate.columns.memory import address, copy, field, put_word, row_of, word
from tidegate.columns.text import SLACK
from tidegate.columns.tuples import fill_holes, locate_tuples

_U = unsigned
_KEY_NOT_SENT = int(Refusal.KEY_NOT_SENT)
# Odd, with bits everywhere: 2**64 / golden ratio (Knuth, The Art of Computer Programming, 6.4).
_SPREAD = _U(0x9E3779B97F4A7C15)
_LENGTH_BYTES = 8

WHOLE: Final = 1
PARTIAL: Final = 2
GONE: Final = 3

# Of a key in `entries`.
_HASH, _AT, _LENGTH = 0, 1, 2
FATE, LIFE, ENDED_LIFE, MOVED_TO, MOVED_LIFE = 3, 4, 5, 6, 7
ENTRY_FIELDS = 8

# Of the set, in `state`.
KEYS, USED, IS_TRUNCATED, NEXT = range(4)
STATE_FIELDS = 4

# Of a change, in `noted`: the key it left PARTIAL, or NONE, and in which of its lives.
PARTIAL_KEY, PARTIAL_LIFE = 0, 1


@kernel
def note(
    body: np.ndarray,
    changes: np.ndarray,
    plan: tuple[np.ndarray, ...],
    known: tuple[np.ndarray, ...],
    noted: np.ndarray,
) -> tuple[int, int]:
    """Notes changes from state[NEXT] on. The room in the arena that the next one needs, or 0; and a refusal, or 0."""
    relations, columns, keys, values = plan
    slots, entries, arena, state = known
    begin = address(body)
    tables = address(columns), address(keys), address(values)
    for turn in range(state[NEXT], len(changes)):
        state[NEXT] = turn
        noted[turn, PARTIAL_KEY] = layout.NONE
        change = row_of(address(changes), turn, layout.CHANGE_FIELDS)
        if field(change, layout.OPERATION) == layout.TRUNCATE:
            state[IS_TRUNCATED] = 1
            continue
        relation = row_of(address(relations), field(change, layout.RELATION), layout.RELATION_FIELDS)
        room = 2 * (field(change, layout.LENGTH) + (_LENGTH_BYTES + SLACK) * (field(relation, layout.KEYS) + 1))
        if state[USED] + room > len(arena) or 2 * (state[KEYS] + 2) > len(slots):
            return room, 0
        refusal = locate_tuples(begin, change, relation, address(values))
        if refusal != 0:
            return 0, refusal
        has_holes = fill_holes(change, relation, address(columns), address(values)) and _is_partial(relation, tables)
        old = new = layout.NONE
        if field(change, layout.OLD) != layout.NONE:
            old = _entered(layout.OLD_SIDE, relation, tables, slots, entries, arena, state)
            if old == layout.NONE:
                return 0, _KEY_NOT_SENT
        if field(change, layout.NEW) != layout.NONE:
            new = _entered(0, relation, tables, slots, entries, arena, state)
            if new == layout.NONE:
                return 0, _KEY_NOT_SENT
        if new == layout.NONE:
            _end(entries, old)
        elif _live(entries, old, new, has_holes):
            noted[turn, PARTIAL_KEY], noted[turn, PARTIAL_LIFE] = new, entries[new, LIFE]
    state[NEXT] = 0
    return 0, 0


@inlined
def _live(entries: np.ndarray, old: int, new: int, has_holes: bool) -> bool:
    """A row that lives on under `new`, whether what was sent of it is all there is of it."""
    is_moved = old != layout.NONE and old != new
    was_whole = entries[old if is_moved else new, FATE] == WHOLE
    if is_moved:
        _end(entries, old)
    if has_holes and not was_whole:
        entries[new, FATE] = PARTIAL
        if is_moved:
            entries[old, MOVED_TO], entries[old, MOVED_LIFE] = new, entries[new, LIFE]
        return True
    if not has_holes or is_moved:
        entries[new, LIFE] += 1
    entries[new, FATE] = WHOLE
    return False


@inlined
def _end(entries: np.ndarray, key: int) -> None:
    entries[key, FATE], entries[key, MOVED_TO] = GONE, layout.NONE
    entries[key, ENDED_LIFE] = entries[key, LIFE]
    entries[key, LIFE] += 1


@kernel
def find(
    body: np.ndarray,
    changes: np.ndarray,
    plan: tuple[np.ndarray, ...],
    known: tuple[np.ndarray, ...],
    scratch: np.ndarray,
    found: np.ndarray,
) -> tuple[int, int]:
    """Of each row the place of its key in `entries`, or NONE. How many have one; or a row and why it is refused."""
    relations, columns, keys, values = plan
    slots, entries, arena, _ = known
    begin, key_at = address(body), address(scratch)
    tables = address(columns), address(keys), address(values)
    count = 0
    for turn in range(len(changes)):
        change = row_of(address(changes), turn, layout.CHANGE_FIELDS)
        relation = row_of(address(relations), field(change, layout.RELATION), layout.RELATION_FIELDS)
        refusal = locate_tuples(begin, change, relation, address(values))
        end = layout.NONE if refusal != 0 else _put_key(key_at, 0, relation, tables)
        if end == layout.NONE:
            return turn, refusal if refusal != 0 else _KEY_NOT_SENT
        slot = _slot(_hash(key_at, end - key_at), key_at, end - key_at, slots, entries, arena)
        found[turn] = slots[slot] - 1
        count += slots[slot] != 0
    return count, 0


@kernel
def settle(slots: np.ndarray, entries: np.ndarray, keys: int) -> None:
    """Into a larger table, which is empty."""
    mask = len(slots) - 1
    for key in range(keys):
        slot = _first(_U(entries[key, _HASH]), mask)
        while slots[slot] != 0:
            slot = (slot + 1) & mask
        slots[slot] = key + 1


@inlined
def _is_partial(relation: int, tables: tuple[int, int, int]) -> bool:
    for place in range(field(relation, layout.COLUMNS)):
        if field(row_of(tables[2], place, layout.VALUE_FIELDS), layout.LENGTH_OF) == layout.UNCHANGED:
            return True
    return False


@inlined
def _entered(
    side: int,
    relation: int,
    tables: tuple[int, int, int],
    slots: np.ndarray,
    entries: np.ndarray,
    arena: np.ndarray,
    state: np.ndarray,
) -> int:
    """The place of the key in `entries`, new or known; NONE if a part of it was not sent."""
    at = address(arena) + state[USED]
    end = _put_key(at, side, relation, tables)
    if end == layout.NONE:
        return layout.NONE
    hash_ = _hash(at, end - at)
    slot = _slot(hash_, at, end - at, slots, entries, arena)
    if slots[slot] == 0:
        key = state[KEYS]
        for which in range(ENTRY_FIELDS):
            entries[key, which] = 0
        entries[key, _HASH], entries[key, _AT], entries[key, _LENGTH] = signed(hash_), state[USED], end - at
        entries[key, ENDED_LIFE] = entries[key, MOVED_TO] = layout.NONE
        slots[slot] = key + 1
        state[KEYS] = key + 1
        state[USED] += end - at
    return int(slots[slot] - 1)


@inlined
def _put_key(to: int, side: int, relation: int, tables: tuple[int, int, int]) -> int:
    """In words, the rest of the last of each text zeros. Where it ends, or NONE if a part of it was not sent."""
    first = field(relation, layout.KEYS_FROM)
    for key in range(first, first + field(relation, layout.KEYS)):
        cell = row_of(tables[2], field(tables[1], key), layout.VALUE_FIELDS)
        length = field(cell, side + layout.LENGTH_OF)
        if length == layout.UNCHANGED:
            return layout.NONE
        put_word(to, _U(length))
        to += _LENGTH_BYTES
        if length > 0:
            last = to + (length - 1) // 8 * 8
            put_word(last, _U(0))
            copy(to, field(cell, side + layout.VALUE), length)
            to = last + 8
    return to


@inlined
def _slot(hash_: Word, at: int, length: int, slots: np.ndarray, entries: np.ndarray, arena: np.ndarray) -> int:
    """Where the key stands, or the free place where it would."""
    mask = len(slots) - 1
    slot = _first(hash_, mask)
    while slots[slot] != 0:
        key = slots[slot] - 1
        is_like = entries[key, _HASH] == signed(hash_) and entries[key, _LENGTH] == length
        if is_like and _is_same(address(arena) + entries[key, _AT], at, length):
            return slot
        slot = (slot + 1) & mask
    return slot


@inlined
def _first(hash_: Word, mask: int) -> int:
    return int(signed(hash_ >> _U(20)) & mask)


@inlined
def _is_same(one: int, other: int, length: int) -> bool:
    for place in range(0, length, 8):
        if word(one + place) != word(other + place):
            return False
    return True


@inlined
def _hash(at: int, length: int) -> Word:
    """For finding only: which keys are the same is said by their bytes."""
    mixed = _U(length)
    for place in range(0, length, 8):
        mixed = (mixed ^ word(at + place)) * _SPREAD
        mixed ^= mixed >> _U(29)
    return mixed * _SPREAD
