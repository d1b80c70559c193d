"""Frames to what is produced. Pure: imports no client. The events are made by compiled kernels, `tidegate.columns`."""

from collections.abc import Iterator

from tidegate.columns import layout
from tidegate.columns.envelopes import ROW_OPERATIONS
from tidegate.columns.json_encode import TopicEvents
from tidegate.config.sinks import SinkConfig
from tidegate.events import Operation
from tidegate.lsn import Lsn, format_lsn
from tidegate_processor.encodings.topics import topic_name
from tidegate_processor.sinks.shared.events import EventEncoder
from tidegate_processor.sinks.shared.lane_producer import Message


def encoder(pipeline: str, sink: SinkConfig, template: str) -> EventEncoder:
    def topic(schema: str, table: str, _: Operation) -> str:
        return topic_name(template, pipeline, schema, table)

    return EventEncoder(pipeline, sink, topic)


def messages(events: TopicEvents, *, tombstones: bool = False, headers: bool = False) -> list[Message]:
    made: list[Message] = [{"value": value} if key is None else {"value": value, "key": key} for key, value in events]
    if headers:
        for message, each in zip(made, _headers(events), strict=True):
            message["headers"] = each
    return _with_tombstones(made, events) if tombstones else made


def _with_tombstones(made: list[Message], events: TopicEvents) -> list[Message]:
    if events.changes.operation is not None:  # a snapshot's rows, or what is no change of a row
        return made
    operations = events.changes.rows[events.places[:, layout.CHANGE], layout.OPERATION]
    forgotten = (operations == layout.DELETE) & ~events.keyless
    return [
        message
        for event, is_forgotten in zip(made, forgotten.tolist(), strict=True)
        for message in ((event, event | {"value": None}) if is_forgotten else (event,))
    ]


def _headers(events: TopicEvents) -> Iterator[list[tuple[str, bytes]]]:
    changes = events.changes
    for row in changes.rows[events.places[:, layout.CHANGE]].tolist():
        relation = changes.section.shapes[row[layout.RELATION]].relation
        (lsn,) = changes.transactions[row[layout.TRANSACTION], [layout.COMMIT_LSN]].tolist()
        yield [
            ("operation", (changes.operation or ROW_OPERATIONS[row[layout.OPERATION]]).encode()),
            ("schema", relation.schema.encode()),
            ("table", relation.name.encode()),
            ("commit_lsn", format_lsn(Lsn(lsn % 2**64)).encode()),
            ("ordinal", b"%d" % (row[layout.ORDINAL] % 2**64)),
        ]
