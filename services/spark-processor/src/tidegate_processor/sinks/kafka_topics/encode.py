"""Frames to what is produced. Pure: imports no client. The events are made by compiled kernels, `tidegate.columns`."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, TypeAlias

import numpy as np

from tidegate.columns import layout
from tidegate.columns.envelopes import ROW_OPERATIONS, EventSource
from tidegate.columns.json_encode import EncodedFrame, TopicEvents
from tidegate.columns.sampled import sampled_traces
from tidegate.config.sinks import SinkConfig
from tidegate.contracts.frame import Frame
from tidegate.contracts.generation import Generation
from tidegate.events import Operation
from tidegate.lsn import Lsn, format_lsn
from tidegate.observability.trace_context import Sampler
from tidegate.position import Position
from tidegate_processor.encodings.topics import topic_name
from tidegate_processor.sinks.kafka_topics.cloud_events import (
    CONTENT,
    BinaryHeaders,
    data_envelope,
    structured_headers,
)
from tidegate_processor.sinks.kafka_topics.config import CloudEventsMode, KafkaTopicsOptions
from tidegate_processor.sinks.kafka_topics.old_keys import OldKeys
from tidegate_processor.sinks.shared.event_options import EventEnvelope
from tidegate_processor.sinks.shared.events import EventEncoder
from tidegate_processor.sinks.shared.lane_producer import Header, Message, Records, messages

_Headers: TypeAlias = Iterable[list[Header]]

_IN_TRANSACTIONS: Final = (None, Operation.MESSAGE)
"""What stands for its own transaction, as rows of a snapshot do not."""


class RecordEncoder:
    """One lane's frames to events by topic, and these to records."""

    def __init__(
        self, pipeline: str, sink: SinkConfig, options: KafkaTopicsOptions, sampler: Sampler | None = None
    ) -> None:
        """`sampler` where transactions are traced."""

        def topic(schema: str, table: str, _: Operation) -> str:
            return topic_name(options.topic, pipeline, schema, table)

        self._pipeline, self._sampler = pipeline, sampler
        self._has_headers, self._has_tombstones = options.headers, options.tombstones
        self._mode = options.cloudevents_mode if options.envelope is EventEnvelope.CLOUDEVENTS else None
        envelope = data_envelope if self._mode is CloudEventsMode.BINARY else None
        self._encoder = EventEncoder(pipeline, sink, topic, envelope)
        self._old_keys = OldKeys(EventEncoder(pipeline, sink, topic)) if options.tombstones else None
        self._source: tuple[Generation, BinaryHeaders] | None = None

    def encode(self, frame: Frame, after: Position) -> EncodedFrame:
        return self._encoder.encode(frame, after)

    def records(self, frame: Frame, events: TopicEvents) -> Records:
        """Of some events of that frame, in their order: themselves, where nothing is added to them."""
        if self._mode is None and not self._has_headers and self._old_keys is None:
            return events
        made = messages(events)
        for headers in self._headers(frame, events):
            for message, each in zip(made, headers, strict=True):
                message["headers"] = [*message.get("headers", ()), *each]
        return self._with_tombstones(frame, events, made) if self._old_keys is not None else made

    def _headers(self, frame: Frame, events: TopicEvents) -> Iterator[_Headers]:
        if self._mode is CloudEventsMode.STRUCTURED:
            yield structured_headers(events)
        if self._mode is CloudEventsMode.BINARY:
            yield self._binary(frame.header.generation).of(events)
        if self._has_headers:
            yield _own_headers(events)
        if self._has_headers and self._sampler is not None and events.changes.operation in _IN_TRANSACTIONS:
            yield from _trace_headers(events, frame.header.generation, self._sampler)

    def _binary(self, generation: Generation) -> BinaryHeaders:
        if self._source is None or self._source[0] != generation:
            source = EventSource(self._pipeline, generation.database, generation.system_identifier)
            self._source = generation, BinaryHeaders(source)
        return self._source[1]

    def _with_tombstones(self, frame: Frame, events: TopicEvents, made: list[Message]) -> list[Message]:
        assert self._old_keys is not None
        forgotten = {place: made[place]["key"] for place in np.flatnonzero(_deleted(events)).tolist()}
        forgotten |= self._old_keys.of(frame, events)
        return list(_interleaved(made, forgotten)) if forgotten else made


def _deleted(events: TopicEvents) -> np.ndarray:
    if events.changes.operation is not None:  # a snapshot's rows, or what is no change of a row
        return np.zeros(len(events), np.bool_)
    operations = events.changes.rows[events.places[:, layout.CHANGE], layout.OPERATION]
    deleted: np.ndarray = (operations == layout.DELETE) & ~events.keyless
    return deleted


def _interleaved(made: list[Message], forgotten: Mapping[int, bytes]) -> Iterator[Message]:
    for place, message in enumerate(made):
        yield message
        if place in forgotten:
            tombstone = message | {"key": forgotten[place], "value": None}
            if "headers" in message:
                tombstone["headers"] = [each for each in message["headers"] if each[0] not in CONTENT]
            yield tombstone


def _own_headers(events: TopicEvents) -> _Headers:
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


def _trace_headers(events: TopicEvents, generation: Generation, sampler: Sampler) -> Iterator[_Headers]:
    """Nothing where no transaction of the frame is sampled."""
    traces = sampled_traces(events.changes.transactions, generation, sampler)
    headers: dict[int, list[Header]] = {
        place: [("traceparent", trace.traceparent.encode())] for place, trace in traces.items()
    }
    if headers:
        places = events.changes.rows[events.places[:, layout.CHANGE], layout.TRANSACTION]
        yield (headers.get(place, []) for place in places.tolist())
