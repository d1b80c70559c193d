"""The cursor of a sink that keeps it in the lane's consumer group, looked at from outside: nobody is fenced."""

from confluent_kafka import Consumer

from tidegate.config.pipeline import PipelineConfig
from tidegate.config.sinks import SinkConfig
from tidegate.contracts import names
from tidegate.contracts.cursor import Cursor
from tidegate_processor.kafka_clients import client, librdkafka_settings, read_cursor


def group_cursor(config: PipelineConfig, sink: SinkConfig, writer: int = 0) -> Cursor | None:
    settings = {"group.id": names.lane_group(config.pipeline, sink.name, writer), "enable.auto.commit": False}
    consumer = client(Consumer, librdkafka_settings(config.kafka) | settings)
    try:
        return read_cursor(consumer, config.raw_topic.name)
    finally:
        consumer.close()
