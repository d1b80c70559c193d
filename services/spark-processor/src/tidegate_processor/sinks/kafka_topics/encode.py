"""Frames to what is produced. Pure: imports no client. The events are made by compiled kernels, `tidegate.columns`."""

from typing import TypeAlias

from tidegate.columns.envelopes import EventSource
from tidegate.columns.json_encode import EncodedFrame, FrameEncoder, TopicEvents
from tidegate.config.sinks import SinkConfig
from tidegate.contracts.frame import Frame
from tidegate.contracts.generation import Generation
from tidegate.events import Operation
from tidegate.position import Position
from tidegate_processor.encodings.topics import topic_name

Message: TypeAlias = dict[str, bytes]
"""As `Producer.produce_batch` takes it. The client leaves an `_error` in those that it did not take."""


class Encoder:
    """Plans each shape and its topic once."""

    def __init__(self, pipeline: str, sink: SinkConfig, template: str) -> None:
        self._pipeline, self._sink, self._template = pipeline, sink, template
        self._generation: Generation | None = None
        self._frames: FrameEncoder | None = None

    def encode(self, frame: Frame, after: Position) -> EncodedFrame:
        generation = frame.header.generation
        if self._frames is None or generation != self._generation:
            source = EventSource(self._pipeline, generation.database, generation.system_identifier)
            self._frames, self._generation = FrameEncoder(source, self._route), generation
        return self._frames.encode(frame, after)

    def _route(self, schema: str, table: str, operation: Operation) -> str | None:
        if not self._sink.takes(schema, table, operation):
            return None
        return topic_name(self._template, self._pipeline, schema, table)


def messages(events: TopicEvents) -> list[Message]:
    return [{"value": value} if key is None else {"value": value, "key": key} for key, value in events]
