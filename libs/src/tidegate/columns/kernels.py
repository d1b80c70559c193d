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
from tidegate.columns.compiled import Word, inlined, kernel, signed, unsigned
from tidegate.columns.layout import Verdict
from tidegate.columns.memory import address, be_i16, be_i32, be_i64, be_u32, byte
from tidegate.columns.text import SLACK, is_utf8

_U = unsigned
_HEAD = layout.ENTRY_HEAD
_DONE, _MALFORMED, _CUT_SHORT = int(Verdict.DONE), int(Verdict.MALFORMED), int(Verdict.CUT_SHORT)
_NO_TRANSACTION, _UNKNOWN_RELATION = int(Verdict.NO_TRANSACTION), int(Verdict.UNKNOWN_RELATION)
_NO_ROOM = int(Verdict.NO_ROOM)

_B, _C, _I, _U_TAG, _D, _T, _M = (ord(tag) for tag in "BCIUDTM")
_NEW, _KEY, _FULL = (ord(tag) for tag in "NKO")
_NULL, _TEXT, _BINARY, _UNCHANGED = (ord(tag) for tag in "ntbu")
_BEGIN_BYTES, _COMMIT_BYTES = 21, 26
# The tag of a message of no bytes, which is as malformed as a COMMIT of none.
_EMPTY = -1


@kernel
def scan(
    body: np.ndarray,
    relation_ids: np.ndarray,
    wanted: np.ndarray,
    start: tuple[int, int, int, int, int],
    tables: tuple[np.ndarray, ...],
) -> tuple[int, int, int, int, int, int]:
    """Verdict and its offset; how many changes, transactions and others there are; the longest change's length.

    `body` has SLACK bytes behind it. `start`: is a transaction open (then it is the first of `transactions`), its next
    ordinal, commit LSN and ordinal of `after`, are messages wanted. `relation_ids` ascends; what has a number below 0
    in `wanted[relation, operation]` is left out. `seen` is scratch: two NONE a relation.
    """
    changes, transactions, others, seen = tables
    begin = at = message = address(body)
    size = begin + len(body) - SLACK
    kept = noted = longest = 0
    begun, in_transaction = start[0], start[0] != 0
    ordinal, after = _U(start[1]), (_U(start[2]), _U(start[3]))
    known, verdict = layout.NONE, _DONE
    while at < size and verdict == _DONE:
        message = at + _HEAD
        if message > size:
            return _CUT_SHORT, at - begin, kept, begun, noted, longest
        length, lsn = signed(be_u32(at)), be_i64(at + 4)
        at = message + length
        if at > size:
            return _CUT_SHORT, message - begin, kept, begun, noted, longest
        tag = byte(message) if length else _EMPTY
        if tag == _I or tag == _U_TAG or tag == _D or tag == _T or tag == _M:
            if kept == len(changes):
                return _NO_ROOM, message - begin, kept, begun, noted, longest
            change = changes[kept]
            if not _is_change(begin, message, at, tag, change):
                verdict = _MALFORMED
            elif not in_transaction:
                verdict = _NO_TRANSACTION
            elif _is_above(transactions[begun - 1], ordinal, after):
                longest = max(longest, length)
                _place(change, layout.NONE, begun, ordinal, lsn, message - begin, length)
                if tag == _T:
                    verdict, kept = _truncate(message, message - begin, relation_ids, wanted, changes, kept, seen)
                elif tag == _M:
                    kept += start[4]
                else:
                    verdict, kept, known = _keep_row(message, relation_ids, wanted, change, kept, known)
            ordinal += _U(1)
        elif tag == _B:
            if length != _BEGIN_BYTES:
                return _MALFORMED, message - begin, kept, begun, noted, longest
            _begin(message, transactions[begun])
            begun += 1
            in_transaction, ordinal = True, _U(0)
        elif tag == _C or tag == _EMPTY:
            verdict = _DONE if length == _COMMIT_BYTES and byte(message + 1) == 0 else _MALFORMED
            in_transaction = False
        else:
            others[noted, 0], others[noted, 1] = message - begin, length
            noted += 1
    return verdict, message - begin, kept, begun, noted, longest


@inlined
def _is_change(begin: int, message: int, end: int, tag: int, change: np.ndarray) -> bool:
    if tag == _T:
        return _is_truncate(message, end)
    if tag == _M:
        return _is_logical_message(message, end, change)
    return _row_message(begin, message, end, tag, change)


@inlined
def _begin(message: int, transaction: np.ndarray) -> None:
    transaction[layout.COMMIT_LSN] = be_i64(message + 1)
    transaction[layout.COMMIT_TIME] = be_i64(message + 9)
    transaction[layout.XID] = signed(be_u32(message + 17))


@inlined
def _keep_row(
    message: int, relation_ids: np.ndarray, wanted: np.ndarray, change: np.ndarray, kept: int, known: int
) -> tuple[int, int, int]:
    """Verdict, how many are kept now, and the relation: most changes are of that of the one before, `known`."""
    relation_id = be_u32(message + 1)
    if known == layout.NONE or _U(relation_ids[known]) != relation_id:
        known = _find(relation_ids, relation_id)
    if known == layout.NONE:
        return _UNKNOWN_RELATION, kept, known
    change[layout.RELATION] = known
    return _DONE, kept + (wanted[known, change[layout.OPERATION]] >= 0), known


@inlined
def _truncate(
    message: int,
    offset: int,
    relation_ids: np.ndarray,
    wanted: np.ndarray,
    changes: np.ndarray,
    kept: int,
    seen: np.ndarray,
) -> tuple[int, int]:
    """A change for each wanted relation, all like the first, which is placed. Verdict, and how many are kept now."""
    first = kept
    for place in range(be_i32(message + 1)):
        relation = _find(relation_ids, be_u32(message + 6 + 4 * place))
        if relation == layout.NONE:
            return _UNKNOWN_RELATION, kept
        if seen[relation, 0] != offset:
            seen[relation, 0], seen[relation, 1] = offset, place
        if wanted[relation, layout.TRUNCATE] < 0:
            continue
        if kept == len(changes):
            return _NO_ROOM, kept
        change = changes[kept]
        for field in range(layout.CHANGE_FIELDS):
            change[field] = changes[first, field]
        change[layout.RELATION], change[layout.OPERATION] = relation, layout.TRUNCATE
        change[layout.NEW], change[layout.OLD] = seen[relation, 1], layout.NONE
        change[layout.OLD_KIND], change[layout.FLAGS] = byte(message + 5), 0
        kept += 1
    return _DONE, kept


@inlined
def _is_above(transaction: np.ndarray, ordinal: Word, after: tuple[Word, Word]) -> bool:
    commit_lsn = _U(transaction[layout.COMMIT_LSN])
    return bool(commit_lsn > after[0] or (commit_lsn == after[0] and ordinal > after[1]))


@inlined
def _place(change: np.ndarray, relation: int, begun: int, ordinal: Word, lsn: int, message: int, length: int) -> None:
    change[layout.RELATION], change[layout.TRANSACTION] = relation, begun - 1
    change[layout.ORDINAL], change[layout.LSN] = signed(ordinal), lsn
    change[layout.MESSAGE], change[layout.LENGTH] = message, length


@inlined
def _find(relation_ids: np.ndarray, relation_id: Word) -> int:
    low, high = 0, len(relation_ids)
    while low < high:
        middle = (low + high) >> 1
        if _U(relation_ids[middle]) < relation_id:
            low = middle + 1
        else:
            high = middle
    found = low < len(relation_ids) and _U(relation_ids[low]) == relation_id
    return low if found else layout.NONE


@inlined
def _row_message(begin: int, message: int, end: int, tag: int, change: np.ndarray) -> bool:
    if end - message < layout.SMALLEST_ROW - _HEAD:
        return False
    change[layout.NEW] = change[layout.OLD] = layout.NONE
    change[layout.OLD_KIND] = change[layout.FLAGS] = 0
    change[layout.OPERATION] = layout.INSERT if tag == _I else layout.UPDATE if tag == _U_TAG else layout.DELETE
    at = message + 5
    kind = byte(at)
    if tag != _I and (kind == _KEY or kind == _FULL):
        change[layout.OLD_KIND], change[layout.OLD] = kind, at + 1 - begin
        at = _tuple_end(at + 1, end, change)
        if tag == _D:
            return at == end
        if at == layout.NONE or at >= end:
            return False
        kind = byte(at)
    if tag == _D or kind != _NEW:
        return False
    change[layout.NEW] = at + 1 - begin
    return _tuple_end(at + 1, end, change) == end


@inlined
def _tuple_end(at: int, end: int, change: np.ndarray) -> int:
    """Where a tuple ends, or NONE; what it holds besides NULL and text is noted."""
    if at + 2 > end:
        return layout.NONE
    count = be_i16(at)
    at += 2
    if count < 0 or count > end - at:
        return layout.NONE
    for _ in range(count):
        if at >= end:
            return layout.NONE
        kind = byte(at)
        if kind == _TEXT or kind == _BINARY:
            if at + 5 > end:
                return layout.NONE
            length = be_i32(at + 1)
            at += 5
            if length < 0 or length > end - at:
                return layout.NONE
            at += length
            if kind == _BINARY:
                change[layout.FLAGS] |= layout.HAS_BINARY
        elif kind == _NULL:
            at += 1
        elif kind == _UNCHANGED:
            change[layout.FLAGS] |= layout.HAS_UNCHANGED
            at += 1
        else:
            return layout.NONE
    return at


@inlined
def _is_truncate(message: int, end: int) -> bool:
    if end - message < 6:
        return False
    number = be_i32(message + 1)
    return bool(number >= 0 and byte(message + 5) < 4 and message + 6 + 4 * number == end)


@inlined
def _is_logical_message(message: int, end: int, change: np.ndarray) -> bool:
    change[layout.OPERATION] = layout.MESSAGE_ROW
    change[layout.NEW] = change[layout.OLD] = layout.NONE
    change[layout.OLD_KIND] = change[layout.FLAGS] = 0
    if end - message < 10 or byte(message + 1) > 1:
        return False
    prefix = at = message + 10
    while at < end and byte(at) != 0:
        at += 1
    if at + 5 > end or not is_utf8(prefix, at):
        return False
    return bool(at + 5 + be_i32(at + 1) == end and be_i32(at + 1) >= 0)


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
