"""BEGIN and COMMIT events on real brokers: in a topic of their own, once, and visible only with what they are about."""

import json
from dataclasses import replace

import pytest
from kit.frames import RawLog, row
from kit.topics import inbox, make_topic

from tidegate.contracts.names import dead_letter_topic
from tidegate.errors import StreamError

TOPIC = "transactions"


def test_each_transaction_is_begun_and_committed_once(config, start) -> None:
    log, topic = RawLog(), f"{config.pipeline}.{TOPIC}"
    log.epoch()
    log.transaction(row(1), row(2))
    log.split_transaction([row(3)], [row(4)])
    first = start(transaction_topic=topic)
    first.feed(enumerate(log.frames[:3]))
    first.commit()
    first.close()
    again = start(2, transaction_topic=topic)
    again.feed(enumerate(log.frames))
    again.commit()

    with inbox(config.kafka.bootstrap, topic) as box:
        box.until(lambda found: len(found) >= 4, 60, "four markers")
        said = [json.loads(message.value()) for message in box.messages]

    assert [(each["operation"], each.get("changes")) for each in said] == [
        ("BEGIN", None),
        ("COMMIT", 2),
        ("BEGIN", None),
        ("COMMIT", 2),
    ]
    assert [each["position"]["ordinal"] for each in said] == [0, 2, 0, 2]


def test_nobody_is_told_unless_asked(config, start) -> None:
    log = RawLog()
    log.epoch()
    log.transaction(row(1))
    delivery = start()
    delivery.feed(enumerate(log.frames))
    delivery.commit()

    assert delivery.counters.events == 1


def test_a_topic_for_transactions_that_there_can_not_be_is_for_a_person(config, start) -> None:
    """It was taken for a fault of the record: nobody was told, and the lane began again and again."""
    make_topic(config.kafka.bootstrap, f"{config.pipeline}.{TOPIC}")
    log = RawLog()
    log.epoch()
    log.transaction(row(1))
    delivery = start(transaction_topic=f"{config.pipeline}_{TOPIC}")

    with pytest.raises(StreamError) as raised:
        delivery.feed(enumerate(log.frames))

    assert (raised.value.code, raised.value.remedy[:4]) == ("TOPIC_TAKEN", "Give")


def test_a_topic_of_dead_letters_that_there_can_not_be_is_for_a_person(config, start) -> None:
    make_topic(config.kafka.bootstrap, dead_letter_topic(config.pipeline).replace(".", "_"))
    log = RawLog()
    log.epoch()
    log.transaction(replace(row(1), new=(b"1", b"\xff")))
    delivery = start()

    with pytest.raises(StreamError) as raised:
        delivery.feed(enumerate(log.frames))

    assert raised.value.code == "TOPIC_TAKEN"
