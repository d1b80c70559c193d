"""Envelopes as data: what an event says, as constant pieces and slots that differ from change to change.

Invariant: the default envelope is docs/reference/event.md, member by member.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from tidegate.columns.layout import Slot
from tidegate.events import Operation
from tidegate.pgoutput.messages import Relation

_LETTERS = {Operation.INSERT: "c", Operation.UPDATE: "u", Operation.DELETE: "d", Operation.TRUNCATE: "t"}
ROW_OPERATIONS = tuple(_LETTERS)
"""In the order of their numbers in `layout`."""


@dataclass(frozen=True, slots=True)
class EventSource:
    """What all events of one pipeline say about where they come from."""

    pipeline: str
    database: str
    system_id: int


Envelope: TypeAlias = Callable[[Relation, Operation, EventSource], Iterator[str | Slot]]


def default_envelope(relation: Relation, operation: Operation, source: EventSource) -> Iterator[str | Slot]:
    yield from ('{"id":"', Slot.ID)
    yield f'","channel":{json_text(f"{relation.schema}.{relation.name}")},"operation":"{operation}",'
    yield f'"payload":{{"op":"{_LETTERS[operation]}","table":{json_text(relation.name)},"row":'
    yield from (Slot.ROW, ',"old":', Slot.OLD, ',"unchanged":[', Slot.UNCHANGED, "]")
    if operation is Operation.TRUNCATE:
        yield from (',"options":{"cascade":', Slot.CASCADE, ',"restart_identity":', Slot.RESTART_IDENTITY, "}")
    yield f'}},"source":{{"pipeline":{json_text(source.pipeline)},"database":{json_text(source.database)},'
    yield f'"system_id":"{source.system_id}","snapshot":false}},"position":{{"commit_lsn":"'
    yield from (Slot.COMMIT_LSN, '","ordinal":', Slot.ORDINAL, ',"lsn":"', Slot.LSN, '"},"created_at":"')
    yield from (Slot.COMMIT_TIME, '","transaction":{"xid":', Slot.XID, ',"commit_time":"', Slot.COMMIT_TIME)
    yield from ('","seq":', Slot.SEQUENCE, "}}")


def json_text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
