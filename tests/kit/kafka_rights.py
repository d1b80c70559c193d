"""A broker that asks for rights, and rules for it: whoever is not named may do everything, until there is a rule."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from tidegate.stack.kafka import Kafka

ANYBODY = "User:*"


class _AskingKafka(Kafka):
    def prepare(self) -> None:
        super().prepare()
        with (self.folder / "server.properties").open("a") as file:
            file.write("authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer\n")
            file.write("allow.everyone.if.no.acl.found=true\n")


@contextmanager
def asking_kafka(folder: Path) -> Iterator[Kafka]:
    server = _AskingKafka(folder)
    server.start()
    try:
        yield server
    finally:
        server.stop()


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


def forbid_new_topics(admin: AdminClient) -> None:
    """By both of the rights that Kafka takes for it."""
    forbid(admin, ResourceType.BROKER, "kafka-cluster", AclOperation.CREATE)
    forbid(admin, ResourceType.TOPIC, "*", AclOperation.CREATE)


def allow_again(admin: AdminClient) -> None:
    anything = AclBindingFilter(
        ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
    )
    for gone in admin.delete_acls([anything]).values():
        gone.result()
