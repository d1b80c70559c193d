"""What the tests of this sink share: a pipeline on real brokers, and deliveries that are closed in the end."""

from collections.abc import Callable, Iterator

import pytest
from kit.pipelines import checked, document, secrets_of
from kit.topics import make_topic

from tidegate.config.pipeline import PipelineConfig
from tidegate_processor.commit import Delivery
from tidegate_processor.kafka_clients import RawTopicView
from tidegate_processor.sinks.kafka_topics.writer import KafkaTopicsSink

Start = Callable[..., Delivery]


@pytest.fixture
def config(kafka, redis, prefix: str) -> PipelineConfig:
    values = document(prefix, kafka=kafka.bootstrap, redis_url=redis.url)
    config = checked(values, secrets_of(redis_url=redis.url))
    make_topic(kafka.bootstrap, config.raw_topic.name)
    return config


@pytest.fixture
def start(config: PipelineConfig) -> Iterator[Start]:
    opened: list[Delivery] = []

    def start(incarnation: int = 1, **options: object) -> Delivery:
        sink = config.sinks[0].model_copy(update={"options": options})
        delivery = Delivery(
            config.pipeline,
            sink,
            KafkaTopicsSink(config, sink),
            look=lambda: RawTopicView("topic", 0, 1000),
            acked=lambda _: None,
            lineage=lambda: None,
            config_epoch="c",
            incarnation=incarnation,
        )
        opened.append(delivery)
        return delivery

    yield start
    for delivery in opened:
        delivery.close()
