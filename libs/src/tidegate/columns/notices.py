"""Marks to events: what happened to a table that is no change of a row. docs/reference/event.md, "Schema changes".

Invariant: an event has the id that its place in the stream gives it, whenever it is sent: no clock is asked.
"""

import json
from dataclasses import dataclass

import numpy as np

from tidegate.columns import layout
from tidegate.columns.envelopes import EventSource
from tidegate.columns.frames import Changes
from tidegate.columns.plans import Section
from tidegate.columns.text import SLACK
from tidegate.contracts.frame import Frame, SchemaRole
from tidegate.contracts.mark import Mark, MarkKind, decode_mark
from tidegate.contracts.snapshot import SnapshotHead
from tidegate.errors import DecodeError
from tidegate.events import POSTGRES_EPOCH_UNIX_US, SNAPSHOT_ORDINALS, EventIds, Operation, format_time
from tidegate.lsn import format_lsn
from tidegate.pgoutput.messages import Relation
from tidegate.pgoutput.shape_changes import shape_changes, shapes_of_mark
from tidegate.position import Position

# Above every place in a TRUNCATE's list; with it, which of the tables that change at one position this is.
_SUB = 2**21
# Readings of rows are numbered by epoch, which does not get that far.
_NO_READING = 2**64 - 1
_OPERATIONS = {
    MarkKind.SCHEMA_CHANGE: Operation.SCHEMA_CHANGE,
    MarkKind.SNAPSHOT_STARTED: Operation.SNAPSHOT_STARTED,
    MarkKind.SNAPSHOT_COMPLETED: Operation.SNAPSHOT_COMPLETED,
}
# Before and behind all rows, whose ordinals begin there.
_ORDINALS = {MarkKind.SNAPSHOT_STARTED: SNAPSHOT_ORDINALS - 1, MarkKind.SNAPSHOT_COMPLETED: 2 * SNAPSHOT_ORDINALS}
_LETTERS = {Operation.SCHEMA_CHANGE: "s", Operation.SNAPSHOT_STARTED: "b", Operation.SNAPSHOT_COMPLETED: "e"}


@dataclass(frozen=True, slots=True)
class Notice:
    operation: Operation
    table: tuple[str, str]
    value: bytes
    changes: Changes
    """One row that stands for it: what a dead letter is made from, should no topic take it."""


def notice_of(frame: Frame, source: EventSource, section: Section) -> Notice | None:
    mark = decode_mark(frame.body)
    operation = _OPERATIONS.get(mark.kind)
    if operation is None:
        return None
    if operation is Operation.SCHEMA_CHANGE:
        previous, current = shapes_of_mark(frame)
        identity, said = _identity_of_change(frame, source, current), _payload(previous, current)
    else:
        current, snapshot = _of_snapshot(mark, section)
        identity, said = _identity_of_end(mark, snapshot, source, current), {"snapshot": mark.details}
    event = {
        "id": identity,
        "channel": f"{current.schema}.{current.name}",
        "operation": operation,
        "payload": {
            "op": _LETTERS[operation],
            "table": current.name,
            "row": None,
            "old": None,
            "unchanged": [],
            **said,
        },
        "source": {
            "pipeline": source.pipeline,
            "database": source.database,
            "system_id": str(source.system_id),
            "snapshot": operation is not Operation.SCHEMA_CHANGE,
        },
        "position": _position(frame.header.first, _ORDINALS.get(mark.kind)),
        "created_at": format_time(frame.header.created - POSTGRES_EPOCH_UNIX_US),
        "transaction": None,
    }
    value = json.dumps(event, ensure_ascii=False, separators=(",", ":")).encode()
    return Notice(operation, (current.schema, current.name), value, _stand_in(frame, section, current, operation))


def _identity_of_change(frame: Frame, source: EventSource, current: Relation) -> str:
    first = frame.header.first
    ids = EventIds(system_id=source.system_id, commit_lsn=first.commit_lsn, xid=0, commit_time=0)
    return ids.id(first.ordinal, _SUB | current.relation_id % _SUB)


def _of_snapshot(mark: Mark, section: Section) -> tuple[Relation, bytes]:
    try:
        (shape,) = section.shapes
        return shape.relation, bytes.fromhex(str(mark.details["snapshot"]))
    except (ValueError, KeyError):
        raise DecodeError("a mark of a snapshot without its table or its id", code="MARK_MALFORMED") from None


def _identity_of_end(mark: Mark, snapshot: bytes, source: EventSource, current: Relation) -> str:
    """Of a snapshot of a table: the same for a mark that is written again because a reader died behind it."""
    head = SnapshotHead(snapshot, current.relation_id, _NO_READING, 0, 0, 0)
    return head.ids(source.system_id).id(mark.kind is MarkKind.SNAPSHOT_COMPLETED)


def _payload(previous: Relation, current: Relation) -> dict[str, object]:
    changes = [{"kind": each.kind, "column": each.column, "was": each.was} for each in shape_changes(previous, current)]
    columns = [
        {"name": each.name, "type_oid": each.type_oid, "typmod": each.typmod, "is_key": each.is_key}
        for each in current.columns
    ]
    return {"changes": changes, "columns": columns}


def _position(first: Position, ordinal: int | None) -> dict[str, object]:
    lsn = format_lsn(first.commit_lsn)
    return {"commit_lsn": lsn, "ordinal": first.ordinal if ordinal is None else ordinal, "lsn": lsn}


def _stand_in(frame: Frame, section: Section, current: Relation, operation: Operation) -> Changes:
    (message,) = (e.message for e in frame.schema if e.role is SchemaRole.CURRENT and e.message[:1] == b"R")
    first = frame.header.first
    row = np.zeros((1, layout.CHANGE_FIELDS), np.int64)
    row[0, layout.RELATION] = section.ids.tolist().index(current.relation_id)
    row[0, layout.ORDINAL], row[0, layout.LENGTH] = first.ordinal, len(message)
    row[0, [layout.NEW, layout.OLD]] = layout.NONE
    commit_lsn = np.uint64(first.commit_lsn).astype(np.int64)
    body = np.frombuffer(message + bytes(SLACK), np.uint8)
    return Changes(body, section, row, np.array([[0, commit_lsn, 0]], np.int64), operation)
