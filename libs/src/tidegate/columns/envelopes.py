"""Envelopes as data: what an event says, as constant pieces and slots that differ from change to change.

Invariant: the default envelope is docs/reference/event.md, member by member; others are docs/reference/envelopes.md.
All are programs of one kernel (`events.encode`).
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from tidegate.columns.layout import Slot
from tidegate.columns.values import Form
from tidegate.events import Operation
from tidegate.pgoutput.messages import Relation

ROW_OPERATIONS = (Operation.INSERT, Operation.UPDATE, Operation.DELETE, Operation.TRUNCATE)
"""In the order of their numbers in `layout`. A row of a snapshot is an insert to kernels (`snapshots.py`)."""
LETTERS = dict(zip((*ROW_OPERATIONS, Operation.SNAPSHOT), "cudtr", strict=True))


@dataclass(frozen=True, slots=True)
class EventSource:
    """What all events of one pipeline say about where they come from."""

    pipeline: str
    database: str
    system_id: int


Program: TypeAlias = Callable[[Relation, Operation, EventSource], Iterator[str | Slot]]


@dataclass(frozen=True, slots=True)
class Envelope:
    program: Program
    forms: Mapping[int, Callable[[int], Form]] = field(default_factory=dict)
    """By type OID, for what it writes in a way of its own: the form, by the column's modifier."""


def _default(relation: Relation, operation: Operation, source: EventSource) -> Iterator[str | Slot]:
    yield from ('{"id":"', Slot.ID)
    yield f'","channel":{json_text(f"{relation.schema}.{relation.name}")},"operation":"{operation}",'
    yield f'"payload":{{"op":"{LETTERS[operation]}","table":{json_text(relation.name)},"row":'
    yield from (Slot.ROW, ',"old":', Slot.OLD, ',"unchanged":[', Slot.UNCHANGED, "]")
    if operation is Operation.TRUNCATE:
        yield from (',"options":{"cascade":', Slot.CASCADE, ',"restart_identity":', Slot.RESTART_IDENTITY, "}")
    yield f'}},"source":{{"pipeline":{json_text(source.pipeline)},"database":{json_text(source.database)},'
    if operation is Operation.SNAPSHOT:
        yield f'"system_id":"{source.system_id}","snapshot":true}},"position":{{"commit_lsn":"'
        yield from (Slot.LSN, '","ordinal":', Slot.ROW_ORDINAL, ',"lsn":"', Slot.LSN, '"},"created_at":"')
        yield from (Slot.COMMIT_TIME, '","transaction":null}')
        return
    yield f'"system_id":"{source.system_id}","snapshot":false}},"position":{{"commit_lsn":"'
    yield from (Slot.COMMIT_LSN, '","ordinal":', Slot.ORDINAL, ',"lsn":"', Slot.LSN, '"},"created_at":"')
    yield from (Slot.COMMIT_TIME, '","transaction":{"xid":', Slot.XID, ',"commit_time":"', Slot.COMMIT_TIME)
    yield from ('","seq":', Slot.SEQUENCE, "}}")


default_envelope = Envelope(_default)


def json_text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
