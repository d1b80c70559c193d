"""The raw topic: one partition, never compacted, room for our records, kept by more than one broker where there are.

Invariant: only reads; a topic that is not there yet is none of a finding's business, the reader makes it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import (
    ClusterAuthorizationFailedError,
    KafkaError,
    SaslAuthenticationFailed,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
    for_code,
)

from tidegate.errors import ConfigError
from tidegate.kafka_client import TopicMetadata, client_options, largest_batch
from tidegate.preflight.findings import Finding, caution, refusal, unknown

if TYPE_CHECKING:
    from tidegate.config.kafka import KafkaConfig, RawTopic

PATH = "raw_topic"
ASK_SECONDS = 15.0
_REFUSED = (SaslAuthenticationFailed, TopicAuthorizationFailedError, ClusterAuthorizationFailedError)


@dataclass(frozen=True, slots=True)
class TopicFacts:
    brokers: int
    partitions: int
    replicas: int
    """Of its first partition."""
    settings: Mapping[str, str] = field(default_factory=dict)


async def examine_topic(kafka: KafkaConfig, wanted: RawTopic) -> list[Finding]:
    try:
        facts = await _read(kafka, wanted.name)
    except ConfigError as error:
        return [refusal("kafka", code=error.code, reason=error.message, remedy=error.remedy)]
    except _REFUSED as error:
        remedy = "Check kafka.security, and the user's rights: Describe, DescribeConfigs, Read and Write on the topic."
        reason = f"Kafka refuses the user: {type(error).__name__}"
        return [refusal("kafka.security", code="KAFKA_REFUSED", reason=reason, remedy=remedy)]
    except (KafkaError, TimeoutError, OSError) as error:
        reason = f"Kafka cannot be asked: {type(error).__name__}"
        remedy = "Check kafka.bootstrap, kafka.security and that the brokers are up."
        return [unknown("kafka", code="KAFKA_UNAVAILABLE", reason=reason, remedy=remedy)]
    return judge_topic(wanted, facts)


async def _read(kafka: KafkaConfig, topic: str) -> TopicFacts:
    admin = AIOKafkaAdminClient(**client_options(kafka))
    try:
        async with asyncio.timeout(ASK_SECONDS):
            await admin.start()
            # The admin client has no public way to send a request it does not know, and its own would make the topic.
            answer = (await admin._send_request(TopicMetadata(topic))).to_object()
            return await _facts(admin, topic, len(answer["brokers"]), answer["topics"][0])
    finally:
        await admin.close()


async def _facts(admin: Any, topic: str, brokers: int, described: Mapping[str, Any]) -> TopicFacts:
    error = for_code(described["error_code"])
    if error is UnknownTopicOrPartitionError:
        return TopicFacts(brokers, 0, 0)
    if described["error_code"]:
        raise error()
    partitions = described["partitions"]
    replicas = len(partitions[0]["replicas"]) if partitions else 0
    return TopicFacts(brokers, len(partitions), replicas, await _settings(admin, topic))


async def _settings(admin: Any, topic: str) -> dict[str, str]:
    answers = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
    [resource] = answers[0].to_object()["resources"]
    if resource["error_code"]:
        raise for_code(resource["error_code"])()
    return {entry["config_names"]: entry["config_value"] for entry in resource["config_entries"]}


def judge_topic(wanted: RawTopic, facts: TopicFacts) -> list[Finding]:
    if facts.partitions == 0:
        return _to_be_made(wanted, facts)
    return [*_shape(wanted, facts), *_copies(facts), *_keeping(wanted, facts.settings)]


def _to_be_made(wanted: RawTopic, facts: TopicFacts) -> list[Finding]:
    if wanted.replication_factor is None or wanted.replication_factor <= facts.brokers:
        return []
    reason = f"replication_factor is {wanted.replication_factor}, and there are {facts.brokers} broker(s)"
    remedy = f"Set raw_topic.replication_factor: {facts.brokers}, or start more brokers."
    return [refusal(f"{PATH}.replication_factor", code="RAW_TOPIC_CREATE", reason=reason, remedy=remedy)]


def _shape(wanted: RawTopic, facts: TopicFacts) -> list[Finding]:
    findings = []
    if facts.partitions != 1:
        reason = f"it has {facts.partitions} partitions, not one: there would be no order"
        remedy = "Partitions cannot be taken away: name another raw topic, or make this one anew."
        findings.append(refusal(PATH, code="RAW_TOPIC_PARTITIONS", reason=reason, remedy=remedy))
    if facts.settings.get("cleanup.policy", "delete") != "delete":
        reason = "its cleanup.policy is not delete: records would vanish"
        remedy = "kafka-configs --alter --add-config cleanup.policy=delete."
        findings.append(refusal(PATH, code="RAW_TOPIC_POLICY", reason=reason, remedy=remedy))
    needed = largest_batch(wanted)
    if int(facts.settings.get("max.message.bytes", needed)) < needed:
        reason = f"its max.message.bytes is below {needed}, what raw_topic.max_frame needs"
        remedy = f"kafka-configs --alter --add-config max.message.bytes={needed}, or lower raw_topic.max_frame."
        findings.append(refusal(PATH, code="RAW_TOPIC_MESSAGE_BYTES", reason=reason, remedy=remedy))
    return findings


def _copies(facts: TopicFacts) -> list[Finding]:
    in_sync = int(facts.settings.get("min.insync.replicas", "1"))
    findings = []
    if in_sync > facts.replicas:
        reason = f"its min.insync.replicas is {in_sync} with {facts.replicas} copies: nothing can be written"
        remedy = "kafka-configs --alter --add-config min.insync.replicas=…, below the number of copies."
        findings.append(refusal(PATH, code="RAW_TOPIC_INSYNC", reason=reason, remedy=remedy))
    elif facts.replicas > 1 and in_sync < 2:
        reason = "its min.insync.replicas is 1: what one broker has taken alone may be lost with it"
        remedy = "kafka-configs --alter --add-config min.insync.replicas=2."
        findings.append(caution(PATH, code="RAW_TOPIC_INSYNC_LOW", reason=reason, remedy=remedy))
    elif facts.replicas == 1 and facts.brokers > 1:
        reason = "it has one copy, although there are more brokers: it is lost with its broker's disk"
        remedy = "Give it three copies with kafka-reassign-partitions, and raw_topic.replication_factor: 3."
        findings.append(caution(PATH, code="RAW_TOPIC_COPIES", reason=reason, remedy=remedy))
    if facts.settings.get("unclean.leader.election.enable") == "true":
        reason = "it allows unclean leader election: acknowledged records may be lost"
        remedy = "kafka-configs --alter --add-config unclean.leader.election.enable=false."
        findings.append(caution(PATH, code="RAW_TOPIC_UNCLEAN", reason=reason, remedy=remedy))
    return findings


def _keeping(wanted: RawTopic, settings: Mapping[str, str]) -> list[Finding]:
    findings = []
    milliseconds = int(settings.get("retention.ms", "-1"))
    if 0 <= milliseconds < wanted.retention.total_seconds() * 1000:
        reason = f"its retention.ms is {milliseconds}, less than raw_topic.retention says"
        remedy = "kafka-configs --alter --add-config retention.ms=…, or lower raw_topic.retention to what is true."
        findings.append(caution(PATH, code="RAW_TOPIC_RETENTION", reason=reason, remedy=remedy))
    if int(settings.get("retention.bytes", "-1")) >= 0:
        reason = "its retention.bytes is set: under load it keeps less than raw_topic.retention says"
        remedy = "kafka-configs --alter --add-config retention.bytes=-1, and watch the disk."
        findings.append(caution(PATH, code="RAW_TOPIC_RETENTION_BYTES", reason=reason, remedy=remedy))
    if settings.get("message.timestamp.type", "LogAppendTime") != "LogAppendTime":
        reason = "its records bear the reader's time: if that clock is wrong, they are refused or not kept long enough"
        remedy = "kafka-configs --alter --add-config message.timestamp.type=LogAppendTime."
        findings.append(caution(PATH, code="RAW_TOPIC_TIME", reason=reason, remedy=remedy))
    return findings
