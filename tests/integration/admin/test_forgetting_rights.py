"""A pipeline is not forgotten where the brokers do not let the admin service do it: that is told, with the topic."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from kit.admin_process import AdminPlace, admin_place
from kit.kafka_rights import asking_kafka
from kit.topics import make_topic
from kit.wait import wait

from tidegate.contracts import names


@pytest.fixture(scope="module")
def place(postgres, redis, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AdminPlace]:
    folder: Path = tmp_path_factory.mktemp("admin")
    with asking_kafka(tmp_path_factory.mktemp("kafka")) as broker:
        servers = {"dsn": postgres.dsn(), "bootstrap": broker.bootstrap, "redis_url": redis.url}
        with admin_place(folder, folder.name.replace("_", "-").lower(), **servers) as made:
            yield made


@pytest.mark.parametrize("operation", [AclOperation.DESCRIBE, AclOperation.DELETE], ids=lambda each: each.name)
def test_a_topic_that_may_not_be_deleted_is_named_and_the_lineage_stays(
    place: AdminPlace, operation: AclOperation
) -> None:
    name = place.config.pipeline
    topic = names.schemas_topic(name)
    brokers = AdminClient({"bootstrap.servers": place.bootstrap})
    make_topic(place.bootstrap, topic)
    place.redis.set(names.lineage_key(name), "of the slot that is gone")
    pattern = (ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, "User:ANONYMOUS", "*", operation)
    denied = AclBinding(*pattern, AclPermissionType.DENY)
    lifted = AclBindingFilter(*pattern, AclPermissionType.DENY)
    brokers.create_acls([denied])[denied].result(30)
    wait(lambda: brokers.describe_acls(lifted).result(10), 10, "the broker knows it, a moment after the controller")

    refused = place.client().post(f"{place.base}/forget", json={"confirm": name})
    kept = place.redis.exists(names.lineage_key(name))

    brokers.delete_acls([lifted])[lifted].result(30)
    wait(lambda: not brokers.describe_acls(lifted).result(10), 10, "the broker knows that, too")
    done = place.client().post(f"{place.base}/forget", json={"confirm": name})
    assert (refused.status_code, refused.json()["code"], topic in refused.json()["detail"]) == (
        409,
        "TOPIC_NOT_DELETED",
        True,
    )
    assert kept == 1
    assert (done.status_code, done.json()["topics"]) == (200, [topic])
    assert place.redis.exists(names.lineage_key(name)) == 0
