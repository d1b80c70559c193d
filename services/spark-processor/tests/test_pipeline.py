"""The driver, where what it stands on is away for a moment."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from confluent_kafka.admin import AdminClient
from kit.kafka_rights import allow_again, asking_kafka, forbid_new_topics
from kit.pipelines import checked, document, secrets_of
from kit.topics import make_topic

from tidegate.config.pipeline import PipelineConfig
from tidegate.contracts.names import scratch_topic
from tidegate.contracts.status import State
from tidegate.observability.health import Health
from tidegate_processor import pipeline
from tidegate_processor.table import LaneState

REDIS = "redis://:secret@127.0.0.1:6379"


def config_of(prefix: str, kafka: str, **security: str) -> PipelineConfig:
    values = document(prefix, kafka=kafka, redis_url=REDIS)
    values["kafka"]["security"] = security
    return checked(values, secrets_of(redis_url=REDIS))


def test_a_certificate_that_is_not_there_for_a_moment_lets_lanes_wait_and_the_driver_go_on(tmp_path: Path) -> None:
    topics = pipeline._Topics(config_of("shop", "127.0.0.1:9", protocol="SSL", ca=str(tmp_path / "ca.pem")))

    assert topics.are_ready() is False


def test_lanes_start_once_the_raw_topic_is_there(kafka, prefix: str) -> None:
    config = config_of(prefix, kafka.bootstrap)
    topics = pipeline._Topics(config)

    assert topics.are_ready() is False
    make_topic(kafka.bootstrap, config.raw_topic.name)
    assert topics.are_ready() is True


def test_a_scratch_topic_that_may_not_be_made_is_told_and_one_that_was_made_beforehand_is_used(
    tmp_path: Path, prefix: str
) -> None:
    """Kafka asks for the right before it looks whether the topic is there: no lane ever started, and the log said that
    the brokers could not be reached."""
    with asking_kafka(tmp_path) as kafka:
        config = config_of(prefix, kafka.bootstrap)
        make_topic(kafka.bootstrap, config.raw_topic.name)
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
        forbid_new_topics(admin)
        refused = pipeline._Topics(config)
        assert not refused.are_ready()
        allow_again(admin)
        make_topic(kafka.bootstrap, scratch_topic(prefix))
        forbid_new_topics(admin)
        served = pipeline._Topics(config)
        assert served.are_ready()

    health = Health(["events"])
    lane: Any = SimpleNamespace(sink="events", failure=None, state=LaneState.WAITING, status=None)
    pipeline._tell(lane, health, refused.complaint)
    assert "SCRATCH_TOPIC_REFUSED" in str(health.report())
    assert served.complaint == ""


def test_a_lane_that_waits_for_the_reader_is_not_simply_up() -> None:
    health = Health(["events"])
    status = SimpleNamespace(state=State.RUNNING, waits_for="a new epoch of the reader")
    lane: Any = SimpleNamespace(sink="events", failure=None, state=LaneState.RUNNING, status=status)
    told = []
    for waits_for in ("a new epoch of the reader", ""):
        status.waits_for = waits_for
        pipeline._tell(lane, health)
        told.append("a new epoch of the reader" in str(health.report()))
    assert told == [True, False]
