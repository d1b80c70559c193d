"""The Kafka topics sink against a real broker: fenced, transactional, cursor and events together or neither."""

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest
from kit.frames import RawLog, row
from kit.pipelines import checked, document, secrets_of
from kit.topics import inbox, make_topic

from tidegate.config.pipeline import PipelineConfig
from tidegate.contracts.names import dead_letter_topic
from tidegate.errors import StreamError, TransientError
from tidegate_processor.commit import Delivery
from tidegate_processor.kafka_clients import RawTopicView
from tidegate_processor.sinks.kafka_topics.writer import KafkaTopicsSink


@pytest.fixture
def config(kafka, redis, prefix: str) -> PipelineConfig:
    values = document(prefix, kafka=kafka.bootstrap, redis_url=redis.url)
    config = checked(values, secrets_of(redis_url=redis.url))
    make_topic(kafka.bootstrap, config.raw_topic.name)
    return config


@pytest.fixture
def log() -> RawLog:
    log = RawLog()
    log.epoch()
    log.transaction(row(1, "one"), row(2, "two"))
    log.transaction(row(1, "uno"))
    return log


@pytest.fixture
def deliveries(config: PipelineConfig) -> Iterator[list[Delivery]]:
    opened: list[Delivery] = []
    yield opened
    for delivery in opened:
        delivery.close()


def start(config: PipelineConfig, opened: list[Delivery], incarnation: int = 1) -> Delivery:
    sink = config.sinks[0]
    delivery = Delivery(
        config.pipeline,
        sink,
        KafkaTopicsSink(config, sink),
        look=lambda: RawTopicView("topic", 0, 1000),
        acked=lambda _: None,
        config_epoch="c",
        incarnation=incarnation,
    )
    opened.append(delivery)
    return delivery


def test_events_arrive_with_key_and_value(config, log, deliveries) -> None:
    delivery = start(config, deliveries)

    delivery.feed(enumerate(log.frames))
    delivery.commit()

    with inbox(config.kafka.bootstrap, f"{config.pipeline}.public.orders") as received:
        messages = received.until(lambda found: len(found) == 3, 20, "three events")
    assert [message.key() for message in messages] == [b'{"id":1}', b'{"id":2}', b'{"id":1}']
    assert [json.loads(message.value())["payload"]["row"]["note"] for message in messages] == ["one", "two", "uno"]


def test_what_was_not_committed_is_never_seen_and_is_delivered_by_the_next_one(config, log, deliveries) -> None:
    first = start(config, deliveries)
    first.feed(enumerate(log.frames[:2]))
    first.commit()
    first.feed(enumerate(log.frames[2:], 2))  # written, not committed: its owner dies here

    second = start(config, deliveries, incarnation=2)
    second.feed(enumerate(log.frames))
    second.commit()

    with inbox(config.kafka.bootstrap, f"{config.pipeline}.public.orders") as received:
        messages = received.until(lambda found: len(found) >= 3, 20, "three events")
    assert 3 == len({json.loads(message.value())["id"] for message in messages}) == len(messages)


def test_the_next_one_reads_what_the_last_one_committed(config, log, deliveries) -> None:
    first = start(config, deliveries)
    first.feed(enumerate(log.frames))
    first.commit()

    second = start(config, deliveries, incarnation=2)

    assert (first.position, first.safe_lsn, len(log.frames) - 1) == (
        second.position,
        second.safe_lsn,
        second.raw_offset,
    )


def test_an_older_incarnation_that_wakes_up_commits_nothing(config, log, deliveries) -> None:
    old = start(config, deliveries)
    old.feed(enumerate(log.frames[:2]))
    new = start(config, deliveries, incarnation=2)
    new.feed(enumerate(log.frames))
    new.commit()

    with pytest.raises(TransientError):
        old.commit()

    with inbox(config.kafka.bootstrap, f"{config.pipeline}.public.orders") as received:
        assert len(received.until(lambda found: len(found) >= 3, 20, "three events")) == 3


def test_a_row_that_is_no_text_is_a_dead_letter_in_the_same_transaction(config, deliveries) -> None:
    log = RawLog()
    log.epoch()
    broken = replace(row(2), new=(b"2", b"\xff\xfe"))
    log.transaction(row(1, "one"), broken, row(3, "three"))
    delivery = start(config, deliveries)

    delivery.feed(enumerate(log.frames))
    delivery.commit()

    with inbox(config.kafka.bootstrap, dead_letter_topic(config.pipeline)) as letters:
        (letter,) = letters.until(bool, 20, "the dead letter")
    assert json.loads(letter.value())["code"] == "VALUE_NOT_UTF8"
    with inbox(config.kafka.bootstrap, f"{config.pipeline}.public.orders") as received:
        assert len(received.until(lambda found: len(found) >= 2, 20, "two events")) == 2


def test_an_event_larger_than_its_topic_takes_is_a_dead_letter_and_the_rest_arrives(config, deliveries) -> None:
    make_topic(config.kafka.bootstrap, f"{config.pipeline}.public.orders", largest_bytes=600_000)
    log = RawLog()
    log.epoch()
    log.transaction(row(1, "one"), row(2, "x" * 700_000), row(3, "three"))
    delivery = start(config, deliveries)

    delivery.feed(enumerate(log.frames))
    delivery.commit()

    with inbox(config.kafka.bootstrap, dead_letter_topic(config.pipeline)) as letters:
        (letter,) = letters.until(bool, 20, "the dead letter")
    assert json.loads(letter.value())["code"] == "SINK_RECORD_TOO_LARGE"
    with inbox(config.kafka.bootstrap, f"{config.pipeline}.public.orders") as received:
        messages = received.until(lambda found: len(found) >= 2, 20, "two events")
    assert [message.key() for message in messages] == [b'{"id":1}', b'{"id":3}']


def test_a_topic_that_takes_less_than_a_batch_stops_the_lane(config, log, deliveries) -> None:
    make_topic(config.kafka.bootstrap, f"{config.pipeline}.public.orders", largest_bytes=100_000)
    delivery = start(config, deliveries)

    with pytest.raises(StreamError) as raised:
        delivery.feed(enumerate(log.frames))

    assert raised.value.code == "TOPIC_LIMIT_TOO_LOW"


def test_rows_of_a_table_whose_topic_kafka_refuses_are_dead_letters(config, deliveries) -> None:
    """Kafka takes no two topics that differ only in dots and underscores."""
    make_topic(config.kafka.bootstrap, f"{config.pipeline}.public_orders")
    log = RawLog()
    log.epoch()
    log.transaction(row(1))
    delivery = start(config, deliveries)

    delivery.feed(enumerate(log.frames))
    delivery.commit()

    with inbox(config.kafka.bootstrap, dead_letter_topic(config.pipeline)) as letters:
        (letter,) = letters.until(bool, 20, "the dead letter")
    assert json.loads(letter.value())["code"] == "TOPIC_REFUSED"
