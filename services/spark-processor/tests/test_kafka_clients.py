"""Kafka's clients: what can't be made now may be made later, and a coordinator is waited for."""

from dataclasses import dataclass, field
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.error import KafkaError

from tidegate.config.kafka import KafkaConfig, KafkaSecurity, Protocol
from tidegate.errors import TransientError
from tidegate_processor.kafka_clients import client, look_at, read_cursor


def secured(ca: Path) -> KafkaConfig:
    security = KafkaSecurity(protocol=Protocol.SSL, ca=str(ca))
    return KafkaConfig(bootstrap="127.0.0.1:9", security=security)


@pytest.mark.parametrize("kind", [AdminClient, Consumer, Producer])
def test_a_certificate_that_is_not_there_for_a_moment_is_named_and_asked_for_again(kind, tmp_path: Path) -> None:
    ca = tmp_path / "ca.pem"
    settings = {"bootstrap.servers": "127.0.0.1:9", "security.protocol": "ssl", "ssl.ca.location": str(ca)}

    with pytest.raises(TransientError) as raised:
        client(kind, settings | ({"group.id": "g"} if kind is Consumer else {}))

    assert (raised.value.code, str(ca) in raised.value.message) == ("KAFKA_CLIENT_NOT_MADE", True)
    assert raised.value.remedy


def test_a_look_at_the_raw_topic_without_a_certificate_is_tried_again(tmp_path: Path) -> None:
    with pytest.raises(TransientError) as raised:
        look_at(secured(tmp_path / "ca.pem"), "raw")

    assert raised.value.code == "KAFKA_CLIENT_NOT_MADE"


@dataclass
class Answers:
    """Those of a group's coordinator, one a call; the last one is none at all, as with a group that is new."""

    codes: list[int]
    polls: list[float] = field(default_factory=list)

    def committed(self, places: list[TopicPartition], timeout: float) -> list[TopicPartition]:
        if self.codes:
            raise KafkaException(KafkaError(self.codes.pop(0)))
        return places

    def poll(self, seconds: float) -> None:
        self.polls.append(seconds)


def test_a_coordinator_that_is_being_found_or_elected_is_waited_for() -> None:
    answers = Answers(
        [
            KafkaError.COORDINATOR_NOT_AVAILABLE,
            KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
            KafkaError.NOT_COORDINATOR,
            KafkaError._WAIT_COORD,
            KafkaError._TRANSPORT,
        ]
    )

    assert read_cursor(answers, "raw") is None  # type: ignore[arg-type]
    assert (answers.codes, len(answers.polls)) == ([], 5)


def test_a_right_that_is_missing_is_not_waited_for() -> None:
    answers = Answers([KafkaError.GROUP_AUTHORIZATION_FAILED])

    with pytest.raises(TransientError) as raised:
        read_cursor(answers, "raw")  # type: ignore[arg-type]

    assert (raised.value.code, answers.polls) == ("CURSOR_UNAVAILABLE", [])
