"""Changes to JSON events in one pass: key and value of each, one behind the other in one buffer.

An envelope is data: steps of a constant piece and a slot, one program for each operation of a relation (`plans.py`).
What a transaction's events share is written once into `shared` and copied from there.

Invariant: an event's bytes and the reason of a refusal are those of the reference, `encodings.json.JsonPlan`: it looks
at the shape of both tuples first, then converts in an order of its own, and the first failure counts (`_refusal`).
"""

import numpy as np

from tidegate.columns import layout
from tidegate.columns.arrays import put_column
from tidegate.columns.compiled import Word, inlined, kernel, signed, unsigned
from tidegate.columns.identity import HASH_WORDS, ID_PREFIX, TIME_LENGTH, put_id_prefix, put_id_rest, put_time
from tidegate.columns.layout import Refusal, Slot
from tidegate.columns.memory import address, copy, put, put_word, word
from tidegate.columns.text import put_decimal, put_lsn
from tidegate.columns.tuples import KEY_ONLY, fill_holes, locate_tuples
from tidegate.columns.values import put_bool, put_null
from tidegate.pgoutput.messages import CASCADE, RESTART_IDENTITY

_U = unsigned
_KEY_NOT_SENT, _BINARY_VALUE = int(Refusal.KEY_NOT_SENT), int(Refusal.BINARY_VALUE)
_TIME_RANGE = int(Refusal.TIME_RANGE)
_ID, _ROW, _OLD, _UNCHANGED = int(Slot.ID), int(Slot.ROW), int(Slot.OLD), int(Slot.UNCHANGED)
_CASCADE, _RESTART_IDENTITY = int(Slot.CASCADE), int(Slot.RESTART_IDENTITY)
_COMMIT_LSN, _ORDINAL, _SEQUENCE = int(Slot.COMMIT_LSN), int(Slot.ORDINAL), int(Slot.SEQUENCE)
_LSN, _COMMIT_TIME, _XID = int(Slot.LSN), int(Slot.COMMIT_TIME), int(Slot.XID)

_OPEN, _CLOSE, _COMMA = ord("{"), ord("}"), ord(",")

# What a byte of a value can grow to: a control character to an escape of six.
_GROWTH = 6
_COPIES_NEW, _COPIES_OLD = 2, 3

# `state`: what has been done, so that the caller can give a larger buffer and go on.
NEXT, EVENTS, TO, REFUSED, FAILED = range(5)
STATE_FIELDS = 5

# Places in `shared`: what the events of a transaction have in common. `numbers`: seed, length of the LSN's text.
_TIME_AT, _LSN_AT = 32, 64
SHARED_BYTES = 96
NUMBERS = HASH_WORDS + 2
_SEED, _LSN_LENGTH = HASH_WORDS, HASH_WORDS + 1


@kernel
def encode(
    body: np.ndarray,
    changes: np.ndarray,
    order: np.ndarray,
    transactions: np.ndarray,
    relations: np.ndarray,
    topics: np.ndarray,
    columns: np.ndarray,
    keys: np.ndarray,
    steps: np.ndarray,
    pieces: np.ndarray,
    system_id: Word,
    values: np.ndarray,
    scratch: np.ndarray,
    shared: np.ndarray,
    numbers: np.ndarray,
    out: np.ndarray,
    events: np.ndarray,
    refused: np.ndarray,
    counts: np.ndarray,
    state: np.ndarray,
) -> int:
    """Encodes changes in `order` from state[NEXT] on, and counts the events of each topic.

    Returns the room that the next one needs, or 0 when all are done or state[FAILED] says why one stops the stream.
    """
    begin, buffer, pieces_at = address(body), address(out), address(pieces)
    scratch_at, shared_at = address(scratch), address(shared)
    buffer_end = buffer + len(out)
    entered = layout.NONE
    in_range = False
    for turn in range(state[NEXT], len(order)):
        change = changes[order[turn]]
        relation = relations[change[layout.RELATION]]
        transaction = transactions[change[layout.TRANSACTION]]
        to = buffer + state[TO]
        copies = _COPIES_NEW if change[layout.OLD] == layout.NONE else _COPIES_OLD
        room = relation[layout.BOUND] + _GROWTH * copies * change[layout.LENGTH]
        if to + room > buffer_end:
            state[NEXT] = turn
            return int(room)
        if change[layout.TRANSACTION] != entered:
            entered = change[layout.TRANSACTION]
            in_range = _enter(transaction, system_id, shared_at, numbers)
        refusal = locate_tuples(begin, change, relation, values)
        key_end = to
        if refusal == 0:
            holes = fill_holes(change, relation, columns, values)
            key_refusal = row_refusal = old_refusal = 0
            if relation[layout.KEYS] and change[layout.OPERATION] != layout.TRUNCATE:
                key_end = _put_key(to, change, relation, columns, keys, values, pieces_at, scratch_at)
                if key_end < 0:
                    key_refusal, key_end = key_end, to
            at = key_end
            operation = change[layout.OPERATION]
            first = relation[layout.PROGRAMS_FROM + operation]
            for step in range(first, relation[layout.PROGRAMS_FROM + operation + 1]):
                length = steps[step, layout.PIECE_LENGTH]
                at = _put_piece(at, pieces_at + steps[step, layout.PIECE_AT], length)
                slot = steps[step, layout.SLOT]
                if slot == _ROW or slot == _OLD:
                    end = _put_tuple(at, slot == _OLD, change, relation, columns, values, pieces_at, scratch_at)
                    if end >= 0:
                        at = end
                    elif slot == _ROW:
                        row_refusal = end
                    else:
                        old_refusal = end
                elif slot == _UNCHANGED:
                    at = _put_unchanged(at, change, relation, columns, values, pieces_at)
                else:
                    at = _put_slot(at, slot, change, transaction, shared_at, numbers)
            refusal = _refusal(key_refusal, row_refusal, old_refusal, holes)
            if refusal == 0 and not in_range:
                refusal = _TIME_RANGE
        if refusal == 0:
            event = events[state[EVENTS]]
            event[layout.KEY_AT], event[layout.VALUE_AT] = to - buffer, key_end - buffer
            event[layout.KEY_LENGTH] = key_end - to if key_end > to else layout.NONE
            event[layout.VALUE_LENGTH], event[layout.CHANGE] = at - key_end, order[turn]
            state[EVENTS] += 1
            counts[topics[change[layout.RELATION], change[layout.OPERATION]]] += 1
            state[TO] = at - buffer
        elif refusal < _BINARY_VALUE:
            state[FAILED], state[NEXT] = refusal, turn
            return 0
        else:
            refused[state[REFUSED], 0], refused[state[REFUSED], 1] = order[turn], refusal
            state[REFUSED] += 1
    state[NEXT] = len(order)
    return 0


@inlined
def _enter(transaction: np.ndarray, system_id: Word, shared: int, numbers: np.ndarray) -> bool:
    lsn, time = transaction[layout.COMMIT_LSN], transaction[layout.COMMIT_TIME]
    numbers[_SEED] = put_id_prefix(shared, system_id, lsn, time, transaction[layout.XID], numbers)
    numbers[_LSN_LENGTH] = put_lsn(shared + _LSN_AT, _U(lsn)) - (shared + _LSN_AT)
    return put_time(shared + _TIME_AT, time)


@inlined
def _refusal(key: int, row: int, old: int, holes: bool) -> int:
    if old != 0:
        return old
    first, second = (row, key) if holes else (key, row)
    return first if first != 0 else second


@inlined
def _put_piece(to: int, at: int, length: int) -> int:
    for place in range(0, length, 8):
        put_word(to + place, word(at + place))
    return to + length


@inlined
def _put_key(
    to: int,
    change: np.ndarray,
    relation: np.ndarray,
    columns: np.ndarray,
    keys: np.ndarray,
    values: np.ndarray,
    pieces: int,
    scratch: int,
) -> int:
    begin = to
    tuple_ = 2 if change[layout.OPERATION] == layout.DELETE else 0
    from_ = relation[layout.KEYS_FROM]
    for key in range(from_, from_ + relation[layout.KEYS]):
        place = keys[key]
        column = columns[relation[layout.COLUMNS_FROM] + place]
        length = values[tuple_ + 1, place]
        if length == layout.UNCHANGED:
            return _KEY_NOT_SENT
        to = _put_piece(to, pieces + column[layout.NAME_AT], column[layout.NAME_LENGTH])
        if length == layout.NULL:
            to = put_null(to)
            continue
        at = values[tuple_, place]
        to = put_column(to, column[layout.KEY_FORM], at, at + length, scratch)
        if to < 0:
            return to
    put(begin, _OPEN)
    put(to, _CLOSE)
    return to + 1


@inlined
def _put_tuple(
    to: int,
    is_old: bool,
    change: np.ndarray,
    relation: np.ndarray,
    columns: np.ndarray,
    values: np.ndarray,
    pieces: int,
    scratch: int,
) -> int:
    if change[layout.OPERATION] == layout.TRUNCATE:
        return put_null(to)
    tuple_ = 2 if is_old else 0
    if change[layout.OLD if is_old else layout.NEW] == layout.NONE:
        return put_null(to)
    key_only = is_old and change[layout.OLD_KIND] == KEY_ONLY
    begin = to
    for place in range(relation[layout.COLUMNS]):
        column = columns[relation[layout.COLUMNS_FROM] + place]
        length = values[tuple_ + 1, place]
        if length == layout.UNCHANGED or (key_only and not column[layout.IS_KEY]):
            continue
        to = _put_piece(to, pieces + column[layout.NAME_AT], column[layout.NAME_LENGTH])
        if length == layout.NULL:
            to = put_null(to)
            continue
        at = values[tuple_, place]
        to = put_column(to, column[layout.FORM], at, at + length, scratch)
        if to < 0:
            return to
    to += to == begin  # every name begins with a comma, of which the first becomes the brace
    put(begin, _OPEN)
    put(to, _CLOSE)
    return to + 1


@inlined
def _put_unchanged(
    to: int,
    change: np.ndarray,
    relation: np.ndarray,
    columns: np.ndarray,
    values: np.ndarray,
    pieces: int,
) -> int:
    if change[layout.NEW] == layout.NONE or not change[layout.FLAGS] & layout.HAS_UNCHANGED:
        return to
    begin = to
    for place in range(relation[layout.COLUMNS]):
        if values[1, place] == layout.UNCHANGED:
            column = columns[relation[layout.COLUMNS_FROM] + place]
            if to > begin:
                put(to, _COMMA)
                to += 1
            to = _put_piece(to, pieces + column[layout.NAME_AT] + 1, column[layout.NAME_LENGTH] - 2)
    return to


@inlined
def _put_slot(
    to: int,
    slot: int,
    change: np.ndarray,
    transaction: np.ndarray,
    shared: int,
    numbers: np.ndarray,
) -> int:
    if slot == _ID:
        copy(to, shared, ID_PREFIX)
        sub = change[layout.NEW] if change[layout.OPERATION] == layout.TRUNCATE else 0
        return put_id_rest(to + ID_PREFIX, numbers[_SEED], _U(change[layout.ORDINAL]), sub)
    if slot == _COMMIT_LSN:
        length = signed(numbers[_LSN_LENGTH])
        copy(to, shared + _LSN_AT, length)
        return int(to + length)
    if slot == _COMMIT_TIME:
        copy(to, shared + _TIME_AT, TIME_LENGTH)
        return to + TIME_LENGTH
    if slot == _LSN:
        return put_lsn(to, _U(change[layout.LSN]))
    if slot == _ORDINAL:
        return put_decimal(to, _U(change[layout.ORDINAL]))
    if slot == _SEQUENCE:
        return put_decimal(to, _U(change[layout.ORDINAL]) + _U(1))
    if slot == _XID:
        return put_decimal(to, _U(transaction[layout.XID]))
    if slot == _CASCADE:
        return put_bool(to, change[layout.OLD_KIND] & CASCADE != 0)
    if slot == _RESTART_IDENTITY:
        return put_bool(to, change[layout.OLD_KIND] & RESTART_IDENTITY != 0)
    return to
