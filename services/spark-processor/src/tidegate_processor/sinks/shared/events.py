"""Frames to JSON events: the one way of every sink that delivers events rather than rows. Pure: imports no client.

Invariant: a sink that delivers events gets them here and nowhere else, so what is done to changes on the way to an
event is done for all of them.
"""

from tidegate.columns.cloudevents import cloudevents_envelope
from tidegate.columns.debezium import debezium_envelope
from tidegate.columns.envelopes import Envelope, EventSource, default_envelope
from tidegate.columns.json_encode import EncodedFrame, FrameEncoder
from tidegate.columns.plans import Route
from tidegate.config.sinks import SinkConfig
from tidegate.contracts.frame import Frame
from tidegate.contracts.generation import Generation
from tidegate.events import Operation
from tidegate.position import Position
from tidegate_processor.sinks.shared.event_options import EventEnvelope

_ENVELOPES = {
    EventEnvelope.DEFAULT: default_envelope,
    EventEnvelope.DEBEZIUM: debezium_envelope,
    EventEnvelope.CLOUDEVENTS: cloudevents_envelope,
}


class EventEncoder:
    """Plans each shape and where it goes once. `destination` names that of a table's changes, for those routes take."""

    def __init__(self, pipeline: str, sink: SinkConfig, destination: Route, envelope: Envelope | None = None) -> None:
        """`envelope` where a sink has a form of its own of the one that is configured."""
        self._pipeline, self._sink, self._destination = pipeline, sink, destination
        configured = _ENVELOPES[EventEnvelope(sink.options.get("envelope", EventEnvelope.DEFAULT))]
        self._envelope = envelope or configured
        self._generation: Generation | None = None
        self._frames: FrameEncoder | None = None

    def encode(self, frame: Frame, after: Position) -> EncodedFrame:
        generation = frame.header.generation
        if self._frames is None or generation != self._generation:
            source = EventSource(self._pipeline, generation.database, generation.system_identifier)
            self._frames, self._generation = FrameEncoder(source, self._route, self._envelope), generation
        return self._frames.encode(frame, after)

    def _route(self, schema: str, table: str, operation: Operation) -> str | None:
        return self._destination(schema, table, operation) if self._sink.takes(schema, table, operation) else None
