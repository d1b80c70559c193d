"""A right that is missing for a moment: nothing is lost while it is, and the lane goes on once it is there."""

from collections.abc import Iterator

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
from kit.frames import RawLog, row
from kit.topics import inbox

from tidegate.contracts.names import lane_group, lane_transactional_id
from tidegate.errors import TransientError
from tidegate.stack.kafka import Kafka

ANYBODY = "User:*"


class GuardedKafka(Kafka):
    """Whoever is not named may do everything, until there is a rule."""

    def prepare(self) -> None:
        super().prepare()
        with (self.folder / "server.properties").open("a") as file:
            file.write("authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer\n")
            file.write("allow.everyone.if.no.acl.found=true\n")


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    server = GuardedKafka(tmp_path_factory.mktemp("guarded-kafka"))
    server.start()
    try:
        yield server
    finally:
        server.stop()


@pytest.mark.parametrize("kind", [ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID])
def test_a_lane_without_a_right_starts_again_until_it_has_it(config, start, kind: ResourceType) -> None:
    names = {
        ResourceType.TOPIC: f"{config.pipeline}.public.orders",
        ResourceType.GROUP: lane_group(config.pipeline, "events"),
        ResourceType.TRANSACTIONAL_ID: lane_transactional_id(config.pipeline, "events"),
    }
    log = RawLog()
    log.epoch()
    log.transaction(row(1))
    first = start()
    first.feed(enumerate(log.frames))
    first.commit()
    first.close()
    log.transaction(row(2))
    admin = AdminClient({"bootstrap.servers": config.kafka.bootstrap})
    denied = AclOperation.READ if kind is ResourceType.GROUP else AclOperation.WRITE

    forbid(admin, kind, names[kind], denied)
    with pytest.raises(TransientError) as raised:
        deliver(start, log, incarnation=2)
    allow_again(admin)
    deliver(start, log, incarnation=3)

    assert raised.value.code == "SINK_KAFKA_DENIED"
    with inbox(config.kafka.bootstrap, names[ResourceType.TOPIC]) as received:
        messages = received.until(lambda found: len(found) >= 2, 20, "two events")
    assert [message.key() for message in messages] == [b'{"id":1}', b'{"id":2}']


def deliver(start, log: RawLog, incarnation: int) -> None:
    delivery = start(incarnation=incarnation)
    try:
        delivery.feed(enumerate(log.frames))
        delivery.commit()
    finally:
        delivery.close()


def forbid(admin: AdminClient, kind: ResourceType, name: str, operation: AclOperation) -> None:
    rules = [
        AclBinding(kind, name, ResourcePatternType.LITERAL, ANYBODY, "*", what, permission)
        for what, permission in (
            (AclOperation.ALL, AclPermissionType.ALLOW),
            (operation, AclPermissionType.DENY),
        )
    ]
    for made in admin.create_acls(rules).values():
        made.result()


def allow_again(admin: AdminClient) -> None:
    anything = AclBindingFilter(
        ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
    )
    for gone in admin.delete_acls([anything]).values():
        gone.result()
