"""Where a lane's query begins to read, in Spark's words."""

import json
from contextlib import closing

from tidegate.checkpoint.connect import connect
from tidegate.checkpoint.redis_store import read_ack, read_lineage
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
    begins_now = config.sink(sink).start_from is not StartFrom.EARLIEST and not _has_acked(config, sink)
    return "latest" if begins_now else "earliest"


def _has_acked(config: PipelineConfig, sink: str) -> bool:
    """Then it has begun long ago, and its cursor went with a raw topic that was deleted: the reader feeds what it lacks
    again, and may have done so before the query looks where the log ends."""
    with closing(connect(config.redis)) as client:
        lineage = read_lineage(client, config.pipeline)
        return lineage is not None and read_ack(client, config.pipeline, lineage.generation.id, sink) is not None
