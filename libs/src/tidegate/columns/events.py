"""Changes to JSON events in one pass: key and value of each, one behind the other in one buffer.

An envelope is data: steps of a constant piece and a slot, one program for each operation of a relation (`plans.py`).
What a transaction's events share is written once into `shared` and copied from there.

Invariant: an event's bytes and the reason of a refusal are those of the reference, `encodings.json.JsonPlan`: it looks
at the shape of both tuples first, then converts in an order of its own, and the first failure counts (`_refusal`).
"""

import numpy as np

from tidegate.columns import layout
from tidegate.columns.compiled import Word, inlined, kernel
from tidegate.columns.layout import Refusal
from tidegate.columns.members import enter, put_key, put_members
from tidegate.columns.memory import address, field, row_of, set_field
from tidegate.columns.tuples import fill_holes, locate_tuples

_BINARY_VALUE, _TIME_RANGE = int(Refusal.BINARY_VALUE), int(Refusal.TIME_RANGE)

# What a byte of a value can grow to: a control character to an escape of six.
_GROWTH = 6
_COPIES_NEW, _COPIES_OLD = 2, 3

# `state`: what has been done, so that the caller can give a larger buffer and go on.
NEXT, EVENTS, TO, REFUSED, FAILED = range(5)
STATE_FIELDS = 5


@kernel
def encode(
    body: np.ndarray,
    changes: np.ndarray,
    order: np.ndarray,
    transactions: np.ndarray,
    tables: np.ndarray,
    system_id: Word,
    scratch: np.ndarray,
    shared: np.ndarray,
    words: np.ndarray,
    out: np.ndarray,
    events: np.ndarray,
    refused: np.ndarray,
    tallies: np.ndarray,
    state: np.ndarray,
) -> int:
    """Encodes changes in `order` from state[NEXT] on, and adds the events of each topic up in `tallies`.

    Returns the room that the next one needs, or 0 when all are done or state[FAILED] says why one stops the stream.
    """
    begin, buffer, shared_at = address(body), address(out), address(shared)
    relations, topics = tables[layout.RELATIONS_AT], tables[layout.TOPICS_AT]
    buffer_end = buffer + len(out)
    entered = layout.NONE
    in_range = False
    for turn in range(state[NEXT], len(order)):
        change = row_of(address(changes), order[turn], layout.CHANGE_FIELDS)
        relation = row_of(relations, field(change, layout.RELATION), layout.RELATION_FIELDS)
        transaction = row_of(address(transactions), field(change, layout.TRANSACTION), layout.TRANSACTION_FIELDS)
        to = buffer + state[TO]
        room = _room(change, relation)
        if to + room > buffer_end:
            state[NEXT] = turn
            return room
        if field(change, layout.TRANSACTION) != entered:
            entered = field(change, layout.TRANSACTION)
            in_range = enter(transaction, system_id, shared_at, words)
        refusal, key_end, end = _put_event(
            to, begin, change, transaction, relation, address(tables), address(scratch), shared_at
        )
        if refusal == 0 and not in_range:
            refusal = _TIME_RANGE
        if refusal == 0:
            event = row_of(address(events), state[EVENTS], layout.EVENT_FIELDS)
            _note(event, to - buffer, key_end - buffer, end - buffer, order[turn])
            topic = field(
                row_of(topics, field(change, layout.RELATION), layout.OPERATIONS), field(change, layout.OPERATION)
            )
            _add_up(row_of(address(tallies), topic, layout.TALLY_FIELDS), key_end - to, end - key_end)
            state[EVENTS] += 1
            state[TO] = end - buffer
        elif refusal < _BINARY_VALUE:
            state[FAILED], state[NEXT] = refusal, turn
            return 0
        else:
            refused[state[REFUSED], 0], refused[state[REFUSED], 1] = order[turn], refusal
            state[REFUSED] += 1
    state[NEXT] = len(order)
    return 0


@inlined
def _room(change: int, relation: int) -> int:
    """More than any event of this change can take."""
    copies = _COPIES_NEW if field(change, layout.OLD) == layout.NONE else _COPIES_OLD
    return int(field(relation, layout.BOUND) + _GROWTH * copies * field(change, layout.LENGTH))


@inlined
def _put_event(
    to: int, begin: int, change: int, transaction: int, relation: int, tables: int, scratch: int, shared: int
) -> tuple[int, int, int]:
    """Why it is refused, or 0; where its key ends; where its value ends."""
    columns, values = field(tables, layout.COLUMNS_AT), field(tables, layout.VALUES_AT)
    keys, steps, pieces = field(tables, layout.KEYS_AT), field(tables, layout.STEPS_AT), field(tables, layout.PIECES_AT)
    refusal = locate_tuples(begin, change, relation, values)
    if refusal != 0:
        return refusal, to, to
    holes = fill_holes(change, relation, columns, values)
    key_refusal, key_end = 0, to
    if field(relation, layout.KEYS) and field(change, layout.OPERATION) != layout.TRUNCATE:
        key_end = put_key(to, change, relation, columns, keys, values, pieces, scratch)
        if key_end < 0:
            key_refusal, key_end = key_end, to
    end, row_refusal, old_refusal = put_members(
        key_end, change, transaction, relation, columns, steps, values, pieces, scratch, shared
    )
    return _refusal(key_refusal, row_refusal, old_refusal, holes), key_end, end


@inlined
def _note(event: int, key: int, value: int, end: int, change: int) -> None:
    set_field(event, layout.KEY_AT, key)
    set_field(event, layout.KEY_LENGTH, value - key if value > key else layout.NONE)
    set_field(event, layout.VALUE_AT, value)
    set_field(event, layout.VALUE_LENGTH, end - value)
    set_field(event, layout.CHANGE, change)


@inlined
def _add_up(tally: int, key: int, value: int) -> None:
    set_field(tally, layout.EVENTS, field(tally, layout.EVENTS) + 1)
    set_field(tally, layout.VALUE_BYTES, field(tally, layout.VALUE_BYTES) + value)
    set_field(tally, layout.LARGEST, max(field(tally, layout.LARGEST), key + value))
    set_field(tally, layout.KEYLESS, field(tally, layout.KEYLESS) + (key == 0))


@inlined
def _refusal(key: int, row: int, old: int, holes: bool) -> int:
    if old != 0:
        return old
    first, second = (row, key) if holes else (key, row)
    return first if first != 0 else second
