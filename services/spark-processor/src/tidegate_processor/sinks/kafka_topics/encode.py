"""Frames to what is produced. Pure: imports no client. The events are made by compiled kernels, `tidegate.columns`."""

from tidegate.columns.json_encode import TopicEvents
from tidegate.config.sinks import SinkConfig
from tidegate.events import Operation
from tidegate_processor.encodings.topics import topic_name
from tidegate_processor.sinks.shared.events import EventEncoder
from tidegate_processor.sinks.shared.lane_producer import Message


def encoder(pipeline: str, sink: SinkConfig, template: str) -> EventEncoder:
    def topic(schema: str, table: str, _: Operation) -> str:
        return topic_name(template, pipeline, schema, table)

    return EventEncoder(pipeline, sink, topic)


def messages(events: TopicEvents) -> list[Message]:
    return [{"value": value} if key is None else {"value": value, "key": key} for key, value in events]
