"""The topics that a sink writes to: created where they are missing, and which records each of them takes.

What is there is looked for first: brokers ask for the right to create a topic before they see that there is one, and
whoever has topics made by somebody else has no such right.

All that a frame needs are asked for at once, before anything of it is written: a Kafka transaction must not grow old
while a thousand topics are made one by one. What is known of a topic is kept for as long as the lane goes on.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, OffsetSpec
from confluent_kafka.error import KafkaError

from tidegate.clock import BROKERS_TIME
from tidegate.copies import copies, in_sync
from tidegate.errors import RecordError, StreamError, TransientError
from tidegate_processor.kafka_clients import client
from tidegate_processor.kafka_refusals import is_for_a_person, mapped, refused

LARGEST_RECORD_BYTES = 16 * 2**20
"""Of a topic that is created, and of a request; an existing topic's own limit is asked for."""
RECORD_OVERHEAD_BYTES = 256
"""A batch of one record: its header (61 bytes), the record's own fields, room to spare."""

_LIMIT, _CLEANUP = "max.message.bytes", "cleanup.policy"
_COMPACTED = "compact"
_CALL_SECONDS = 30.0
_PING_SECONDS = 5.0
_LOOK_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Terms:
    """On which a topic takes records."""

    largest_bytes: int
    """Of a record's key and value."""
    wants_keys: bool
    """It is compacted: a record without a key is none that brokers take."""
    partitions: int


class TargetTopics:
    def __init__(
        self,
        client_settings: Mapping[str, Any],
        *,
        partitions: int,
        replication_factor: int | None = None,
        batch_bytes: int,
    ) -> None:
        self._client_settings = dict(client_settings)
        self._partitions, self._replication_factor = partitions, replication_factor
        self._batch_bytes = batch_bytes
        self._terms: dict[str, Terms] = {}

    def ping(self) -> None:
        with mapped("reach the brokers"):
            client(AdminClient, self._client_settings).list_topics(timeout=_PING_SECONDS)

    def terms(
        self, topics: Iterable[str], settings: Mapping[str, str], producer: Producer
    ) -> dict[str, Terms | RecordError]:
        """What each takes, or why there can be no such topic. `producer` knows them afterwards."""
        refusals: dict[str, RecordError] = {}
        unknown = [topic for topic in topics if topic not in self._terms]
        if unknown:
            # Kept until the answers are there: a client that goes takes its requests with it.
            admin = client(AdminClient, self._client_settings)
            missing = _missing(admin, unknown)
            if missing:
                settings = {_LIMIT: str(LARGEST_RECORD_BYTES), **BROKERS_TIME, **settings}
                refusals = self._create(admin, missing, settings)
            there = [topic for topic in unknown if topic not in refusals]
            if there:
                self._ask(admin, _introduce(producer, admin, there))
        return {topic: refusals.get(topic) or self._terms[topic] for topic in topics}

    def needed(self, topic: str, settings: Mapping[str, str], producer: Producer) -> Terms:
        """Of one without which the lane can not go on: that there can be none is no fault of a record."""
        terms = self.terms([topic], settings, producer)[topic]
        if isinstance(terms, RecordError):
            raise StreamError(
                f"the lane needs a topic named {topic}, and Kafka takes none: another one differs only in dots and "
                "underscores",
                code="TOPIC_TAKEN",
                remedy="Give the option transaction_topic another name; or, beside the topic of dead letters, remove "
                "the other one. Then resume the lane, which goes on at its cursor.",
            ) from terms
        return terms

    def _create(self, admin: AdminClient, topics: Iterable[str], settings: Mapping[str, str]) -> dict[str, RecordError]:
        refusals = {}
        factor = self._replication_factor
        settings = {**in_sync(factor), **settings}
        new = [NewTopic(topic, self._partitions, copies(factor), config=settings) for topic in topics]
        for topic, made in admin.create_topics(new, request_timeout=_CALL_SECONDS).items():
            try:
                made.result()
            except KafkaException as error:
                code = error.args[0].code()
                if code == KafkaError.TOPIC_EXCEPTION:
                    refusals[topic] = _refusal(topic)
                elif code != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise refused(error.args[0], "create a topic") from error
        return refusals

    def _ask(self, admin: AdminClient, partitions: Mapping[str, int]) -> None:
        """Of those that were just created too: the brokers' own defaults count where nothing else was said."""
        asked = [ConfigResource(ConfigResource.Type.TOPIC, topic) for topic in partitions]
        with mapped("read a topic's settings"):
            for resource, answer in admin.describe_configs(asked, request_timeout=_CALL_SECONDS).items():
                settings = answer.result()
                limit = self._checked(resource.name, int(settings[_LIMIT].value))
                wants_keys = _COMPACTED in settings[_CLEANUP].value.split(",")
                self._terms[resource.name] = Terms(limit, wants_keys, partitions[resource.name])

    def _checked(self, topic: str, limit: int) -> int:
        if limit < self._batch_bytes:
            raise StreamError(
                f"topic {topic} takes {limit} bytes at once, this sink sends {self._batch_bytes}",
                code="TOPIC_LIMIT_TOO_LOW",
                remedy="Raise the topic's max.message.bytes, or lower the sink's option batch_bytes.",
            )
        return min(limit, LARGEST_RECORD_BYTES) - RECORD_OVERHEAD_BYTES


def _missing(admin: AdminClient, topics: Sequence[str]) -> list[str]:
    with mapped("find its topics"):
        there = admin.list_topics(timeout=_CALL_SECONDS).topics
    return [topic for topic in topics if topic not in there]


def _introduce(producer: Producer, admin: AdminClient, topics: Sequence[str]) -> dict[str, int]:
    """How many partitions each has. Waits until their leaders have made a place for them, and lets the producer know
    all of them in one answer."""
    deadline = time.monotonic() + _CALL_SECONDS
    while True:
        with mapped("find its topics"):
            known = producer.list_topics(timeout=_CALL_SECONDS).topics
        missing = [topic for topic in topics if topic not in known or not known[topic].partitions]
        if not missing:
            missing = _without_a_place(
                [TopicPartition(topic, at) for topic in topics for at in known[topic].partitions], admin
            )
        if not missing:
            return {topic: len(known[topic].partitions) for topic in topics}
        if time.monotonic() > deadline:
            raise TransientError(
                f"the brokers do not serve topic {missing[0]}",
                code="TOPIC_NOT_SERVED",
                remedy="Check that the brokers see each other; the lane restarts at its cursor.",
            )
        producer.poll(_LOOK_SECONDS)


def _without_a_place(partitions: Iterable[TopicPartition], admin: AdminClient) -> list[str]:
    wanted = {partition: OffsetSpec.latest() for partition in partitions}
    asked = admin.list_offsets(wanted, request_timeout=_CALL_SECONDS)
    missing = []
    for partition, answer in asked.items():
        try:
            answer.result()
        except KafkaException as error:
            if is_for_a_person(error.args[0]):
                raise refused(error.args[0], "find its topics") from error
            missing.append(partition.topic)  # not yet, or its leader is elsewhere now
    return missing


def _refusal(topic: str) -> RecordError:
    return RecordError(
        f"Kafka does not take a topic named {topic}: another one differs only in dots and underscores",
        code="TOPIC_REFUSED",
        remedy="Give the sink a template without dots between the names, then replay the dead letters.",
    )
