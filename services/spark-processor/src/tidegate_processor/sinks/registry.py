"""Every sink by its name in the configuration. A new sink is one line here."""

from collections.abc import Callable

from pydantic import BaseModel

from tidegate.config.pipeline import PipelineConfig
from tidegate.config.sinks import SinkConfig, SinkType
from tidegate_processor.sinks.base import Sink
from tidegate_processor.sinks.kafka_topics.config import KafkaTopicsOptions

OPTIONS: dict[str, type[BaseModel]] = {SinkType.KAFKA_TOPICS: KafkaTopicsOptions}


def _kafka_topics(config: PipelineConfig, sink: SinkConfig) -> Sink:
    # Imported when it is asked for: a lane pays for the client of its own sink only.
    from tidegate_processor.sinks.kafka_topics.writer import KafkaTopicsSink

    return KafkaTopicsSink(config, sink)


_SINKS: dict[SinkType, Callable[[PipelineConfig, SinkConfig], Sink]] = {SinkType.KAFKA_TOPICS: _kafka_topics}


def make_sink(config: PipelineConfig, sink: SinkConfig) -> Sink:
    return _SINKS[sink.type](config, sink)
