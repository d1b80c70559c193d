"""The Kafka topics sink against a real broker: fenced, transactional, cursor and events together or neither."""

import json
from dataclasses import replace

import pytest
from kit.frames import RawLog, row
from kit.topics import inbox, limit_records, make_topic

from tidegate.config.kafka import Compression
from tidegate.contracts.names import dead_letter_topic
from tidegate.errors import StreamError, TransientError


@pytest.fixture
def log() -> RawLog:
    log = RawLog()
    log.epoch()
    log.transaction(row(1, "one"), row(2, "two"))
    log.transaction(row(1, "uno"))
    return log


def test_events_arrive_with_key_and_value(config, log, start) -> None:
    delivery = start()

    delivery.feed(enumerate(log.frames))
    delivery.commit()

    with inbox(config.kafka.bootstrap, f"{config.pipeline}.public.orders") as received:
        messages = received.until(lambda found: len(found) == 3, 20, "three events")
    assert [message.key() for message in messages] == [b'{"id":1}', b'{"id":2}', b'{"id":1}']
    assert [json.loads(message.value())["payload"]["row"]["note"] for message in messages] == ["one", "two", "uno"]


def test_what_was_not_committed_is_never_seen_and_is_delivered_by_the_next_one(config, log, start) -> None:
    first = start()
    first.feed(enumerate(log.frames[:2]))
    first.commit()
    first.feed(enumerate(log.frames[2:], 2))  # written, not committed: its owner dies here

    second = start(incarnation=2)
    second.feed(enumerate(log.frames))
    second.commit()

    with inbox(config.kafka.bootstrap, f"{config.pipeline}.public.orders") as received:
        messages = received.until(lambda found: len(found) >= 3, 20, "three events")
    assert 3 == len({json.loads(message.value())["id"] for message in messages}) == len(messages)


def test_a_commit_whose_answer_was_lost_is_not_done_again(config, log, start) -> None:
    """The stage is called again from the beginning, after a commit that nobody heard of."""
    first = start()
    first.feed(enumerate(log.frames))
    first.commit()

    second = start(incarnation=2)
    second.feed(enumerate(log.frames))
    log.transaction(row(9))
    second.feed([(3, log.frames[3])])
    second.commit()

    with inbox(config.kafka.bootstrap, f"{config.pipeline}.public.orders") as received:
        messages = received.until(lambda found: len(found) >= 4, 20, "four events")
    assert [message.key() for message in messages] == [b'{"id":1}', b'{"id":2}', b'{"id":1}', b'{"id":9}']


def test_the_next_one_reads_what_the_last_one_committed(config, log, start) -> None:
    first = start()
    first.feed(enumerate(log.frames))
    first.commit()

    second = start(incarnation=2)

    assert (first.position, first.safe_lsn, len(log.frames) - 1) == (
        second.position,
        second.safe_lsn,
        second.raw_offset,
    )


def test_an_older_incarnation_that_wakes_up_commits_nothing(config, log, start) -> None:
    old = start()
    old.feed(enumerate(log.frames[:2]))
    new = start(incarnation=2)
    new.feed(enumerate(log.frames))
    new.commit()

    with pytest.raises(TransientError):
        old.commit()

    with inbox(config.kafka.bootstrap, f"{config.pipeline}.public.orders") as received:
        assert len(received.until(lambda found: len(found) >= 3, 20, "three events")) == 3


def test_a_row_that_is_no_text_is_a_dead_letter_in_the_same_transaction(config, start) -> None:
    log = RawLog()
    log.epoch()
    broken = replace(row(2), new=(b"2", b"\xff\xfe"))
    log.transaction(row(1, "one"), broken, row(3, "three"))
    delivery = start()

    delivery.feed(enumerate(log.frames))
    delivery.commit()

    with inbox(config.kafka.bootstrap, dead_letter_topic(config.pipeline)) as letters:
        (letter,) = letters.until(bool, 20, "the dead letter")
    assert json.loads(letter.value())["code"] == "VALUE_NOT_UTF8"
    with inbox(config.kafka.bootstrap, f"{config.pipeline}.public.orders") as received:
        assert len(received.until(lambda found: len(found) >= 2, 20, "two events")) == 2


def test_an_event_larger_than_its_topic_takes_is_a_dead_letter_and_the_rest_arrives(config, start) -> None:
    make_topic(config.kafka.bootstrap, f"{config.pipeline}.public.orders", largest_bytes=600_000)
    log = RawLog()
    log.epoch()
    log.transaction(row(1, "one"), row(2, "x" * 700_000), row(3, "three"))
    delivery = start()

    delivery.feed(enumerate(log.frames))
    delivery.commit()

    with inbox(config.kafka.bootstrap, dead_letter_topic(config.pipeline)) as letters:
        (letter,) = letters.until(bool, 20, "the dead letter")
    assert json.loads(letter.value())["code"] == "SINK_RECORD_TOO_LARGE"
    with inbox(config.kafka.bootstrap, f"{config.pipeline}.public.orders") as received:
        messages = received.until(lambda found: len(found) >= 2, 20, "two events")
    assert [message.key() for message in messages] == [b'{"id":1}', b'{"id":3}']


def test_a_topic_that_takes_less_than_a_batch_stops_the_lane(config, log, start) -> None:
    make_topic(config.kafka.bootstrap, f"{config.pipeline}.public.orders", largest_bytes=100_000)
    delivery = start()

    with pytest.raises(StreamError) as raised:
        delivery.feed(enumerate(log.frames))

    assert raised.value.code == "TOPIC_LIMIT_TOO_LOW"


def test_rows_of_a_table_whose_topic_kafka_refuses_are_dead_letters(config, start) -> None:
    """Kafka takes no two topics that differ only in dots and underscores."""
    make_topic(config.kafka.bootstrap, f"{config.pipeline}.public_orders")
    log = RawLog()
    log.epoch()
    log.transaction(row(1))
    delivery = start()

    delivery.feed(enumerate(log.frames))
    delivery.commit()

    with inbox(config.kafka.bootstrap, dead_letter_topic(config.pipeline)) as letters:
        (letter,) = letters.until(bool, 20, "the dead letter")
    assert json.loads(letter.value())["code"] == "TOPIC_REFUSED"


def test_brokers_that_refuse_an_event_make_the_lane_look_again_and_the_event_a_dead_letter(config, log, start) -> None:
    """Somebody lowers the topic's limit under a lane that has asked for it once."""
    topic = f"{config.pipeline}.public.orders"
    first = start(compression=Compression.NONE)
    first.feed(enumerate(log.frames))
    first.commit()
    limit_records(config.kafka.bootstrap, topic, 600_000)
    log.transaction(row(8, "x" * 700_000), row(9))

    first.feed([(3, log.frames[3])])
    with pytest.raises(TransientError):
        first.commit()
    first.close()
    second = start(incarnation=2)
    second.feed(enumerate(log.frames))
    second.commit()

    with inbox(config.kafka.bootstrap, dead_letter_topic(config.pipeline)) as letters:
        (letter,) = letters.until(bool, 20, "the dead letter")
    assert json.loads(letter.value())["code"] == "SINK_RECORD_TOO_LARGE"
    with inbox(config.kafka.bootstrap, topic) as received:
        messages = received.until(lambda found: len(found) >= 4, 20, "four events")
    assert [message.key() for message in messages] == [b'{"id":1}', b'{"id":2}', b'{"id":1}', b'{"id":9}']


def test_a_setting_that_brokers_refuse_for_good_stops_the_lane(log, start) -> None:
    delivery = start(topic_config={"retention.ms": "a week"})

    with pytest.raises(StreamError) as raised:
        delivery.feed(enumerate(log.frames))

    assert raised.value.code == "SINK_KAFKA_REFUSED"
