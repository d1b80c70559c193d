"""pgoutput messages, bytes to values: the readable reference that every faster decoder is tested against.

Any bytes give one message or one DecodeError; nothing partial escapes. What a message means can depend on where it
stands: inside a streamed block (`in_stream`) changes carry an xid behind the tag, and under streaming=parallel
(`parallel`, protocol 4) a stream abort carries its LSN and time.
"""

import struct
from collections.abc import Callable
from typing import NoReturn

from tidegate.errors import DecodeError
from tidegate.pgoutput.messages import (
    CASCADE,
    RESTART_IDENTITY,
    TRANSACTIONAL,
    UNCHANGED,
    Begin,
    BeginPrepare,
    Binary,
    Column,
    Commit,
    CommitPrepared,
    Delete,
    Insert,
    LogicalMessage,
    Message,
    OldKind,
    Origin,
    Prepare,
    Relation,
    ReplicaIdentity,
    RollbackPrepared,
    Row,
    StreamAbort,
    StreamCommit,
    StreamPrepare,
    StreamStart,
    StreamStop,
    Truncate,
    Type,
    Update,
    Value,
)
from tidegate.pgoutput.wire import I32, Cursor

_NULL, _TEXT, _BINARY, _TOAST = b"ntbu"
_length = I32.unpack_from
_NEW = ord("N")
_OLD_KINDS = {ord(kind): kind for kind in OldKind}
_IDENTITIES = {ord(identity): identity for identity in ReplicaIdentity}

# Flags, name (at least its NUL), type OID, typmod.
_SMALLEST_COLUMN = 1 + 1 + 4 + 4


def decode_message(data: bytes, *, in_stream: bool = False, parallel: bool = False) -> Message:
    if not data:
        raise DecodeError("an empty message", code="DECODE_CUT_SHORT")
    cursor = Cursor(data, 1)
    tag = data[0]
    if tag == _STREAM_ABORT:
        message: Message = _stream_abort(cursor, parallel)
    elif (change := _CHANGES.get(tag)) is not None:
        message = change(cursor, cursor.u32() if in_stream else None)
    elif (read := _CONTROLS.get(tag)) is not None:
        message = read(cursor)
    else:
        raise DecodeError("an unknown message", code="DECODE_UNKNOWN_MESSAGE")
    cursor.finish()
    return message


def _row(cursor: Cursor) -> Row:
    # The hot loop of the reference: one slice a value and no call of ours. A number that is not there raises by itself.
    data, size = cursor.data, len(cursor.data)
    count = cursor.count(1, cursor.i16(), "columns")
    at = cursor.position
    values: list[Value] = []
    try:
        for _ in range(count):
            kind = data[at]
            if kind == _TEXT or kind == _BINARY:  # noqa: SIM109 - a set costs twice as much here
                start = at + 5
                (length,) = _length(data, at + 1)
                end = start + length
                if length < 0 or end > size:
                    _row_cut(at)
                at = end
                values.append(data[start:end] if kind == _TEXT else Binary(data[start:end]))
            elif kind == _NULL:
                at += 1
                values.append(None)
            elif kind == _TOAST:
                at += 1
                values.append(UNCHANGED)
            else:
                raise DecodeError("an unknown kind of value", offset=at)
    except (IndexError, struct.error):
        _row_cut(at)
    cursor.position = at
    return tuple(values)


def _row_cut(at: int) -> NoReturn:
    raise DecodeError("a value does not end inside its message", offset=at, code="DECODE_CUT_SHORT") from None


def _new_row(cursor: Cursor, kind: int) -> Row:
    if kind != _NEW:
        cursor.fail("a new row was expected")
    return _row(cursor)


def _no_flags(cursor: Cursor) -> None:
    if cursor.u8() != 0:
        cursor.fail("flags that no known server sets")


def _flags(cursor: Cursor, known: int) -> int:
    flags = cursor.u8()
    if flags & ~known:
        cursor.fail("flags that no known server sets")
    return flags


def _insert(cursor: Cursor, xid: int | None) -> Insert:
    relation_id, kind = cursor.u32_u8()
    return Insert(relation_id, _new_row(cursor, kind), xid)


def _update(cursor: Cursor, xid: int | None) -> Update:
    relation_id, kind = cursor.u32_u8()
    old_kind = _OLD_KINDS.get(kind)
    if old_kind is None:
        return Update(relation_id, None, None, _new_row(cursor, kind), xid)
    old = _row(cursor)
    return Update(relation_id, old_kind, old, _new_row(cursor, cursor.u8()), xid)


def _delete(cursor: Cursor, xid: int | None) -> Delete:
    relation_id, kind = cursor.u32_u8()
    old_kind = _OLD_KINDS.get(kind)
    if old_kind is None:
        cursor.fail("an old row was expected")
    return Delete(relation_id, old_kind, _row(cursor), xid)


def _truncate(cursor: Cursor, xid: int | None) -> Truncate:
    number = cursor.i32()
    options = _flags(cursor, CASCADE | RESTART_IDENTITY)
    number = cursor.count(4, number, "relations")
    return Truncate(struct.unpack(f">{number}I", cursor.take(4 * number)), options, xid)


def _logical_message(cursor: Cursor, xid: int | None) -> LogicalMessage:
    flags = _flags(cursor, TRANSACTIONAL)
    return LogicalMessage(flags, cursor.lsn(), cursor.text(), cursor.take(cursor.i32()), xid)


def _relation(cursor: Cursor, xid: int | None) -> Relation:
    relation_id, namespace, name = cursor.u32(), cursor.text(), cursor.text()
    identity = _IDENTITIES.get(cursor.u8())
    if identity is None:
        cursor.fail("an unknown replica identity")
    number = cursor.count(_SMALLEST_COLUMN, cursor.i16(), "columns")
    columns = tuple(Column(cursor.u8(), cursor.text(), cursor.u32(), cursor.i32()) for _ in range(number))
    return Relation(relation_id, namespace, name, identity, columns, xid)


def _type(cursor: Cursor, xid: int | None) -> Type:
    return Type(cursor.u32(), cursor.text(), cursor.text(), xid)


def _begin(cursor: Cursor) -> Begin:
    return Begin(cursor.lsn(), cursor.i64(), cursor.u32())


def _commit(cursor: Cursor) -> Commit:
    _no_flags(cursor)
    return Commit(cursor.lsn(), cursor.lsn(), cursor.i64())


def _origin(cursor: Cursor) -> Origin:
    return Origin(cursor.lsn(), cursor.text())


def _stream_start(cursor: Cursor) -> StreamStart:
    return StreamStart(cursor.u32(), bool(_flags(cursor, 1)))


def _stream_stop(_: Cursor) -> StreamStop:
    return StreamStop()


def _stream_commit(cursor: Cursor) -> StreamCommit:
    xid = cursor.u32()
    _no_flags(cursor)
    return StreamCommit(xid, cursor.lsn(), cursor.lsn(), cursor.i64())


def _stream_abort(cursor: Cursor, parallel: bool) -> StreamAbort:
    xid, subxid = cursor.u32(), cursor.u32()
    return StreamAbort(xid, subxid, cursor.lsn(), cursor.i64()) if parallel else StreamAbort(xid, subxid)


def _begin_prepare(cursor: Cursor) -> BeginPrepare:
    return BeginPrepare(cursor.lsn(), cursor.lsn(), cursor.i64(), cursor.u32(), cursor.text())


def _prepare(cursor: Cursor) -> Prepare:
    _no_flags(cursor)
    return Prepare(cursor.lsn(), cursor.lsn(), cursor.i64(), cursor.u32(), cursor.text())


def _commit_prepared(cursor: Cursor) -> CommitPrepared:
    _no_flags(cursor)
    return CommitPrepared(cursor.lsn(), cursor.lsn(), cursor.i64(), cursor.u32(), cursor.text())


def _rollback_prepared(cursor: Cursor) -> RollbackPrepared:
    _no_flags(cursor)
    return RollbackPrepared(cursor.lsn(), cursor.lsn(), cursor.i64(), cursor.i64(), cursor.u32(), cursor.text())


def _stream_prepare(cursor: Cursor) -> StreamPrepare:
    _no_flags(cursor)
    return StreamPrepare(cursor.lsn(), cursor.lsn(), cursor.i64(), cursor.u32(), cursor.text())


_STREAM_ABORT = ord("A")

_CHANGES: dict[int, Callable[[Cursor, int | None], Message]] = {
    ord("I"): _insert,
    ord("U"): _update,
    ord("D"): _delete,
    ord("T"): _truncate,
    ord("M"): _logical_message,
    ord("R"): _relation,
    ord("Y"): _type,
}
"""With an xid behind the tag inside a streamed block."""

_CONTROLS: dict[int, Callable[[Cursor], Message]] = {
    ord("B"): _begin,
    ord("C"): _commit,
    ord("O"): _origin,
    ord("S"): _stream_start,
    ord("E"): _stream_stop,
    ord("c"): _stream_commit,
    ord("b"): _begin_prepare,
    ord("P"): _prepare,
    ord("K"): _commit_prepared,
    ord("r"): _rollback_prepared,
    ord("p"): _stream_prepare,
}
