"""A right that is missing: nothing is lost while it is, and the lane goes on once it is there. That to create topics
may be missing for ever: somebody else makes them."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from confluent_kafka.admin import AclOperation, AdminClient, ResourceType
from kit.frames import RawLog, row
from kit.kafka_rights import allow_again, asking_kafka, forbid, forbid_new_topics
from kit.topics import inbox, make_topic

from tidegate.contracts.names import dead_letter_topic, lane_group, lane_transactional_id
from tidegate.errors import TransientError
from tidegate.stack.kafka import Kafka


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    with asking_kafka(tmp_path_factory.mktemp("asking-kafka")) as server:
        yield server


@pytest.mark.parametrize("kind", [ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID])
def test_a_lane_without_a_right_starts_again_until_it_has_it(config, start, kind: ResourceType) -> None:
    names = {
        ResourceType.TOPIC: f"{config.pipeline}.public.orders",
        ResourceType.GROUP: lane_group(config.pipeline, "events"),
        ResourceType.TRANSACTIONAL_ID: lane_transactional_id(config.pipeline, "events"),
    }
    log = RawLog()
    log.epoch()
    log.transaction(row(1))
    first = start()
    first.feed(enumerate(log.frames))
    first.commit()
    first.close()
    log.transaction(row(2))
    admin = AdminClient({"bootstrap.servers": config.kafka.bootstrap})
    denied = AclOperation.READ if kind is ResourceType.GROUP else AclOperation.WRITE

    forbid(admin, kind, names[kind], denied)
    with pytest.raises(TransientError) as raised:
        deliver(start, log, incarnation=2)
    allow_again(admin)
    deliver(start, log, incarnation=3)

    assert raised.value.code == "SINK_KAFKA_DENIED"
    with inbox(config.kafka.bootstrap, names[ResourceType.TOPIC]) as received:
        messages = received.until(lambda found: len(found) >= 2, 20, "two events")
    assert [message.key() for message in messages] == [b'{"id":1}', b'{"id":2}']


@pytest.fixture
def makes_nothing(config, start) -> Iterator[AdminClient]:
    start().close()  # brokers make their own topics in the name of whoever needs them first
    admin = AdminClient({"bootstrap.servers": config.kafka.bootstrap})
    forbid_new_topics(admin)
    yield admin
    allow_again(admin)


def test_topics_that_were_made_beforehand_need_no_right_to_create_one(config, start, request) -> None:
    """Kafka asks for the right first, and then whether the topic is there: the lane never started."""
    log = RawLog()
    log.epoch()
    log.transaction(row(1), replace(row(2), new=(b"2", b"\xff")))
    topics = f"{config.pipeline}.public.orders", dead_letter_topic(config.pipeline)
    for topic in topics:
        make_topic(config.kafka.bootstrap, topic)
    request.getfixturevalue("makes_nothing")

    deliver(start, log, incarnation=1)

    for topic in topics:
        with inbox(config.kafka.bootstrap, topic) as received:
            received.until(lambda found: len(found) >= 1, 20, f"what is in {topic}")


def test_a_topic_that_is_missing_and_may_not_be_made_is_made_by_somebody_else(config, start, makes_nothing) -> None:
    log = RawLog()
    log.epoch()
    log.transaction(row(1))
    with pytest.raises(TransientError) as raised:
        deliver(start, log, incarnation=1)
    allow_again(makes_nothing)
    make_topic(config.kafka.bootstrap, f"{config.pipeline}.public.orders")
    deliver(start, log, incarnation=2)

    assert raised.value.code == "SINK_KAFKA_DENIED"


def deliver(start, log: RawLog, incarnation: int) -> None:
    delivery = start(incarnation=incarnation)
    try:
        delivery.feed(enumerate(log.frames))
        delivery.commit()
    finally:
        delivery.close()
