"""A frame for people: its header, and its changes with the values as PostgreSQL sent them, as text.

Invariant: nothing is guessed. What was not sent is named, a part of a larger message is said to be one, and a frame
that cannot be decoded raises one DecodeError.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from tidegate.contracts.epoch import decode_epoch
from tidegate.contracts.frame import Frame, FrameHeader, FrameKind, SchemaRole, body_messages
from tidegate.contracts.mark import decode_mark
from tidegate.errors import DecodeError
from tidegate.events import Operation, format_time
from tidegate.lsn import Lsn, format_lsn
from tidegate.pgoutput.changes import OPERATIONS, placed_changes
from tidegate.pgoutput.decode import decode_message
from tidegate.pgoutput.messages import (
    UNCHANGED,
    Begin,
    Binary,
    Delete,
    Insert,
    LogicalMessage,
    Message,
    Relation,
    Row,
    Truncate,
    Update,
)
from tidegate.position import Position

_RELATIONS_KEPT = 1024

Text = dict[str, str | None]


@dataclass(frozen=True, slots=True)
class Change:
    operation: Operation
    tables: tuple[str, ...]
    """`schema.table`; several of a truncate."""
    position: Position
    xid: int
    commit_time: int
    """PostgreSQL's microseconds."""
    lsn: Lsn
    row: Text | None = None
    old: Text | None = None
    unchanged: tuple[str, ...] = ()
    key: tuple[str, ...] = ()
    details: dict[str, Any] = field(default_factory=dict)

    @property
    def channel(self) -> str:
        return " ".join(self.tables) or "pg_logical_message"

    def to_json(self) -> dict[str, Any]:
        return {
            "operation": self.operation.value,
            "channel": self.channel,
            "position": {"commit_lsn": format_lsn(self.position.commit_lsn), "ordinal": self.position.ordinal},
            "lsn": format_lsn(self.lsn),
            "xid": self.xid,
            "commit_time": time_text(self.commit_time),
            "row": self.row,
            "old": self.old,
            "unchanged": list(self.unchanged),
            "key": list(self.key),
            "details": self.details,
        }


def time_text(postgres_time: int) -> str | None:
    try:
        return format_time(postgres_time)
    except DecodeError:
        return None


def changes(frame: Frame) -> Iterator[Change]:
    """Of a whole `wal` frame; others and parts have none to show."""
    header = frame.header
    if header.kind is not FrameKind.WAL or header.parts:
        return
    relations = _relations(frame)
    for message, transaction, ordinal, lsn, _ in placed_changes(frame):
        yield _change(message, relations, transaction, ordinal, lsn)


def transactions(frame: Frame) -> Iterator[tuple[int, Lsn]]:
    """(xid, commit LSN) of each transaction that the frame has a part of."""
    opened = frame.header.open_transaction
    if opened:
        yield opened.xid, opened.commit_lsn
    if frame.header.kind is FrameKind.WAL and not frame.header.parts:
        for _, raw in body_messages(frame):
            if raw[:1] == b"B":
                begun = decode_message(raw)
                if isinstance(begun, Begin):
                    yield begun.xid, begun.commit_lsn


def single_change(payload: bytes, schema: tuple[bytes, ...], position: Position) -> Change:
    """Of a dead letter, which carries the change and what it needs, and no transaction."""
    relations = {each.relation_id: each for each in map(_relation, schema) if each is not None}
    return _change(decode_message(payload), relations, Begin(position.commit_lsn, 0, 0), position.ordinal, Lsn(0))


def body_of(frame: Frame) -> dict[str, Any] | None:
    """What a frame says that is no row."""
    match frame.header.kind:
        case FrameKind.EPOCH:
            record = decode_epoch(frame.body)
            return {
                "mode": record.mode.value,
                "start_lsn": format_lsn(record.start_lsn),
                "tail": str(record.tail),
                "software": record.software,
            }
        case FrameKind.MARK:
            mark = decode_mark(frame.body)
            return {"kind": mark.kind.value}
        case _:
            return None


def header_json(header: FrameHeader) -> dict[str, Any]:
    opened = header.open_transaction
    return {
        "kind": header.kind.name.lower(),
        "generation": header.generation.id,
        "epoch": header.epoch,
        "seq": header.seq,
        "first": str(header.first),
        "last": str(header.last),
        "safe_lsn": format_lsn(header.safe_lsn),
        "created": header.created,
        "messages": header.messages,
        "changes": header.changes,
        "part": header.part or None,
        "parts": header.parts or None,
        "open_xid": opened.xid if opened else None,
    }


def _relations(frame: Frame) -> dict[int, Relation]:
    found = (_relation(entry.message) for entry in frame.schema if entry.role is SchemaRole.CURRENT)
    return {each.relation_id: each for each in found if each is not None}


@lru_cache(maxsize=_RELATIONS_KEPT)
def _relation(raw: bytes) -> Relation | None:
    decoded = decode_message(raw)
    return decoded if isinstance(decoded, Relation) else None


def _change(message: Message, relations: dict[int, Relation], begun: Begin, ordinal: int, lsn: Lsn) -> Change:
    place = (Position(begun.commit_lsn, ordinal), begun.xid, begun.commit_time, lsn)
    if isinstance(message, Truncate):
        named = tuple(_name(_of(relations, each)) for each in message.relation_ids)
        details: dict[str, Any] = {"cascade": message.cascade, "restart_identity": message.restart_identity}
        return Change(Operation.TRUNCATE, named, *place, details=details)
    if isinstance(message, LogicalMessage):
        details = {"prefix": message.prefix, "bytes": len(message.content)}
        return Change(Operation.MESSAGE, (), *place, details=details)
    assert isinstance(message, Insert | Update | Delete)
    relation = _of(relations, message.relation_id)
    new = None if isinstance(message, Delete) else message.new
    old = None if isinstance(message, Insert) else message.old
    return Change(
        OPERATIONS[type(message)],
        (_name(relation),),
        *place,
        row=None if new is None else _texts(relation, new),
        old=None if old is None else _texts(relation, old),
        unchanged=tuple(
            column.name for column, value in zip(relation.columns, new or (), strict=False) if value is UNCHANGED
        ),
        key=tuple(column.name for column in relation.columns if column.is_key),
    )


def _of(relations: dict[int, Relation], relation_id: int) -> Relation:
    if relation_id not in relations:
        raise DecodeError("a change of a relation that is not described", code="RELATION_UNKNOWN")
    return relations[relation_id]


def _name(relation: Relation) -> str:
    return f"{relation.schema}.{relation.name}"


def _texts(relation: Relation, row: Row) -> Text:
    texts: Text = {}
    for column, value in zip(relation.columns, row, strict=False):
        if value is not UNCHANGED:
            data = value.data if isinstance(value, Binary) else value
            texts[column.name] = data.decode(errors="replace") if isinstance(data, bytes) else None
    return texts
