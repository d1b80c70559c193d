"""Debezium's envelope: what a consumer of its PostgreSQL connector reads, JSON without schemas.

Invariant: members and their order are those that Debezium documents for change events (connector for PostgreSQL, "Data
change events"); what differs is docs/reference/envelopes.md, and nothing else does. Nothing in it depends on when an
event is delivered: `ts_ms` and the like are the commit's time at both places.
"""

from collections.abc import Iterator
from typing import Final

from tidegate.columns.envelopes import LETTERS, Envelope, EventSource, json_text
from tidegate.columns.layout import Slot
from tidegate.columns.values import Form
from tidegate.events import Operation
from tidegate.pgoutput.messages import Relation

VERSION: Final = "tidegate"
_MILLISECOND_DIGITS: Final = 3


def _program(relation: Relation, operation: Operation, source: EventSource) -> Iterator[str | Slot]:
    yield "{"
    if operation is not Operation.TRUNCATE:
        yield from ('"before":', Slot.OLD, ',"after":', Slot.ROW_MARKED, ",")
    yield f'"source":{{"version":{json_text(VERSION)},"connector":"postgresql","name":{json_text(source.pipeline)},'
    yield from _times()
    is_snapshot = operation is Operation.SNAPSHOT
    yield f',"snapshot":"{str(is_snapshot).lower()}","db":{json_text(source.database)},"sequence":"[\\"'
    yield from (Slot.LSN_NUMBER if is_snapshot else Slot.COMMIT_LSN_NUMBER, '\\",\\"', Slot.LSN_NUMBER, '\\"]",')
    yield f'"schema":{json_text(relation.schema)},"table":{json_text(relation.name)},"txId":'
    yield "null" if is_snapshot else Slot.XID
    yield from (',"lsn":', Slot.LSN_NUMBER, ',"xmin":null},"transaction":null,')
    yield f'"op":"{LETTERS[operation]}",'
    yield from _times()
    yield "}"


def _times() -> Iterator[str | Slot]:
    yield from ('"ts_ms":', Slot.COMMIT_MS, ',"ts_us":', Slot.COMMIT_US, ',"ts_ns":', Slot.COMMIT_NS)


def _time(typmod: int) -> Form:
    return Form.TIME_MS if 0 <= typmod <= _MILLISECOND_DIGITS else Form.TIME_US


def _timestamp(typmod: int) -> Form:
    return Form.INSTANT_MS if 0 <= typmod <= _MILLISECOND_DIGITS else Form.INSTANT_US


_JSON, _JSONB, _DATE, _TIME, _TIMESTAMP = 114, 3802, 1082, 1083, 1114

debezium_envelope: Final = Envelope(
    _program,
    {
        _DATE: lambda _: Form.DAYS,
        _TIME: _time,
        _TIMESTAMP: _timestamp,
        _JSON: lambda _: Form.TEXT,
        _JSONB: lambda _: Form.TEXT,
    },
)
"""As with time.precision.mode=adaptive, decimal.handling.mode=string, binary.handling.mode=base64."""
