"""One relation's changes to columns of text: offsets, bytes and bitmaps as Arrow has them, and what is unsent.

Invariant: a value is the bytes that PostgreSQL sent, NULL, or not sent; the three are never confused. Columns stand in
the order of the relation, first all of the new rows, then all of the old ones if any change has one.
"""

import numpy as np

from tidegate.columns import layout
from tidegate.columns.compiled import inlined, kernel, unsigned
from tidegate.columns.identity import HASH_WORDS, ID_PREFIX, put_id_prefix, put_id_rest
from tidegate.columns.layout import Refusal
from tidegate.columns.memory import address, byte, field, put, put_i32, put_word, row_of, set_field, word
from tidegate.columns.record_batches import (
    ABSENT,
    COLUMNS,
    DATA,
    DATA_BYTES,
    OFFSETS,
    PLACE_FIELDS,
    VALID,
    lay_out,
    marks_of,
    note_nulls,
    place_of,
    put_bit,
)
from tidegate.columns.tuples import KEY_ONLY, fill_holes, is_key, locate_tuples

_U = unsigned
_BINARY_VALUE = int(Refusal.BINARY_VALUE)

# What a decoder lends, in words: scratch for a hash, then for the text of an id; the system's identifier.
_ID_TEXT_WORDS = 10
SYSTEM_ID = HASH_WORDS + _ID_TEXT_WORDS
OWN_WORDS = SYSTEM_ID + 1

# In a truncate the field holds its options, which stay below any letter.
_NO_OLD_ROW = 3

# The columns before those of the relation.
_OP, _ID, _COMMIT_LSN, _ORDINAL, _LSN, _XID, _COMMIT_TIME, _OLD_KIND = range(8)
HEAD_COLUMNS = 8
_LETTERS = np.frombuffer(b"cudt", np.uint8)


@kernel
def gather(
    body: np.ndarray,
    changes: np.ndarray,
    order: np.ndarray,
    transactions: np.ndarray,
    tables: np.ndarray,
    own: np.ndarray,
    form: np.ndarray,
) -> tuple[np.ndarray, int, int, int]:
    """The changes in `order`, all of one relation, as a message of the layout `form`; a value that was not sent has a
    mark there. What can't be a row goes to the end of `order`.

    Returns the message, how many rows and how many marks it has, and why a change stops the stream (0: none does):
    then nothing but its place in `order` is said, in place of the rows.
    """
    begin, form_at = address(body), address(form)
    places = np.empty((field(form_at, COLUMNS), PLACE_FIELDS), np.int64)
    rows, failure = _measure(begin, changes, order, tables, places)
    if failure:
        return np.empty(0, np.int64), rows, 0, failure
    message = lay_out(form_at, rows, places)
    _identify(changes, order, rows, transactions, own, address(places))
    marks = _fill(begin, changes, order, rows, tables, form_at, places, message)
    return message, rows, marks, 0


@inlined
def _measure(
    begin: int, changes: np.ndarray, order: np.ndarray, tables: np.ndarray, places: np.ndarray
) -> tuple[int, int]:
    """Adds up the bytes of each column in `places`. How many rows there are and 0; or which change fails, and why."""
    relations, columns, values = tables[layout.RELATIONS_AT], tables[layout.COLUMNS_AT], tables[layout.VALUES_AT]
    width = (len(places) - HEAD_COLUMNS) // 2
    rows = 0
    has_old = False
    places[:, DATA_BYTES] = 0
    for turn in range(len(order)):
        change = row_of(address(changes), order[turn], layout.CHANGE_FIELDS)
        relation = row_of(relations, field(change, layout.RELATION), layout.RELATION_FIELDS)
        refusal = locate_tuples(begin, change, relation, values)
        if refusal != 0:
            if refusal != _BINARY_VALUE:
                return turn, refusal
            continue
        fill_holes(change, relation, columns, values)
        has_old |= field(change, layout.OLD_KIND) > _NO_OLD_ROW
        for side in range(2):
            if not _is_sent(side, change):
                continue
            for place in range(width):
                length = _sent_length(side, place, change, relation, columns, values)
                column = place_of(address(places), HEAD_COLUMNS + side * width + place)
                set_field(column, DATA_BYTES, field(column, DATA_BYTES) + max(length, 0))
        order[rows], order[turn] = order[turn], order[rows]
        rows += 1
    if not has_old:
        places[HEAD_COLUMNS + width :, DATA_BYTES] = ABSENT
    return rows, 0


@inlined
def _fill(
    begin: int,
    changes: np.ndarray,
    order: np.ndarray,
    rows: int,
    tables: np.ndarray,
    form: int,
    places: np.ndarray,
    message: np.ndarray,
) -> int:
    """How many marks it has set."""
    relations, columns, values = tables[layout.RELATIONS_AT], tables[layout.COLUMNS_AT], tables[layout.VALUES_AT]
    width = (len(places) - HEAD_COLUMNS) // 2
    sides = 1 if width == 0 or places[len(places) - 1, DATA_BYTES] == ABSENT else 2
    marks = 0
    for row in range(rows):
        change = row_of(address(changes), order[row], layout.CHANGE_FIELDS)
        relation = row_of(relations, field(change, layout.RELATION), layout.RELATION_FIELDS)
        locate_tuples(begin, change, relation, values)
        fill_holes(change, relation, columns, values)
        for side in range(sides):
            for place in range(width):
                column = HEAD_COLUMNS + side * width + place
                to = place_of(address(places), column)
                length = _sent_length(side, place, change, relation, columns, values)
                offsets = field(to, OFFSETS)
                at = field(offsets, row)
                set_field(offsets, row + 1, at + max(length, 0))
                if length >= 0:
                    cell = row_of(values, place, layout.VALUE_FIELDS)
                    value = field(cell, layout.OLD_SIDE * side + layout.VALUE)
                    _copy(field(to, DATA) + at, value, length)
                    put_bit(field(to, VALID), row)
                elif length == layout.UNCHANGED:
                    put_bit(marks_of(form, message, rows, column), row)
                    marks += 1
    for column in range(HEAD_COLUMNS, HEAD_COLUMNS + sides * width):
        nulls = rows - _bits(field(place_of(address(places), column), VALID), rows)
        note_nulls(form, address(message), column, nulls, rows)
    return marks


@inlined
def _bits(bitmap: int, rows: int) -> int:
    """How many are set; all behind the last row are not."""
    count = 0
    for at in range((rows + 7) // 8):
        bits = byte(bitmap + at)
        while bits:
            bits &= bits - 1
            count += 1
    return count


@inlined
def _copy(to: int, at: int, length: int) -> None:
    """Not a byte beyond the end: there the next column begins."""
    if length < 8:
        for place in range(length):
            put(to + place, byte(at + place))
        return
    for place in range(0, length - 8, 8):
        put_word(to + place, word(at + place))
    put_word(to + length - 8, word(at + length - 8))


@inlined
def _is_sent(side: int, change: int) -> bool:
    is_there = field(change, layout.OLD if side else layout.NEW) != layout.NONE
    return bool(is_there and field(change, layout.OPERATION) != layout.TRUNCATE)


@inlined
def _sent_length(side: int, place: int, change: int, relation: int, columns: int, values: int) -> int:
    """Of a value, or NULL, or UNCHANGED for what the server did not send."""
    if not _is_sent(side, change):
        return layout.NULL
    if side and field(change, layout.OLD_KIND) == KEY_ONLY and not is_key(columns, relation, place):
        return layout.UNCHANGED
    return field(row_of(values, place, layout.VALUE_FIELDS), layout.OLD_SIDE * side + layout.LENGTH_OF)


@inlined
def _identify(
    changes: np.ndarray, order: np.ndarray, rows: int, transactions: np.ndarray, own: np.ndarray, places: int
) -> None:
    """What stands before the values: operation, the event's id, positions and times."""
    text = address(own) + 8 * HASH_WORDS
    at, ids, kinds = _data(places, _OP), _data(places, _ID), _data(places, _OLD_KIND)
    lsns, ordinals, lsns_own = _data(places, _COMMIT_LSN), _data(places, _ORDINAL), _data(places, _LSN)
    times, xids = _data(places, _COMMIT_TIME), _data(places, _XID)
    entered, seed = layout.NONE, _U(0)
    lsn = time = xid = 0
    for row in range(rows):
        change = row_of(address(changes), order[row], layout.CHANGE_FIELDS)
        if field(change, layout.TRANSACTION) != entered:
            entered = field(change, layout.TRANSACTION)
            transaction = row_of(address(transactions), entered, layout.TRANSACTION_FIELDS)
            lsn, time = field(transaction, layout.COMMIT_LSN), field(transaction, layout.COMMIT_TIME)
            xid = field(transaction, layout.XID)
            seed = put_id_prefix(text, own[SYSTEM_ID], lsn, time, xid, own)
        sub = field(change, layout.NEW) if field(change, layout.OPERATION) == layout.TRUNCATE else 0
        put_id_rest(text + ID_PREFIX, seed, _U(field(change, layout.ORDINAL)), sub)
        _put_hex_bytes(ids + 16 * row, text)
        put(at + row, _LETTERS[field(change, layout.OPERATION)])
        set_field(lsns, row, lsn)
        set_field(ordinals, row, field(change, layout.ORDINAL))
        set_field(lsns_own, row, field(change, layout.LSN))
        set_field(times, row, time)
        put_i32(xids + 4 * row, xid)
        kind = field(change, layout.OLD_KIND)
        put(kinds + row, kind if kind > _NO_OLD_ROW else 0)


@inlined
def _data(places: int, column: int) -> int:
    return field(place_of(places, column), DATA)


@inlined
def _put_hex_bytes(to: int, text: int) -> None:
    """The number that 36 characters of a UUID stand for."""
    at = text
    for place in range(16):
        if byte(at) == ord("-"):
            at += 1
        put(to + place, _half(byte(at)) << 4 | _half(byte(at + 1)))
        at += 2


@inlined
def _half(digit: int) -> int:
    return digit - ord("0") if digit <= ord("9") else digit - ord("a") + 10
