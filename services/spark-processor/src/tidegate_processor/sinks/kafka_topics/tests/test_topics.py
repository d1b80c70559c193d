"""Topics as others have made them: those that want keys, brokers that say nothing, and more of them than a transaction
should touch."""

import json
import socket
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest
from confluent_kafka import KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from kit.frames import ORDERS, RawLog, row
from kit.made_frames import frame_of
from kit.topics import configure, inbox, make_topic

from tidegate.contracts.names import dead_letter_topic
from tidegate.errors import StreamError, TransientError
from tidegate.lsn import Lsn
from tidegate.pgoutput.messages import Begin, Insert, Truncate
from tidegate.position import BEGINNING
from tidegate_processor import target_topics
from tidegate_processor.kafka_refusals import refused
from tidegate_processor.target_topics import TargetTopics


@pytest.fixture
def log() -> RawLog:
    log = RawLog()
    log.epoch()
    log.transaction(row(1), Truncate((ORDERS.relation_id,), 0), row(2))
    return log


@pytest.fixture
def silent_address() -> Iterator[str]:
    """Takes connections, and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"127.0.0.1:{listener.getsockname()[1]}"


@pytest.mark.parametrize("policy", ["compact", "compact,delete"])
def test_what_has_no_key_is_a_dead_letter_where_a_topic_is_compacted(config, log, start, policy: str) -> None:
    topic = make_topic_with(config, policy)
    delivery = start()

    delivery.feed(enumerate(log.frames))
    delivery.commit()

    with inbox(config.kafka.bootstrap, dead_letter_topic(config.pipeline)) as letters:
        (letter,) = letters.until(bool, 20, "the dead letter")
    assert json.loads(letter.value())["code"] == "SINK_KEY_MISSING"
    with inbox(config.kafka.bootstrap, topic) as received:
        messages = received.until(lambda found: len(found) >= 2, 20, "two events")
    assert [message.key() for message in messages] == [b'{"id":1}', b'{"id":2}']


def test_what_has_no_key_is_a_dead_letter_too_where_the_sink_made_the_topic_a_compacted_one(config, log, start) -> None:
    delivery = start(topic_config={"cleanup.policy": "compact"})

    delivery.feed(enumerate(log.frames))
    delivery.commit()

    with inbox(config.kafka.bootstrap, dead_letter_topic(config.pipeline)) as letters:
        (letter,) = letters.until(bool, 20, "the dead letter")
    assert json.loads(letter.value())["code"] == "SINK_KEY_MISSING"


def test_a_topic_that_is_compacted_under_a_lane_stops_it_once_and_then_wants_keys(config, log, start) -> None:
    topic = make_topic_with(config, "delete")
    first = start()
    first.feed(enumerate(log.frames))
    first.commit()
    configure(config.kafka.bootstrap, topic, "cleanup.policy", "compact")
    log.transaction(Truncate((ORDERS.relation_id,), 0), row(3))

    first.feed([(2, log.frames[2])])
    with pytest.raises(StreamError) as raised:
        first.commit()
    first.close()
    second = start(incarnation=2)
    second.feed(enumerate(log.frames))
    second.commit()

    assert raised.value.code == "SINK_KAFKA_REFUSED"
    with inbox(config.kafka.bootstrap, dead_letter_topic(config.pipeline)) as letters:
        (letter,) = letters.until(bool, 20, "the dead letter")
    assert json.loads(letter.value())["code"] == "SINK_KEY_MISSING"


def test_brokers_that_never_answer_are_away_and_not_a_loss(monkeypatch, silent_address: str) -> None:
    monkeypatch.setattr(target_topics, "_CALL_SECONDS", 0.5)
    settings = {"bootstrap.servers": silent_address}
    topics = TargetTopics(settings, partitions=1, replication_factor=1, batch_bytes=1024)

    with pytest.raises(TransientError) as raised:
        topics.terms(["orders"], {}, Producer(settings))

    assert raised.value.code == "SINK_KAFKA_UNAVAILABLE"


def test_a_leader_that_never_answers_has_no_place_yet(monkeypatch, silent_address: str) -> None:
    monkeypatch.setattr(target_topics, "_CALL_SECONDS", 0.5)
    admin = AdminClient({"bootstrap.servers": silent_address})

    assert target_topics._without_a_place([TopicPartition("orders", 0)], admin) == ["orders"]


def test_a_receipt_says_how_many_partitions_the_transaction_touches(config, start) -> None:
    """No more of a topic than it has, and no more than it got events."""
    few, many = (replace(ORDERS, relation_id=1 + at, name=f"orders{at}") for at in range(2))
    sink = start(partitions=3)._sink

    def write(*rows: Insert) -> int:
        return sink.write(frame_of([few, many], [Begin(Lsn(9), 5, 7), *rows]), BEGINNING).partitions

    one, some = Insert(few.relation_id, (b"1", b"")), Insert(many.relation_id, (b"1", b""))
    assert [write(one), write(*[some] * 5), write(one)] == [1, 1 + 3, 2 + 3]
    sink.close()
    sink.open()
    assert write(one) == 1


def test_a_transaction_that_touches_many_partitions_is_committed_between_frames(config, start) -> None:
    """Brokers need time for each of them, and abort a transaction that is too old."""
    others = replace(ORDERS, relation_id=7, name="others")
    log = RawLog()
    log.epoch()
    log.transaction(*(row(at) for at in range(600)))
    log.transaction(*(Insert(others.relation_id, (b"%d" % at, b"")) for at in range(600)), relation=others)
    log.transaction(row(600))
    delivery = start(partitions=100)

    delivery.feed(enumerate(log.frames[:2]))
    before = delivery.ack()
    delivery.feed(enumerate(log.frames[2:], 2))
    after = delivery.ack()

    assert (before, after and after.offset) == (None, 2)


def test_a_lane_whose_clock_is_hours_ahead_is_not_refused(config) -> None:
    """By their writer's time, brokers take no record of more than an hour ahead: the lane failed until the clock was
    set. A topic that is told to have that time has it, and the lane says what is wrong."""
    ours, told = f"{config.pipeline}.ours", f"{config.pipeline}.told"
    settings = {"bootstrap.servers": config.kafka.bootstrap}
    topics, producer = TargetTopics(settings, partitions=1, replication_factor=1, batch_bytes=1024), Producer(settings)
    topics.terms([ours], {}, producer)
    topics.terms([told], {"message.timestamp.type": "CreateTime"}, producer)

    errors: dict[str, KafkaError | None] = {}
    for topic in (ours, told):
        ahead = int((time.time() + 7_200) * 1000)
        producer.produce(
            topic, b"", timestamp=ahead, on_delivery=lambda error, sent: errors.update({sent.topic(): error})
        )
    producer.flush(20)

    assert errors[ours] is None
    assert refused(errors[told], "commit").code == "SINK_CLOCK_WRONG"


def make_topic_with(config, policy: str) -> str:
    topic = f"{config.pipeline}.public.orders"
    make_topic(config.kafka.bootstrap, topic)
    configure(config.kafka.bootstrap, topic, "cleanup.policy", policy)
    return topic
