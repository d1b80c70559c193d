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
from tidegate.contracts.mark import MarkKind, decode_mark
from tidegate.events import POSTGRES_EPOCH_UNIX_US, EventIds, Operation, format_time
from tidegate.lsn import format_lsn
from tidegate.pgoutput.messages import Relation
from tidegate.pgoutput.shape_changes import shape_changes, shapes_of_mark
from tidegate.position import Position

# Above every place in a TRUNCATE's list; with it, which of the tables that change at one position this is.
_SUB = 2**21


@dataclass(frozen=True, slots=True)
class Notice:
    operation: Operation
    table: tuple[str, str]
    value: bytes
    changes: Changes
    """One row that stands for it: what a dead letter is made from, should no topic take it."""


def notice_of(frame: Frame, source: EventSource, section: Section) -> Notice | None:
    if decode_mark(frame.body).kind is not MarkKind.SCHEMA_CHANGE:
        return None
    previous, current = shapes_of_mark(frame)
    value = json.dumps(_event(frame, source, previous, current), ensure_ascii=False, separators=(",", ":"))
    changes = _stand_in(frame, section, current)
    return Notice(Operation.SCHEMA_CHANGE, (current.schema, current.name), value.encode(), changes)


def _event(frame: Frame, source: EventSource, previous: Relation, current: Relation) -> dict[str, object]:
    first = frame.header.first
    ids = EventIds(system_id=source.system_id, commit_lsn=first.commit_lsn, xid=0, commit_time=0)
    return {
        "id": ids.id(first.ordinal, _SUB | current.relation_id % _SUB),
        "channel": f"{current.schema}.{current.name}",
        "operation": Operation.SCHEMA_CHANGE,
        "payload": _payload(previous, current),
        "source": {
            "pipeline": source.pipeline,
            "database": source.database,
            "system_id": str(source.system_id),
            "snapshot": False,
        },
        "position": _position(first),
        "created_at": format_time(frame.header.created - POSTGRES_EPOCH_UNIX_US),
        "transaction": None,
    }


def _payload(previous: Relation, current: Relation) -> dict[str, object]:
    changes = [{"kind": each.kind, "column": each.column, "was": each.was} for each in shape_changes(previous, current)]
    columns = [
        {"name": each.name, "type_oid": each.type_oid, "typmod": each.typmod, "is_key": each.is_key}
        for each in current.columns
    ]
    rows: dict[str, object] = {"row": None, "old": None, "unchanged": []}
    return {"op": "s", "table": current.name, **rows, "changes": changes, "columns": columns}


def _position(first: Position) -> dict[str, object]:
    lsn = format_lsn(first.commit_lsn)
    return {"commit_lsn": lsn, "ordinal": first.ordinal, "lsn": lsn}


def _stand_in(frame: Frame, section: Section, current: Relation) -> Changes:
    (message,) = (e.message for e in frame.schema if e.role is SchemaRole.CURRENT and e.message[:1] == b"R")
    first = frame.header.first
    row = np.zeros((1, layout.CHANGE_FIELDS), np.int64)
    row[0, layout.RELATION] = section.ids.tolist().index(current.relation_id)
    row[0, layout.ORDINAL], row[0, layout.LENGTH] = first.ordinal, len(message)
    row[0, [layout.NEW, layout.OLD]] = layout.NONE
    commit_lsn = np.uint64(first.commit_lsn).astype(np.int64)
    body = np.frombuffer(message + bytes(SLACK), np.uint8)
    return Changes(body, section, row, np.array([[0, commit_lsn, 0]], np.int64), Operation.SCHEMA_CHANGE)
