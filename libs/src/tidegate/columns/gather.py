"""One relation's changes to columns of text: offsets, bytes and bitmaps as Arrow has them, and what is unsent.

Invariant: a value is the bytes that PostgreSQL sent, NULL, or not sent; the three are never confused. Columns stand in
the order of the relation, first all of the new rows, then all of the old ones if any change has one.
"""

import numpy as np

from tidegate.columns import layout, record_batches
from tidegate.columns.compiled import Word, inlined, kernel, unsigned
from tidegate.columns.identity import ID_PREFIX, put_id_prefix, put_id_rest
from tidegate.columns.layout import Refusal
from tidegate.columns.memory import address, byte, field, put, put_word, row_of, set_field, word
from tidegate.columns.record_batches import clear, lay_out, note_nulls, put_bit
from tidegate.columns.tuples import KEY_ONLY, fill_holes, is_key, locate_tuples

_U = unsigned
_BINARY_VALUE = int(Refusal.BINARY_VALUE)
_ID_TEXT = 40
SCRATCH_BYTES = 2 * _ID_TEXT

# In a truncate the field holds its options, which stay below any letter.
_NO_OLD_ROW = 3

# The columns before those of the relation.
_OP, _ID, _COMMIT_LSN, _ORDINAL, _LSN, _XID, _COMMIT_TIME, _OLD_KIND = range(8)
HEAD_COLUMNS = 8
_LETTERS = np.frombuffer(b"cudt", np.uint8)


@kernel
def measure(
    body: np.ndarray,
    changes: np.ndarray,
    order: np.ndarray,
    tables: np.ndarray,
    refused: np.ndarray,
    sizes: np.ndarray,
    widths: np.ndarray,
    numbers: np.ndarray,
    words: np.ndarray,
    places: np.ndarray,
) -> tuple[int, int, int, int]:
    """Adds up the bytes of each column in `sizes`, and keeps in `order` only the changes that can be a row; then lays
    their batch out in `words` and `places` (`record_batches.lay_out`).

    What is below zero in `sizes` afterwards has no value at all: old columns, where no change has an old row. Returns
    how many are kept, how many were refused, why one stops the stream (0: none does; else it is the last in `refused`),
    and how many words the message needs.
    """
    begin, relations = address(body), tables[layout.RELATIONS_AT]
    columns, values = tables[layout.COLUMNS_AT], tables[layout.VALUES_AT]
    kept = out = 0
    has_old = False
    width = len(sizes) // 2
    sizes[:] = 0
    for turn in range(len(order)):
        change = row_of(address(changes), order[turn], layout.CHANGE_FIELDS)
        relation = row_of(relations, field(change, layout.RELATION), layout.RELATION_FIELDS)
        refusal = locate_tuples(begin, change, relation, values)
        if refusal != 0:
            refused[out] = order[turn]
            if refusal != _BINARY_VALUE:
                return kept, out, refusal, 0
            out += 1
            continue
        fill_holes(change, relation, columns, values)
        has_old |= field(change, layout.OLD_KIND) > _NO_OLD_ROW
        for side in range(2):
            if not _is_sent(side, change):
                continue
            for place in range(width):
                length = _sent_length(side, place, change, relation, columns, values)
                sizes[side * width + place] += max(length, 0)
        order[kept] = order[turn]
        kept += 1
    if not has_old:
        sizes[width:] = layout.NONE
    return kept, out, 0, lay_out(widths, sizes, kept, words, numbers, places)


@kernel
def fill(
    body: np.ndarray,
    changes: np.ndarray,
    order: np.ndarray,
    transactions: np.ndarray,
    tables: np.ndarray,
    system_id: Word,
    words: np.ndarray,
    scratch: np.ndarray,
    widths: np.ndarray,
    numbers: np.ndarray,
    places: np.ndarray,
    message: np.ndarray,
    unsent: np.ndarray,
) -> int:
    """Writes the columns into the message. `unsent` is one bitmap a column, zeros before; how many bits it has now."""
    _identify(changes, order, transactions, system_id, words, address(scratch), places, address(message))
    begin, target, relations = address(body), address(message), tables[layout.RELATIONS_AT]
    columns, values = tables[layout.COLUMNS_AT], tables[layout.VALUES_AT]
    rows = len(order)
    width = (len(widths) - HEAD_COLUMNS) // 2
    sides = 1 if places[len(widths) - 1, record_batches.DATA_BYTES] == 0 and _is_absent(places[len(widths) - 1]) else 2
    clear(target, places, widths, rows)
    not_sent = 0
    for row in range(rows):
        change = row_of(address(changes), order[row], layout.CHANGE_FIELDS)
        relation = row_of(relations, field(change, layout.RELATION), layout.RELATION_FIELDS)
        locate_tuples(begin, change, relation, values)
        fill_holes(change, relation, columns, values)
        for side in range(sides):
            for place in range(width):
                column = HEAD_COLUMNS + side * width + place
                length = _sent_length(side, place, change, relation, columns, values)
                offsets = target + places[column, record_batches.OFFSETS]
                at = field(offsets, row)
                set_field(offsets, row + 1, at + max(length, 0))
                if length >= 0:
                    cell = row_of(values, place, layout.VALUE_FIELDS)
                    value = field(cell, layout.OLD_SIDE * side + layout.VALUE)
                    _copy(target + places[column, record_batches.DATA] + at, value, length)
                    put_bit(target + places[column, record_batches.VALID], row)
                elif length == layout.UNCHANGED:
                    unsent[side * width + place, row >> 3] |= 1 << (row & 7)
                    not_sent += 1
    for column in range(HEAD_COLUMNS, HEAD_COLUMNS + sides * width):
        nulls = rows - _bits(target + places[column, record_batches.VALID], rows)
        note_nulls(target, numbers, widths, column, nulls, rows)
    return not_sent


@inlined
def _is_absent(place: np.ndarray) -> bool:
    return bool(place[record_batches.VALID] == place[record_batches.OFFSETS])


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
    changes: np.ndarray,
    order: np.ndarray,
    transactions: np.ndarray,
    system_id: Word,
    words: np.ndarray,
    text: int,
    places: np.ndarray,
    target: int,
) -> None:
    """What stands before the values: operation, the event's id, positions and times."""
    at = target + places[_OP, record_batches.DATA]
    ids = target + places[_ID, record_batches.DATA]
    lsns, ordinals = target + places[_COMMIT_LSN, record_batches.DATA], target + places[_ORDINAL, record_batches.DATA]
    own, times = target + places[_LSN, record_batches.DATA], target + places[_COMMIT_TIME, record_batches.DATA]
    xids, kinds = target + places[_XID, record_batches.DATA], target + places[_OLD_KIND, record_batches.DATA]
    entered, seed = layout.NONE, _U(0)
    lsn = time = xid = 0
    for row in range(len(order)):
        change = row_of(address(changes), order[row], layout.CHANGE_FIELDS)
        if field(change, layout.TRANSACTION) != entered:
            entered = field(change, layout.TRANSACTION)
            transaction = row_of(address(transactions), entered, layout.TRANSACTION_FIELDS)
            lsn, time = field(transaction, layout.COMMIT_LSN), field(transaction, layout.COMMIT_TIME)
            xid = field(transaction, layout.XID)
            seed = put_id_prefix(text, system_id, lsn, time, xid, words)
        sub = field(change, layout.NEW) if field(change, layout.OPERATION) == layout.TRUNCATE else 0
        put_id_rest(text + ID_PREFIX, seed, _U(field(change, layout.ORDINAL)), sub)
        _put_hex_bytes(ids + 16 * row, text)
        put(at + row, _LETTERS[field(change, layout.OPERATION)])
        set_field(lsns, row, lsn)
        set_field(ordinals, row, field(change, layout.ORDINAL))
        set_field(own, row, field(change, layout.LSN))
        set_field(times, row, time)
        for part in range(4):
            put(xids + 4 * row + part, xid >> (8 * part) & 255)
        kind = field(change, layout.OLD_KIND)
        put(kinds + row, kind if kind > _NO_OLD_ROW else 0)


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
