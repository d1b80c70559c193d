"""Where a lane's query begins to read, in Spark's words."""

import json
from collections.abc import Sequence
from contextlib import closing

from tidegate.checkpoint.connect import connect
from tidegate.checkpoint.redis_store import read_ack, read_lineage
from tidegate.config.pipeline import PipelineConfig
from tidegate.config.sinks import StartFrom
from tidegate.contracts.cursor import Cursor
from tidegate_processor.kafka_clients import look_at


def starting_offsets(config: PipelineConfig, sink: str, cursors: Sequence[Cursor]) -> str:
    """A hint, so that it need not read the log from its beginning; the stage goes by the cursor it reads after fencing,
    and so does each of several writers. A lane that begins now has begun when its first cursor is committed."""
    topic = config.raw_topic.name
    if cursors:
        raw = look_at(config.kafka, topic)
        offsets = [cursor.next_offset for cursor in cursors]
        is_there = all(cursor.topic_id == raw.id for cursor in cursors)
        is_there = is_there and raw.beginning <= min(offsets) <= max(offsets) <= raw.end
        return json.dumps({topic: {"0": min(offsets)}}) if is_there else "earliest"
    begins_now = config.sink(sink).start_from is not StartFrom.EARLIEST and not _has_acked(config, sink)
    return "latest" if begins_now else "earliest"


def _has_acked(config: PipelineConfig, sink: str) -> bool:
    """Then it has begun long ago, and its cursor went with a raw topic that was deleted: the reader feeds what it lacks
    again, and may have done so before the query looks where the log ends."""
    with closing(connect(config.redis)) as client:
        lineage = read_lineage(client, config.pipeline)
        return lineage is not None and read_ack(client, config.pipeline, lineage.generation.id, sink) is not None
