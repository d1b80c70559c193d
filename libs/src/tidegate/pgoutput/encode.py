"""pgoutput messages, values to bytes: what a server would send. Simulators, benches and tests speak through it.

Invariant: decode_message(encode_message(m)) == m, told the same in_stream and parallel.
"""

from tidegate.pgoutput.messages import (
    Begin,
    BeginPrepare,
    Binary,
    Commit,
    CommitPrepared,
    Delete,
    Insert,
    LogicalMessage,
    Message,
    Origin,
    Prepare,
    Relation,
    RollbackPrepared,
    Row,
    StreamAbort,
    StreamCommit,
    StreamPrepare,
    StreamStart,
    StreamStop,
    Truncate,
    Type,
    Unchanged,
    Update,
    Value,
)
from tidegate.pgoutput.wire import I16, I32, I64, U32, U64


def encode_message(message: Message) -> bytes:
    match message:
        case Begin(lsn, time, xid):
            return b"B" + U64.pack(lsn) + I64.pack(time) + U32.pack(xid)
        case Commit(lsn, end, time):
            return b"C\0" + U64.pack(lsn) + U64.pack(end) + I64.pack(time)
        case Origin(lsn, name):
            return b"O" + U64.pack(lsn) + _text(name)
        case Relation():
            return _relation(message)
        case Type(oid, namespace, name, xid):
            return b"Y" + _xid(xid) + U32.pack(oid) + _text(namespace) + _text(name)
        case Insert(relation, new, xid):
            return b"I" + _xid(xid) + U32.pack(relation) + b"N" + encode_row(new)
        case Update(relation, kind, old, new, xid):
            before = b"" if kind is None or old is None else kind.encode() + encode_row(old)
            return b"U" + _xid(xid) + U32.pack(relation) + before + b"N" + encode_row(new)
        case Delete(relation, kind, old, xid):
            return b"D" + _xid(xid) + U32.pack(relation) + kind.encode() + encode_row(old)
        case Truncate(relations, options, xid):
            listed = b"".join(U32.pack(relation) for relation in relations)
            return b"T" + _xid(xid) + I32.pack(len(relations)) + bytes([options]) + listed
        case LogicalMessage(flags, lsn, prefix, content, xid):
            head = b"M" + _xid(xid) + bytes([flags]) + U64.pack(lsn) + _text(prefix)
            return head + I32.pack(len(content)) + content
        case _:
            return _streamed_or_prepared(message)


def encode_row(row: Row) -> bytes:
    return I16.pack(len(row)) + b"".join(map(_value, row))


def _value(value: Value) -> bytes:
    match value:
        case None:
            return b"n"
        case Unchanged.UNCHANGED:
            return b"u"
        case Binary(data):
            return b"b" + I32.pack(len(data)) + data
        case _:
            return b"t" + I32.pack(len(value)) + value


def _streamed_or_prepared(message: Message) -> bytes:
    match message:
        case StreamStart(xid, first):
            return b"S" + U32.pack(xid) + bytes([first])
        case StreamStop():
            return b"E"
        case StreamCommit(xid, lsn, end, time):
            return b"c" + U32.pack(xid) + b"\0" + U64.pack(lsn) + U64.pack(end) + I64.pack(time)
        case StreamAbort(xid, subxid, lsn, time):
            parallel = b"" if lsn is None or time is None else U64.pack(lsn) + I64.pack(time)
            return b"A" + U32.pack(xid) + U32.pack(subxid) + parallel
        case BeginPrepare(lsn, end, time, xid, gid):
            return b"b" + _prepared(lsn, end, time, xid, gid)
        case Prepare(lsn, end, time, xid, gid):
            return b"P\0" + _prepared(lsn, end, time, xid, gid)
        case CommitPrepared(lsn, end, time, xid, gid):
            return b"K\0" + _prepared(lsn, end, time, xid, gid)
        case StreamPrepare(lsn, end, time, xid, gid):
            return b"p\0" + _prepared(lsn, end, time, xid, gid)
        case RollbackPrepared(prepared, end, prepare_time, time, xid, gid):
            times = I64.pack(prepare_time) + I64.pack(time)
            return b"r\0" + U64.pack(prepared) + U64.pack(end) + times + U32.pack(xid) + _text(gid)
        case _:
            raise AssertionError(f"{type(message).__name__} has no encoding")


def _relation(message: Relation) -> bytes:
    head = b"R" + _xid(message.xid) + U32.pack(message.relation_id) + _text(message.namespace) + _text(message.name)
    columns = b"".join(
        bytes([column.flags]) + _text(column.name) + U32.pack(column.type_oid) + I32.pack(column.typmod)
        for column in message.columns
    )
    return head + message.replica_identity.encode() + I16.pack(len(message.columns)) + columns


def _prepared(lsn: int, end: int, time: int, xid: int, gid: str) -> bytes:
    return U64.pack(lsn) + U64.pack(end) + I64.pack(time) + U32.pack(xid) + _text(gid)


def _xid(xid: int | None) -> bytes:
    return b"" if xid is None else U32.pack(xid)


def _text(value: str) -> bytes:
    return value.encode() + b"\0"
