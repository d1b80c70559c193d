"""What the preflight makes of a raw topic's and a Redis' facts."""

from typing import Any

import pytest

from tidegate.config.base import size
from tidegate.config.kafka import RawTopic
from tidegate.errors import ConfigError, TransientError
from tidegate.preflight.findings import Severity, caution, raise_worst, refusal, unknown
from tidegate.preflight.redis import judge_redis
from tidegate.preflight.topic import TopicFacts, judge_topic

GOOD = {
    "cleanup.policy": "delete",
    "message.timestamp.type": "LogAppendTime",
    "max.message.bytes": "1048588",
    "min.insync.replicas": "2",
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "unclean.leader.election.enable": "false",
}
CAUTION, REFUSAL = Severity.CAUTION, Severity.REFUSAL


def good(**settings: str) -> dict[str, str]:
    return GOOD | {name.replace("_", "."): value for name, value in settings.items()}


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        (TopicFacts(3, 1, 3, GOOD), {}),
        (TopicFacts(1, 1, 1, good(min_insync_replicas="1")), {}),
        (TopicFacts(1, 0, 0), {}),
        (TopicFacts(3, 2, 3, GOOD), {"RAW_TOPIC_PARTITIONS": REFUSAL}),
        (TopicFacts(3, 1, 3, good(cleanup_policy="compact")), {"RAW_TOPIC_POLICY": REFUSAL}),
        (TopicFacts(3, 1, 3, good(cleanup_policy="compact,delete")), {"RAW_TOPIC_POLICY": REFUSAL}),
        (TopicFacts(3, 1, 3, good(max_message_bytes="65536")), {"RAW_TOPIC_MESSAGE_BYTES": REFUSAL}),
        (TopicFacts(3, 1, 1, good(min_insync_replicas="2")), {"RAW_TOPIC_INSYNC": REFUSAL}),
        (TopicFacts(3, 1, 3, good(min_insync_replicas="1")), {"RAW_TOPIC_INSYNC_LOW": CAUTION}),
        (TopicFacts(3, 1, 1, good(min_insync_replicas="1")), {"RAW_TOPIC_COPIES": CAUTION}),
        (TopicFacts(3, 1, 3, good(unclean_leader_election_enable="true")), {"RAW_TOPIC_UNCLEAN": CAUTION}),
        (TopicFacts(3, 1, 3, good(retention_ms="1000")), {"RAW_TOPIC_RETENTION": CAUTION}),
        (TopicFacts(3, 1, 3, good(retention_bytes="1000")), {"RAW_TOPIC_RETENTION_BYTES": CAUTION}),
        (TopicFacts(3, 1, 3, good(message_timestamp_type="CreateTime")), {"RAW_TOPIC_TIME": CAUTION}),
    ],
)
def test_a_raw_topic_is_judged(facts: TopicFacts, expected: dict[str, Severity]) -> None:
    assert expected == {each.code: each.severity for each in judge_topic(RawTopic(), facts)}


def test_more_copies_than_brokers_are_refused_before_the_topic_is_made() -> None:
    assert [each.code for each in judge_topic(RawTopic(replication_factor=3), TopicFacts(1, 0, 0))] == [
        "RAW_TOPIC_CREATE"
    ]


def test_as_many_copies_as_the_brokers_give_are_never_too_many() -> None:
    assert judge_topic(RawTopic(), TopicFacts(1, 0, 0)) == []


def test_a_larger_frame_needs_larger_messages() -> None:
    wanted = RawTopic(max_frame=size("4MiB"))
    assert [each.code for each in judge_topic(wanted, TopicFacts(3, 1, 3, GOOD))] == ["RAW_TOPIC_MESSAGE_BYTES"]


KEPT = {"role": "master", "maxmemory": 0, "maxmemory_policy": "noeviction", "aof_enabled": 1}


@pytest.mark.parametrize(
    ("info", "expected"),
    [
        (KEPT, {}),
        (KEPT | {"role": "slave"}, {"REDIS_REPLICA": REFUSAL}),
        (KEPT | {"maxmemory_policy": "volatile-lru", "maxmemory": 10**8}, {"REDIS_EVICTS": CAUTION}),
        (KEPT | {"maxmemory_policy": "allkeys-lru"}, {"REDIS_EVICTS": CAUTION}),
        (KEPT | {"maxmemory_policy": "allkeys-lru", "maxmemory": 10**8}, {"REDIS_EVICTS": REFUSAL}),
        (KEPT | {"aof_enabled": 0, "rdb_saves": 0, "rdb_last_save_time": 0}, {"REDIS_FORGETS": CAUTION}),
    ],
)
def test_a_redis_is_judged(info: dict[str, Any], expected: dict[str, Severity]) -> None:
    assert expected == {each.code: each.severity for each in judge_redis(info)}


def test_all_refusals_are_told_in_one_error_before_what_could_not_be_asked() -> None:
    one = refusal("a", code="ONE", reason="one", remedy="do")
    two = refusal("b", code="TWO", reason="two", remedy="do")
    silent = unknown("c", code="SILENT", reason="silent", remedy="wait")
    with pytest.raises(ConfigError) as refused:
        raise_worst([silent, one, two])
    assert [each.code for each in refused.value.problems] == ["ONE", "TWO"]
    with pytest.raises(TransientError) as unasked:
        raise_worst([silent])
    assert unasked.value.code == "SILENT"
    raise_worst([caution("d", code="FINE", reason="fine", remedy="look")])
