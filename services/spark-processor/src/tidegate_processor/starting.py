"""Where a lane's query begins to read, in Spark's words."""

import json

from tidegate.config.pipeline import PipelineConfig
from tidegate.config.sinks import StartFrom
from tidegate_processor.kafka_clients import look_at
from tidegate_processor.sinks.registry import cursor_of


def starting_offsets(config: PipelineConfig, sink: str) -> str:
    """A hint, so that it need not read the log from its beginning; the stage goes by the cursor
    it reads after fencing. A lane that begins now has begun when its first cursor is committed."""
    topic = config.raw_topic.name
    cursor = cursor_of(config, config.sink(sink))
    if cursor is not None:
        raw = look_at(config.kafka, topic)
        there = cursor.topic_id == raw.id and raw.beginning <= cursor.next_offset <= raw.end
        return json.dumps({topic: {"0": cursor.next_offset}}) if there else "earliest"
    return "earliest" if config.sink(sink).start_from is StartFrom.EARLIEST else "latest"
