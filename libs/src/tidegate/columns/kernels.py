"""One pass over the body of a `wal` frame: every length validated, every change found and placed.

| tag     | what happens                                                                       |
| ------- | ---------------------------------------------------------------------------------- |
| B       | a transaction begins, ordinals count from 0                                         |
| C       | it ends                                                                             |
| I U D   | a row: tuples walked to their end; kept if above `after` and wanted; ordinal + 1     |
| T       | kept once for each wanted relation; ordinal + 1                                     |
| M       | validated; kept only if messages are wanted; ordinal + 1                            |
| other   | its place is noted: the reference judges it, for it is rare and changes nothing     |

Invariant: no byte is read that was not proven to be there, and what is kept needs no further check of a length. The
verdict names the message that is wrong; what is wrong with it the reference says (`frames.py`).
"""

import numpy as np

from tidegate.columns import layout
from tidegate.columns.change_messages import LOGICAL, TRUNCATE, changes_something, is_change
from tidegate.columns.compiled import Word, inlined, kernel, signed, unsigned
from tidegate.columns.layout import Verdict
from tidegate.columns.memory import address, be_i32, be_i64, be_u32, byte, field, row_of, set_field
from tidegate.columns.text import SLACK

_U = unsigned
_HEAD = layout.ENTRY_HEAD
_DONE, _MALFORMED, _CUT_SHORT = int(Verdict.DONE), int(Verdict.MALFORMED), int(Verdict.CUT_SHORT)
_NO_TRANSACTION, _UNKNOWN_RELATION = int(Verdict.NO_TRANSACTION), int(Verdict.UNKNOWN_RELATION)
_NO_ROOM = int(Verdict.NO_ROOM)

_B, _C = ord("B"), ord("C")
_BEGIN_BYTES, _COMMIT_BYTES = 21, 26
# The tag of a message of no bytes, which is as malformed as a COMMIT of none.
_EMPTY = -1


@kernel
def scan(
    body: np.ndarray,
    relation_ids: np.ndarray,
    wanted: np.ndarray,
    seen: np.ndarray,
    changes: np.ndarray,
    transactions: np.ndarray,
    start: tuple[int, int, int, int, int],
) -> tuple[int, int, int, int, int, int]:
    """Verdict and its offset; how many changes, transactions and others there are; the longest change's length.

    `body` has SLACK bytes behind it. `start`: is a transaction open (then it is the first of `transactions`), its next
    ordinal, commit LSN and ordinal of `after`, are messages wanted. `relation_ids` ascends; what has a number below 0
    in `wanted[relation, operation]` is left out. Others stand at the end of `changes`, the first one last. `seen` is
    scratch: two numbers a relation.
    """
    begin = at = message = address(body)
    size = begin + len(body) - SLACK
    known_of = address(relation_ids), len(relation_ids), address(wanted)
    kept = noted = longest = 0
    begun, in_transaction = start[0], start[0] != 0
    ordinal, after = _U(start[1]), (_U(start[2]), _U(start[3]))
    known, verdict = layout.NONE, _DONE
    seen[:] = layout.NONE
    while at < size and verdict == _DONE:
        message = at + _HEAD
        if message > size:
            return _CUT_SHORT, at - begin, kept, begun, noted, longest
        length, lsn = signed(be_u32(at)), be_i64(at + 4)
        at = message + length
        if at > size:
            return _CUT_SHORT, message - begin, kept, begun, noted, longest
        if kept + noted == len(changes):
            return _NO_ROOM, message - begin, kept, begun, noted, longest
        tag = byte(message) if length else _EMPTY
        if changes_something(tag):
            change = row_of(address(changes), kept, layout.CHANGE_FIELDS)
            if not is_change(begin, message, at, tag, change):
                verdict = _MALFORMED
            elif not in_transaction:
                verdict = _NO_TRANSACTION
            elif _is_above(row_of(address(transactions), begun - 1, layout.TRANSACTION_FIELDS), ordinal, after):
                longest = max(longest, length)
                _place(change, layout.NONE, begun, ordinal, lsn, message - begin, length)
                told = begin, message, tag, start[4]
                verdict, kept, known = _keep(told, known_of, changes, kept, noted, known, seen)
            ordinal += _U(1)
        elif tag == _B and length == _BEGIN_BYTES:
            _begin(message, row_of(address(transactions), begun, layout.TRANSACTION_FIELDS))
            begun += 1
            in_transaction, ordinal = True, _U(0)
        elif tag == _C and length == _COMMIT_BYTES and byte(message + 1) == 0:
            in_transaction = False
        elif tag == _B or tag == _C or tag == _EMPTY:
            verdict = _MALFORMED
        else:
            noted += 1
            _note(row_of(address(changes), len(changes) - noted, layout.CHANGE_FIELDS), message - begin, length)
    return verdict, message - begin, kept, begun, noted, longest


@inlined
def _begin(message: int, transaction: int) -> None:
    set_field(transaction, layout.COMMIT_LSN, be_i64(message + 1))
    set_field(transaction, layout.COMMIT_TIME, be_i64(message + 9))
    set_field(transaction, layout.XID, signed(be_u32(message + 17)))


@inlined
def _keep(
    told: tuple[int, int, int, int],
    known_of: tuple[int, int, int],
    changes: np.ndarray,
    kept: int,
    noted: int,
    known: int,
    seen: np.ndarray,
) -> tuple[int, int, int]:
    """Verdict, how many are kept now, and the relation: most changes are of that of the one before, `known`."""
    begin, message, tag, messages = told
    if tag == LOGICAL:
        return _DONE, kept + messages, known
    if tag == TRUNCATE:
        verdict, kept = _truncate(begin, message, known_of, changes, kept, noted, seen)
        return verdict, kept, known
    relation_ids, relations, wanted = known_of
    relation_id = be_u32(message + 1)
    if known == layout.NONE or _U(field(relation_ids, known)) != relation_id:
        known = _find(relation_ids, relations, relation_id)
    if known == layout.NONE:
        return _UNKNOWN_RELATION, kept, known
    change = row_of(address(changes), kept, layout.CHANGE_FIELDS)
    set_field(change, layout.RELATION, known)
    return _DONE, kept + _is_wanted(wanted, known, field(change, layout.OPERATION)), known


@inlined
def _is_wanted(wanted: int, relation: int, operation: int) -> bool:
    return field(row_of(wanted, relation, layout.OPERATIONS), operation) >= 0


@inlined
def _note(other: int, message: int, length: int) -> None:
    set_field(other, layout.MESSAGE, message)
    set_field(other, layout.LENGTH, length)


@inlined
def _truncate(
    begin: int,
    message: int,
    known_of: tuple[int, int, int],
    changes: np.ndarray,
    kept: int,
    noted: int,
    seen: np.ndarray,
) -> tuple[int, int]:
    """A change for each wanted relation, all like the first, which is placed. Verdict, and how many are kept now."""
    relation_ids, relations, wanted = known_of
    first = row_of(address(changes), kept, layout.CHANGE_FIELDS)
    for place in range(be_i32(message + 1)):
        relation = _find(relation_ids, relations, be_u32(message + 6 + 4 * place))
        if relation == layout.NONE:
            return _UNKNOWN_RELATION, kept
        if seen[relation, 0] != message - begin:
            seen[relation, 0], seen[relation, 1] = message - begin, place
        if not _is_wanted(wanted, relation, layout.TRUNCATE):
            continue
        if kept + noted == len(changes):
            return _NO_ROOM, kept
        change = row_of(address(changes), kept, layout.CHANGE_FIELDS)
        for each in range(layout.CHANGE_FIELDS):
            set_field(change, each, field(first, each))
        set_field(change, layout.RELATION, relation)
        set_field(change, layout.OPERATION, layout.TRUNCATE)
        set_field(change, layout.NEW, seen[relation, 1])
        set_field(change, layout.OLD, layout.NONE)
        set_field(change, layout.OLD_KIND, byte(message + 5))
        set_field(change, layout.FLAGS, 0)
        kept += 1
    return _DONE, kept


@inlined
def _is_above(transaction: int, ordinal: Word, after: tuple[Word, Word]) -> bool:
    commit_lsn = _U(field(transaction, layout.COMMIT_LSN))
    return bool(commit_lsn > after[0] or (commit_lsn == after[0] and ordinal > after[1]))


@inlined
def _place(change: int, relation: int, begun: int, ordinal: Word, lsn: int, message: int, length: int) -> None:
    set_field(change, layout.RELATION, relation)
    set_field(change, layout.TRANSACTION, begun - 1)
    set_field(change, layout.ORDINAL, signed(ordinal))
    set_field(change, layout.LSN, lsn)
    _note(change, message, length)


@inlined
def _find(relation_ids: int, relations: int, relation_id: Word) -> int:
    low, high = 0, relations
    while low < high:
        middle = (low + high) >> 1
        if _U(field(relation_ids, middle)) < relation_id:
            low = middle + 1
        else:
            high = middle
    found = low < relations and _U(field(relation_ids, low)) == relation_id
    return low if found else layout.NONE


@kernel
def arrange(changes: np.ndarray, topics: np.ndarray, starts: np.ndarray, order: np.ndarray) -> None:
    """The changes' rows by topic, in each as they came. `starts` is scratch: a zero for each topic, and one more."""
    for row in range(len(changes)):
        starts[topics[changes[row, layout.RELATION], changes[row, layout.OPERATION]] + 1] += 1
    for topic in range(1, len(starts)):
        starts[topic] += starts[topic - 1]
    for row in range(len(changes)):
        topic = topics[changes[row, layout.RELATION], changes[row, layout.OPERATION]]
        order[starts[topic]] = row
        starts[topic] += 1
