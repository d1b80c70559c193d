"""The raw topic as a topic: made if it is missing, checked, identified.

Invariant: one partition (total order), delete retention (never compacted), and room for our largest record batch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import KafkaError, TopicAlreadyExistsError, UnknownTopicOrPartitionError, for_code

from tidegate.clock import BROKERS_TIME
from tidegate.copies import copies, in_sync
from tidegate.errors import ConfigError, Problem, TransientError
from tidegate.kafka_client import TopicMetadata, client_options, largest_batch

if TYPE_CHECKING:
    from tidegate.config.kafka import KafkaConfig, RawTopic

ADMIN_SECONDS = 30.0
_FOUND_EVERY_SECONDS = 0.1
_BROKER_DEFAULT_BYTES = 1_048_588


@dataclass(frozen=True, slots=True)
class TopicState:
    topic_id: str
    partitions: int


async def ensure_raw_topic(kafka: KafkaConfig, wanted: RawTopic) -> TopicState:
    admin = AIOKafkaAdminClient(**client_options(kafka))
    try:
        async with asyncio.timeout(ADMIN_SECONDS):
            await admin.start()
            state = await described(admin, wanted.name)
            if state is None:
                await _create(admin, wanted)
                state = await _wait_for(admin, wanted.name)
            _check(wanted, state, await _configuration(admin, wanted.name))
            return state
    except KafkaError as error:
        raise unavailable(error) from error
    except TimeoutError:
        raise unavailable(None) from None
    finally:
        await admin.close()


def unavailable(error: KafkaError | None) -> TransientError:
    name = type(error).__name__ if error else "no answer in time"
    return TransientError(
        f"Kafka failed: {name}", code="KAFKA_UNAVAILABLE", remedy="Check the brokers; the reader tries again."
    )


async def described(admin: AIOKafkaAdminClient, topic: str) -> TopicState | None:
    # The admin client has no public way to send a request it does not know.
    answer = await admin._send_request(TopicMetadata(topic))
    described = answer.to_object()["topics"][0]
    error = for_code(described["error_code"])
    if error is UnknownTopicOrPartitionError:
        return None
    if described["error_code"]:
        raise error()
    return TopicState(str(described["topic_id"]), len(described["partitions"]))


async def _create(admin: AIOKafkaAdminClient, wanted: RawTopic) -> None:
    milliseconds = int(wanted.retention.total_seconds() * 1000)
    configuration = {
        "cleanup.policy": "delete",
        "retention.ms": str(milliseconds),
        "max.message.bytes": str(max(largest_batch(wanted), _BROKER_DEFAULT_BYTES)),
        "compression.type": "producer",
        **BROKERS_TIME,
    }
    answer = await admin.create_topics([new_topic(wanted.name, wanted.replication_factor, configuration)])
    code = answer.to_object()["topic_errors"][0]["error_code"]
    if code and for_code(code) is not TopicAlreadyExistsError:
        _creation_refused(for_code(code))


def new_topic(name: str, replication_factor: int | None, settings: Mapping[str, str]) -> NewTopic:
    """Of one partition."""
    # aiokafka leaves the number of copies to the brokers only if it is told where they shall be: nowhere in particular.
    where: dict[int, list[int]] | None = {} if replication_factor is None else None
    return NewTopic(name, 1, copies(replication_factor), where, {**in_sync(replication_factor), **settings})


def _creation_refused(error: type[KafkaError]) -> NoReturn:
    raise ConfigError(
        f"Kafka refused to create the raw topic: {error.__name__}",
        code="RAW_TOPIC_CREATE",
        remedy="Check raw_topic.replication_factor against the number of brokers, and the rights of the user.",
    ) from None


async def _wait_for(admin: AIOKafkaAdminClient, topic: str) -> TopicState:
    """A created topic is known to every broker only a moment later."""
    while (state := await described(admin, topic)) is None or state.partitions == 0:  # noqa: ASYNC110
        await asyncio.sleep(_FOUND_EVERY_SECONDS)  # Kafka tells nobody when; the caller's timeout ends it.
    return state


async def _configuration(admin: AIOKafkaAdminClient, topic: str) -> dict[str, str]:
    answers = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
    entries = answers[0].to_object()["resources"][0]["config_entries"]
    return {entry["config_names"]: entry["config_value"] for entry in entries}


def _check(wanted: RawTopic, state: TopicState, configuration: Mapping[str, str]) -> None:
    problems = []
    if state.partitions != 1:
        problems.append(_problem("RAW_TOPIC_PARTITIONS", f"it has {state.partitions} partitions, not one"))
    if configuration.get("cleanup.policy") != "delete":
        problems.append(_problem("RAW_TOPIC_POLICY", "its cleanup.policy is not delete: records would vanish"))
    if int(configuration.get("max.message.bytes", 0)) < largest_batch(wanted):
        reason = f"its max.message.bytes is below {largest_batch(wanted)}, what raw_topic.max_frame needs"
        problems.append(_problem("RAW_TOPIC_MESSAGE_BYTES", reason))
    if problems:
        raise ConfigError(
            f"the raw topic {wanted.name} is not fit for its purpose",
            code="RAW_TOPIC_UNFIT",
            remedy="Mend its settings, or name another raw topic.",
            problems=tuple(problems),
        )


def _problem(code: str, reason: str) -> Problem:
    return Problem(
        "raw_topic", code=code, reason=reason, remedy="Change it with kafka-configs, or make the topic anew."
    )
