"""The members of an event: constant pieces from the envelope's program, and in its slots what the change says.

Invariant: an event that is refused has nothing behind it: who calls forgets what was written, and goes by the refusal.
"""

import numpy as np

from tidegate.columns import layout
from tidegate.columns.arrays import put_column
from tidegate.columns.compiled import Word, inlined, signed, unsigned
from tidegate.columns.identity import ID_PREFIX, TIME_LENGTH, put_id_prefix, put_id_rest, put_time
from tidegate.columns.layout import Refusal, Slot
from tidegate.columns.memory import copy, field, put, put_word, row_of, set_field, word
from tidegate.columns.text import put_decimal, put_lsn
from tidegate.columns.tuples import KEY_ONLY, column_of
from tidegate.columns.values import put_bool, put_null, put_number
from tidegate.events import POSTGRES_EPOCH_UNIX_US, SNAPSHOT_ORDINALS
from tidegate.pgoutput.messages import CASCADE, RESTART_IDENTITY

UNAVAILABLE = b'"__debezium_unavailable_value"'
"""What Debezium writes in place of a value that was not sent (option `unavailable.value.placeholder`)."""

_U = unsigned
_KEY_NOT_SENT = int(Refusal.KEY_NOT_SENT)
_ID, _ROW, _OLD, _UNCHANGED = int(Slot.ID), int(Slot.ROW), int(Slot.OLD), int(Slot.UNCHANGED)
_CASCADE, _RESTART_IDENTITY = int(Slot.CASCADE), int(Slot.RESTART_IDENTITY)
_COMMIT_LSN, _ORDINAL, _SEQUENCE = int(Slot.COMMIT_LSN), int(Slot.ORDINAL), int(Slot.SEQUENCE)
_LSN, _COMMIT_TIME, _XID = int(Slot.LSN), int(Slot.COMMIT_TIME), int(Slot.XID)
_ROW_MARKED, _COMMIT_MS, _COMMIT_US = int(Slot.ROW_MARKED), int(Slot.COMMIT_MS), int(Slot.COMMIT_US)
_COMMIT_NS, _LSN_NUMBER = int(Slot.COMMIT_NS), int(Slot.LSN_NUMBER)
_COMMIT_LSN_NUMBER = int(Slot.COMMIT_LSN_NUMBER)
_ROW_ORDINAL, _SNAPSHOT_ORDINALS = int(Slot.ROW_ORDINAL), _U(SNAPSHOT_ORDINALS)
_MARK = np.frombuffer(UNAVAILABLE, np.uint8)
_OPEN, _CLOSE, _COMMA, _ZERO = (ord(mark) for mark in "{},0")

# Places in `shared`, what the events of a transaction have in common: text, then numbers as fields behind it.
_TIME_AT, _LSN_AT = 32, 64
_SEED, _LSN_LENGTH = 11, 12
SHARED_BYTES = 8 * 13


@inlined
def enter(transaction: int, system_id: Word, shared: int, words: np.ndarray) -> bool:
    lsn, time = field(transaction, layout.COMMIT_LSN), field(transaction, layout.COMMIT_TIME)
    seed = put_id_prefix(shared, system_id, lsn, time, field(transaction, layout.XID), words)
    set_field(shared, _SEED, signed(seed))
    set_field(shared, _LSN_LENGTH, put_lsn(shared + _LSN_AT, _U(lsn)) - (shared + _LSN_AT))
    return put_time(shared + _TIME_AT, time)


@inlined
def put_members(
    at: int,
    change: int,
    transaction: int,
    relation: int,
    columns: int,
    steps: int,
    values: int,
    pieces: int,
    scratch: int,
    shared: int,
) -> tuple[int, int, int]:
    """Step by step. Where it ends, then why the row and why the old row can't be written, or 0."""
    row_refusal = old_refusal = 0
    program = layout.PROGRAMS_FROM + field(change, layout.OPERATION)
    for step in range(field(relation, program), field(relation, program + 1)):
        row = row_of(steps, step, layout.STEP_FIELDS)
        at = _put_piece(at, pieces + field(row, layout.PIECE_AT), field(row, layout.PIECE_LENGTH))
        slot = field(row, layout.SLOT)
        if slot == _ROW or slot == _ROW_MARKED or slot == _OLD:
            end = _put_tuple(at, slot, change, relation, columns, values, pieces, scratch)
            if end >= 0:
                at = end
            elif slot == _OLD:
                old_refusal = end
            else:
                row_refusal = end
        elif slot == _UNCHANGED:
            at = _put_unchanged(at, change, relation, columns, values, pieces)
        else:
            at = _put_slot(at, slot, change, transaction, shared)
    return at, row_refusal, old_refusal


@inlined
def _put_piece(to: int, at: int, length: int) -> int:
    for place in range(0, length, 8):
        put_word(to + place, word(at + place))
    return to + length


@inlined
def put_key(
    to: int,
    change: int,
    relation: int,
    columns: int,
    keys: int,
    values: int,
    pieces: int,
    scratch: int,
) -> int:
    begin = to
    side = layout.OLD_SIDE if field(change, layout.OPERATION) == layout.DELETE else 0
    from_ = field(relation, layout.KEYS_FROM)
    for key in range(from_, from_ + field(relation, layout.KEYS)):
        place = field(keys, key)
        column = column_of(columns, relation, place)
        cell = row_of(values, place, layout.VALUE_FIELDS)
        length = field(cell, side + layout.LENGTH_OF)
        if length == layout.UNCHANGED:
            return _KEY_NOT_SENT
        to = _put_piece(to, pieces + field(column, layout.NAME_AT), field(column, layout.NAME_LENGTH))
        if length == layout.NULL:
            to = put_null(to)
            continue
        at = field(cell, side + layout.VALUE)
        to = put_column(to, field(column, layout.KEY_FORM), at, at + length, scratch)
        if to < 0:
            return to
    put(begin, _OPEN)
    put(to, _CLOSE)
    return to + 1


@inlined
def _put_tuple(
    to: int,
    slot: int,
    change: int,
    relation: int,
    columns: int,
    values: int,
    pieces: int,
    scratch: int,
) -> int:
    if field(change, layout.OPERATION) == layout.TRUNCATE:
        return put_null(to)
    is_old = slot == _OLD
    side = layout.OLD_SIDE if is_old else 0
    if field(change, layout.OLD if is_old else layout.NEW) == layout.NONE:
        return put_null(to)
    key_only = is_old and field(change, layout.OLD_KIND) == KEY_ONLY
    begin = to
    for place in range(field(relation, layout.COLUMNS)):
        column = column_of(columns, relation, place)
        cell = row_of(values, place, layout.VALUE_FIELDS)
        length = field(cell, side + layout.LENGTH_OF)
        is_marked = length == layout.UNCHANGED and slot == _ROW_MARKED
        if (length == layout.UNCHANGED and not is_marked) or (key_only and not field(column, layout.IS_KEY)):
            continue
        to = _put_piece(to, pieces + field(column, layout.NAME_AT), field(column, layout.NAME_LENGTH))
        if is_marked:
            for place in range(len(_MARK)):
                put(to + place, _MARK[place])
            to += len(_MARK)
            continue
        if length == layout.NULL:
            to = put_null(to)
            continue
        at = field(cell, side + layout.VALUE)
        to = put_column(to, field(column, layout.FORM), at, at + length, scratch)
        if to < 0:
            return to
    to += to == begin  # every name begins with a comma, of which the first becomes the brace
    put(begin, _OPEN)
    put(to, _CLOSE)
    return to + 1


@inlined
def _put_unchanged(
    to: int,
    change: int,
    relation: int,
    columns: int,
    values: int,
    pieces: int,
) -> int:
    if field(change, layout.NEW) == layout.NONE or not field(change, layout.FLAGS) & layout.HAS_UNCHANGED:
        return to
    begin = to
    for place in range(field(relation, layout.COLUMNS)):
        if field(row_of(values, place, layout.VALUE_FIELDS), layout.LENGTH_OF) == layout.UNCHANGED:
            column = column_of(columns, relation, place)
            if to > begin:
                put(to, _COMMA)
                to += 1
            to = _put_piece(to, pieces + field(column, layout.NAME_AT) + 1, field(column, layout.NAME_LENGTH) - 2)
    return to


@inlined
def _put_slot(
    to: int,
    slot: int,
    change: int,
    transaction: int,
    shared: int,
) -> int:
    if slot == _ID:
        copy(to, shared, ID_PREFIX)
        sub = field(change, layout.NEW) if field(change, layout.OPERATION) == layout.TRUNCATE else 0
        return put_id_rest(to + ID_PREFIX, _U(field(shared, _SEED)), _U(field(change, layout.ORDINAL)), sub)
    if slot == _COMMIT_LSN:
        length = field(shared, _LSN_LENGTH)
        copy(to, shared + _LSN_AT, length)
        return int(to + length)
    if slot == _COMMIT_TIME:
        copy(to, shared + _TIME_AT, TIME_LENGTH)
        return to + TIME_LENGTH
    if slot == _LSN:
        return put_lsn(to, _U(field(change, layout.LSN)))
    if slot == _ORDINAL:
        return put_decimal(to, _U(field(change, layout.ORDINAL)))
    if slot == _SEQUENCE:
        return put_decimal(to, _U(field(change, layout.ORDINAL)) + _U(1))
    if slot == _XID:
        return put_decimal(to, _U(field(transaction, layout.XID)))
    if slot == _LSN_NUMBER:
        return put_decimal(to, _U(field(change, layout.LSN)))
    if slot == _COMMIT_LSN_NUMBER:
        return put_decimal(to, _U(field(transaction, layout.COMMIT_LSN)))
    if slot == _COMMIT_MS or slot == _COMMIT_US or slot == _COMMIT_NS:
        return _put_since_1970(to, slot, field(transaction, layout.COMMIT_TIME))
    if slot == _ROW_ORDINAL:
        return put_decimal(to, _SNAPSHOT_ORDINALS + _U(field(change, layout.ORDINAL)))
    if slot == _CASCADE:
        return put_bool(to, field(change, layout.OLD_KIND) & CASCADE != 0)
    if slot == _RESTART_IDENTITY:
        return put_bool(to, field(change, layout.OLD_KIND) & RESTART_IDENTITY != 0)
    return to


@inlined
def _put_since_1970(to: int, slot: int, commit_time: int) -> int:
    microseconds = commit_time + POSTGRES_EPOCH_UNIX_US
    if slot == _COMMIT_MS:
        return put_number(to, microseconds // 1000)
    to = put_number(to, microseconds)
    if slot == _COMMIT_NS and microseconds != 0:
        for _ in range(3):
            put(to, _ZERO)
            to += 1
    return to
