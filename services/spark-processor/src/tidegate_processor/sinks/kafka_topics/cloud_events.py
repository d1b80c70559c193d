"""CloudEvents on Kafka, as its protocol binding 1.0.2 has them: a `content-type` tells the two forms apart.

| form | value | headers |
| --- | --- | --- |
| structured | the whole event | `content-type: application/cloudevents+json; charset=UTF-8` |
| binary | its data | `content-type: application/json`, and each attribute as `ce_…` |

Invariant: both forms of a change have the same attributes and the same data. A tombstone is no event: it has no
content type.
"""

from collections.abc import Iterator
from typing import Final
from urllib.parse import quote

import numpy as np

from tidegate.columns import layout
from tidegate.columns.cloudevents import TYPE_PREFIX, cloudevents_envelope
from tidegate.columns.envelopes import ROW_OPERATIONS, Envelope, EventSource
from tidegate.columns.json_encode import TopicEvents
from tidegate.columns.layout import Slot
from tidegate.events import EventIds, Operation, format_time
from tidegate.lsn import Lsn
from tidegate.pgoutput.messages import Relation
from tidegate_processor.sinks.shared.lane_producer import Header

_DATA: Final = '"data":{'
_STRUCTURED: Final[tuple[Header, ...]] = (("content-type", b"application/cloudevents+json; charset=UTF-8"),)
_BINARY: Final[Header] = ("content-type", b"application/json")
CONTENT: Final = frozenset({"content-type"})


def structured_headers(events: TopicEvents) -> Iterator[list[Header]]:
    return (list(_STRUCTURED) for _ in range(len(events)))


def _data(relation: Relation, operation: Operation, source: EventSource) -> Iterator[str | Slot]:
    """What stands behind `"data":` in the structured form, whose last brace is the event's own."""
    pieces = list(cloudevents_envelope.program(relation, operation, source))
    begin = next(at for at, piece in enumerate(pieces) if isinstance(piece, str) and piece.endswith(_DATA))
    last = pieces[-1]
    assert isinstance(last, str)
    yield "{"
    yield from pieces[begin + 1 : -1]
    yield last[:-1]


data_envelope: Final = Envelope(_data)


class BinaryHeaders:
    """Of the events of one source."""

    def __init__(self, source: EventSource) -> None:
        place = f"/tidegate/{quote(source.pipeline, safe='')}/{source.system_id}/{quote(source.database, safe='')}"
        self._system_id = source.system_id
        self._common: tuple[Header, ...] = (_BINARY, ("ce_specversion", b"1.0"), ("ce_source", place.encode()))

    def of(self, events: TopicEvents) -> Iterator[list[Header]]:
        changes = events.changes
        rows = changes.rows[events.places[:, layout.CHANGE]]
        transactions = [self._transaction(each) for each in changes.transactions]
        subjects = [_subject(shape.relation) for shape in changes.section.shapes]
        for row in rows.tolist():
            operation = changes.operation or ROW_OPERATIONS[row[layout.OPERATION]]
            ids, time = transactions[row[layout.TRANSACTION]]
            sub = row[layout.NEW] if operation is Operation.TRUNCATE else 0
            yield [
                *self._common,
                ("ce_id", ids.id(row[layout.ORDINAL] % 2**64, sub).encode()),
                ("ce_type", f"{TYPE_PREFIX}{operation.lower()}".encode()),
                ("ce_subject", subjects[row[layout.RELATION]]),
                ("ce_time", time),
            ]

    def _transaction(self, fields: np.ndarray) -> tuple[EventIds, bytes]:
        xid, commit_lsn, commit_time = fields.tolist()
        ids = EventIds(system_id=self._system_id, commit_lsn=Lsn(commit_lsn % 2**64), xid=xid, commit_time=commit_time)
        return ids, format_time(commit_time).encode()


def _subject(relation: Relation) -> bytes:
    return f"{relation.schema}.{relation.name}".encode()
