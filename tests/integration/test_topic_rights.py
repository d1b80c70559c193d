"""A reader whose user may not create topics: somebody else makes them."""

import asyncio
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from kit.kafka_rights import asking_kafka, forbid_new_topics
from kit.pipelines import checked, document, secrets_of
from kit.topics import make_topic

from tidegate.contracts.names import schemas_topic, snapshots_topic
from tidegate.errors import ConfigError
from tidegate_reader.schema_topic import ensure_compacted

REDIS = "redis://:secret@127.0.0.1:6379"


def test_compacted_topics_that_were_made_beforehand_need_no_right_to_create_one(tmp_path: Path, prefix: str) -> None:
    """The remedy said to make it, and the reader was refused all the same."""
    with asking_kafka(tmp_path) as kafka:
        config = checked(document(prefix, kafka=kafka.bootstrap, redis_url=REDIS), secrets_of(redis_url=REDIS))
        make_topic(kafka.bootstrap, schemas_topic(prefix))
        forbid_new_topics(AdminClient({"bootstrap.servers": kafka.bootstrap}))

        assert asyncio.run(ensure_compacted(config, schemas_topic(prefix))) is False
        with pytest.raises(ConfigError) as raised:
            asyncio.run(ensure_compacted(config, snapshots_topic(prefix)))

    assert raised.value.code == "SCHEMAS_TOPIC_CREATE"
