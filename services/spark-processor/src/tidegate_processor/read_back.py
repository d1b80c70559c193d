"""A stretch of the raw topic, read once more by a lane that is further on."""

import time
from collections.abc import Iterator
from contextlib import closing

from confluent_kafka import Consumer, TopicPartition

from tidegate.config.pipeline import PipelineConfig
from tidegate.errors import TransientError
from tidegate_processor.kafka_clients import client, librdkafka_settings, look_at
from tidegate_processor.snapshots import Record, no_log

# Of silence, where records are known to be.
_CALL_SECONDS = 10.0
_POLL_SECONDS = 0.5


def read_back(config: PipelineConfig, start: int, stop: int) -> Iterator[Record]:
    topic = config.raw_topic.name
    if start < look_at(config.kafka, topic).beginning:
        yield from no_log(start, stop)
    settings = librdkafka_settings(config.kafka)
    with closing(client(Consumer, settings | {"group.id": "tidegate-look", "enable.auto.commit": False})) as consumer:
        consumer.assign([TopicPartition(topic, 0, start)])
        deadline = time.monotonic() + _CALL_SECONDS
        while True:
            message = consumer.poll(_POLL_SECONDS)
            error = message.error() if message is not None else None
            has_none = message is None or error is not None
            if (has_none and time.monotonic() > deadline) or (error is not None and not error.retriable()):
                raise TransientError(
                    "Kafka did not give a stretch of the raw topic that has been read before",
                    code="RAW_TOPIC_UNREADABLE",
                    remedy="Check the brokers and the user's right to read the topic; it is tried again.",
                )
            if message is None or error is not None:
                continue
            if message.offset() >= stop:
                return
            yield message.offset(), message.value()
            deadline = time.monotonic() + _CALL_SECONDS  # what is done with a record takes as long as it takes
            if message.offset() + 1 == stop:
                return
