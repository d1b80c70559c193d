"""Everything around the payload of an event, joined once per channel and filled in per event.

Invariant: the members stand in the order of docs/reference/event.md, and nothing in them differs between two replays of
the same change.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import orjson

from tidegate.events import SNAPSHOT_ORDINALS, EventIds, Operation, format_time
from tidegate.lsn import Lsn, format_lsn

_OPS = {
    Operation.INSERT: "c",
    Operation.UPDATE: "u",
    Operation.DELETE: "d",
    Operation.TRUNCATE: "t",
    Operation.SNAPSHOT: "r",
    Operation.SCHEMA_CHANGE: "s",
    Operation.MESSAGE: "m",
}

_LOW = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class EventContext:
    """What all events of one pipeline say about where they come from."""

    pipeline: str
    database: str
    system_id: int


class EncodedEvent(NamedTuple):
    """`table` is (schema, name), None for an event that is about no table."""

    key: bytes | None
    value: bytes
    table: tuple[str, str] | None
    operation: Operation
    id: str


TransactionKey: TypeAlias = tuple[Lsn, int, int]
"""commit_lsn, top-level xid, commit time."""


class Envelope:
    def __init__(
        self, context: EventContext, *, channel: str, table: tuple[str, str] | None, operations: Iterable[Operation]
    ) -> None:
        self._system_id = context.system_id
        self._table = table
        name = orjson.dumps(None if table is None else table[1])
        head = b'","channel":%b,"operation":"%%b","payload":{"op":"%%b","table":%b,' % (
            literal(orjson.dumps(channel)),
            literal(name),
        )
        self._heads = {operation: head % (operation.encode(), _OPS[operation].encode()) for operation in operations}
        source = {"pipeline": context.pipeline, "database": context.database, "system_id": str(context.system_id)}
        self._source = b'},"source":%b,"position":{"commit_lsn":"' % orjson.dumps({**source, "snapshot": False})
        self._snapshot_source = b'},"source":%b,"position":' % orjson.dumps({**source, "snapshot": True})
        self._entered: TransactionKey | None = None
        self._ids: EventIds
        self._templates: dict[Operation, bytes]

    def event(
        self,
        operation: Operation,
        key: bytes | None,
        payload: bytes,
        transaction: TransactionKey,
        ordinal: int,
        lsn: Lsn,
        sub: int = 0,
    ) -> EncodedEvent:
        """`payload`: its members from `row` on."""
        if self._entered != transaction:
            self._enter(transaction)
        event_id = self._ids.id(ordinal, sub)
        numbers = (ordinal, lsn >> 32, lsn & _LOW, ordinal + 1)
        value = self._templates[operation] % (event_id.encode(), payload, *numbers)
        return EncodedEvent(key, value, self._table, operation, event_id)

    def snapshot_event(
        self, key: bytes | None, payload: bytes, transaction: TransactionKey, ordinal: int, lsn: Lsn
    ) -> EncodedEvent:
        """Of a row that was there before: `transaction` is what stands for its name, `lsn` where its frame stands."""
        name, xid, time = transaction
        event_id = EventIds(system_id=self._system_id, commit_lsn=name, xid=xid, commit_time=time).id(ordinal)
        place = {"commit_lsn": format_lsn(lsn), "ordinal": SNAPSHOT_ORDINALS + ordinal, "lsn": format_lsn(lsn)}
        end = orjson.dumps(place) + b',"created_at":"%b","transaction":null}' % format_time(time).encode()
        value = (
            b'{"id":"%b' % event_id.encode() + self._heads[Operation.SNAPSHOT] + payload + self._snapshot_source + end
        )
        return EncodedEvent(key, value, self._table, Operation.SNAPSHOT, event_id)

    def _enter(self, transaction: TransactionKey) -> None:
        """What is the transaction's is written once: a million rows of one COPY share all of it."""
        commit_lsn, xid, commit_time = transaction
        time = format_time(commit_time).encode()
        position = self._source + format_lsn(commit_lsn).encode() + b'","ordinal":'
        end = b'"},"created_at":"%b","transaction":{"xid":%d,"commit_time":"%b","seq":' % (time, xid, time)
        tail = b"%b" + literal(position) + b'%d,"lsn":"%X/%X' + end + b"%d}}"
        self._templates = {operation: b'{"id":"%b' + literal(head) + tail for operation, head in self._heads.items()}
        self._ids = EventIds(system_id=self._system_id, commit_lsn=commit_lsn, xid=xid, commit_time=commit_time)
        self._entered = transaction


def literal(piece: bytes) -> bytes:
    """A piece of a template that stands for itself."""
    return piece.replace(b"%", b"%%")
