"""One relation's changes to columns of text: offsets, bytes and bitmaps as Arrow has them, and what is unsent.

Invariant: a value is the bytes that PostgreSQL sent, NULL, or not sent; the three are never confused. Columns stand in
the order of the relation, first all of the new rows, then all of the old ones if any change has one.
"""

import numpy as np

from tidegate.columns import layout
from tidegate.columns.compiled import Word, inlined, kernel, unsigned
from tidegate.columns.identity import ID_PREFIX, put_id_prefix, put_id_rest
from tidegate.columns.layout import Refusal
from tidegate.columns.memory import address, byte, field, put, put_word, row_of, word
from tidegate.columns.tuples import KEY_ONLY, fill_holes, is_key, locate_tuples

_U = unsigned
_BINARY_VALUE = int(Refusal.BINARY_VALUE)
_ID_TEXT = 40
SCRATCH_BYTES = 2 * _ID_TEXT


@kernel
def measure(
    body: np.ndarray,
    changes: np.ndarray,
    order: np.ndarray,
    relations: np.ndarray,
    columns: np.ndarray,
    values: np.ndarray,
    offsets: np.ndarray,
    refused: np.ndarray,
) -> tuple[int, int, int]:
    """Fills `offsets[column, row + 1]`, and keeps in `order` only the changes that can be a row.

    Returns how many those are, how many were refused, and why one stops the stream (0: none does; else it is the first
    behind the kept ones in `refused`).
    """
    begin = address(body)
    kept = out = 0
    for turn in range(len(order)):
        change = row_of(address(changes), order[turn], layout.CHANGE_FIELDS)
        relation = row_of(address(relations), field(change, layout.RELATION), layout.RELATION_FIELDS)
        refusal = locate_tuples(begin, change, relation, address(values))
        if refusal != 0:
            refused[out] = order[turn]
            if refusal != _BINARY_VALUE:
                return kept, out, refusal
            out += 1
            continue
        fill_holes(change, relation, address(columns), address(values))
        width = field(relation, layout.COLUMNS)
        for side in range(len(offsets) // max(width, 1)):
            for place in range(width):
                length = _sent_length(side, place, change, relation, address(columns), address(values))
                column = side * width + place
                offsets[column, kept + 1] = offsets[column, kept] + max(length, 0)
        order[kept] = order[turn]
        kept += 1
    return kept, out, 0


@kernel
def fill(
    body: np.ndarray,
    changes: np.ndarray,
    order: np.ndarray,
    relations: np.ndarray,
    columns: np.ndarray,
    values: np.ndarray,
    offsets: np.ndarray,
    starts: np.ndarray,
    data: np.ndarray,
    valid: np.ndarray,
    unsent: np.ndarray,
    counts: np.ndarray,
) -> None:
    """`starts[column]`: where its bytes begin in `data`. `counts[column]`: how many nulls, how many of these unsent."""
    begin, target = address(body), address(data)
    for row in range(len(order)):
        change = row_of(address(changes), order[row], layout.CHANGE_FIELDS)
        relation = row_of(address(relations), field(change, layout.RELATION), layout.RELATION_FIELDS)
        locate_tuples(begin, change, relation, address(values))
        fill_holes(change, relation, address(columns), address(values))
        width = field(relation, layout.COLUMNS)
        bit = 1 << (row & 7)
        for side in range(len(offsets) // max(width, 1)):
            for place in range(width):
                column = side * width + place
                length = _sent_length(side, place, change, relation, address(columns), address(values))
                if length >= 0:
                    cell = row_of(address(values), place, layout.VALUE_FIELDS)
                    _copy(
                        target + starts[column] + offsets[column, row],
                        field(cell, layout.OLD_SIDE * side + layout.VALUE),
                        length,
                    )
                    valid[column, row >> 3] |= bit
                    continue
                counts[column, 0] += 1
                if length == layout.UNCHANGED:
                    counts[column, 1] += 1
                    unsent[column, row >> 3] |= bit


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
def _sent_length(side: int, place: int, change: int, relation: int, columns: int, values: int) -> int:
    """Of a value, or NULL, or UNCHANGED for what the server did not send."""
    is_sent = field(change, layout.OLD if side else layout.NEW) != layout.NONE
    if not is_sent or field(change, layout.OPERATION) == layout.TRUNCATE:
        return layout.NULL
    if side and field(change, layout.OLD_KIND) == KEY_ONLY and not is_key(columns, relation, place):
        return layout.UNCHANGED
    return field(row_of(values, place, layout.VALUE_FIELDS), layout.OLD_SIDE * side + layout.LENGTH_OF)


@kernel
def identify(
    changes: np.ndarray,
    order: np.ndarray,
    transactions: np.ndarray,
    system_id: Word,
    words: np.ndarray,
    scratch: np.ndarray,
    ids: np.ndarray,
) -> None:
    """The events' ids, sixteen bytes each."""
    text = address(scratch)
    entered, seed = layout.NONE, _U(0)
    for row in range(len(order)):
        change = row_of(address(changes), order[row], layout.CHANGE_FIELDS)
        if field(change, layout.TRANSACTION) != entered:
            entered = field(change, layout.TRANSACTION)
            transaction = row_of(address(transactions), entered, layout.TRANSACTION_FIELDS)
            lsn, time = field(transaction, layout.COMMIT_LSN), field(transaction, layout.COMMIT_TIME)
            seed = put_id_prefix(text, system_id, lsn, time, field(transaction, layout.XID), words)
        sub = field(change, layout.NEW) if field(change, layout.OPERATION) == layout.TRUNCATE else 0
        put_id_rest(text + ID_PREFIX, seed, _U(field(change, layout.ORDINAL)), sub)
        _put_hex_bytes(address(ids) + 16 * row, text)


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
