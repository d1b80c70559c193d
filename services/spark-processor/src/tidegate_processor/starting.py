"""Where a lane's query begins to read, in Spark's words."""

import json

from confluent_kafka import Consumer

from tidegate.config.pipeline import PipelineConfig
from tidegate.config.sinks import StartFrom
from tidegate.contracts import names
from tidegate_processor.kafka_clients import client, librdkafka_settings, look_at, read_cursor


def starting_offsets(config: PipelineConfig, sink: str) -> str:
    """A hint, so that it need not read the log from its beginning; the stage goes by the cursor
    it reads after fencing. A lane that begins now has begun when its first cursor is committed."""
    settings = librdkafka_settings(config.kafka)
    topic, group = config.raw_topic.name, names.lane_group(config.pipeline, sink)
    consumer = client(Consumer, settings | {"group.id": group, "enable.auto.commit": False})
    try:
        cursor = read_cursor(consumer, topic)
    finally:
        consumer.close()
    if cursor is not None:
        raw = look_at(config.kafka, topic)
        there = cursor.topic_id == raw.id and raw.beginning <= cursor.next_offset <= raw.end
        return json.dumps({topic: {"0": cursor.next_offset}}) if there else "earliest"
    return "latest" if config.sink(sink).start_from is StartFrom.NOW else "earliest"
