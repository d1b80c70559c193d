"""CloudEvents 1.0, structured mode, JSON format: the default event's payload and position as `data`.

Invariant: `source` and `id` together are unique, as the specification asks: `id` is the event's own for ever.
"""

from collections.abc import Iterator
from typing import Final
from urllib.parse import quote

from tidegate.columns.envelopes import LETTERS, Envelope, EventSource, json_text
from tidegate.columns.layout import Slot
from tidegate.events import Operation
from tidegate.pgoutput.messages import Relation

TYPE_PREFIX: Final = "dev.tidegate.change."


def _program(relation: Relation, operation: Operation, source: EventSource) -> Iterator[str | Slot]:
    place = f"/tidegate/{quote(source.pipeline, safe='')}/{source.system_id}/{quote(source.database, safe='')}"
    yield from ('{"specversion":"1.0","id":"', Slot.ID)
    yield f'","source":{json_text(place)},"type":"{TYPE_PREFIX}{operation.lower()}",'
    yield f'"subject":{json_text(f"{relation.schema}.{relation.name}")},"time":"'
    yield from (Slot.COMMIT_TIME, '","datacontenttype":"application/json","data":{')
    yield f'"op":"{LETTERS[operation]}","schema":{json_text(relation.schema)},"table":{json_text(relation.name)},"row":'
    yield from (Slot.ROW, ',"old":', Slot.OLD, ',"unchanged":[', Slot.UNCHANGED, "]")
    if operation is Operation.TRUNCATE:
        yield from (',"options":{"cascade":', Slot.CASCADE, ',"restart_identity":', Slot.RESTART_IDENTITY, "}")
    if operation is Operation.SNAPSHOT:
        yield from (',"position":{"commit_lsn":"', Slot.LSN, '","ordinal":', Slot.ROW_ORDINAL)
        yield from (',"lsn":"', Slot.LSN, '"},"transaction":null}}')
        return
    yield from (',"position":{"commit_lsn":"', Slot.COMMIT_LSN, '","ordinal":', Slot.ORDINAL, ',"lsn":"', Slot.LSN)
    yield from ('"},"transaction":{"xid":', Slot.XID, ',"commit_time":"', Slot.COMMIT_TIME, '"}}}')


cloudevents_envelope: Final = Envelope(_program)
