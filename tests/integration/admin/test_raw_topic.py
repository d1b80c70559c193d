"""Whether somebody has changed the raw topic, asked of real brokers."""

import asyncio

from kit.pipelines import checked, document, free_port, secrets_of
from kit.topics import configure, make_topic

from tidegate_admin.pipelines.raw_topic import RawTopicWatch

REDIS = "redis://:none@127.0.0.1:6379"


def watch(prefix: str, bootstrap: str) -> RawTopicWatch:
    values = document(prefix, kafka=bootstrap, redis_url=REDIS)
    return RawTopicWatch(checked(values, secrets_of(redis_url=REDIS)))


def test_a_topic_that_was_changed_is_seen_and_seen_to_be_mended(kafka, prefix: str) -> None:
    seen, topic = watch(prefix, kafka.bootstrap), f"tidegate.{prefix}.raw"
    make_topic(kafka.bootstrap, topic)
    figures = []
    for policy in ("delete", "compact", "delete"):
        configure(kafka.bootstrap, topic, "cleanup.policy", policy)
        asyncio.run(seen.look())
        figures.append(seen.wrong_settings)

    assert figures == [0, 1, 0]


def test_a_topic_that_is_not_there_yet_is_no_mistake(kafka, prefix: str) -> None:
    seen = watch(prefix, kafka.bootstrap)
    asyncio.run(seen.look())

    assert seen.wrong_settings == 0


def test_brokers_that_are_away_leave_no_figure(prefix: str) -> None:
    seen = watch(prefix, f"127.0.0.1:{free_port()}")
    seen.wrong_settings = 0
    asyncio.run(seen.look())

    assert seen.wrong_settings is None
