"""Topics of real brokers, made and read by a client that is not the one under test."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic
from kit.wait import wait

from tidegate.config.kafka import KafkaConfig
from tidegate.errors import TransientError
from tidegate_processor.kafka_clients import look_at

_LARGEST_BYTES = 16 * 2**20


def make_topic(bootstrap: str, name: str, *, largest_bytes: int = _LARGEST_BYTES, partitions: int = 1) -> str:
    """Its id."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    new = NewTopic(name, partitions, 1, config={"max.message.bytes": str(largest_bytes)})
    admin.create_topics([new])[name].result(30)
    found: list[str] = []

    def is_described() -> bool:
        """A broker knows of it a moment after the controller."""
        with suppress(TransientError):
            found.append(look_at(KafkaConfig(bootstrap=bootstrap), name).id)
        return bool(found)

    wait(is_described, 30, f"the broker describes {name}")
    return found[-1]


def limit_records(bootstrap: str, topic: str, largest_bytes: int) -> None:
    configure(bootstrap, topic, "max.message.bytes", str(largest_bytes))


def configure(bootstrap: str, topic: str, name: str, value: str) -> None:
    """Of a topic that is in use; the brokers obey at once."""
    setting = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[setting])
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.incremental_alter_configs([resource])[resource].result(30)


def append(bootstrap: str, topic: str, records: Iterable[bytes]) -> None:
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "linger.ms": 0,
            "message.max.bytes": _LARGEST_BYTES,
            "enable.idempotence": True,
        }
    )
    for record in records:
        producer.produce(topic, record, partition=0)
    assert producer.flush(30) == 0, "the broker did not take the records"


@dataclass(slots=True)
class Inbox:
    """What a consumer of committed records has received, in order."""

    _consumer: Consumer
    messages: list[Message] = field(default_factory=list)

    def until(self, condition: Callable[[list[Message]], bool], seconds: float, what: str) -> list[Message]:
        def arrived() -> bool:
            self.messages += self._consumer.consume(1000, 0.05)
            return condition(self.messages)

        wait(arrived, seconds, what)
        return self.messages


@contextmanager
def inbox(bootstrap: str, topic: str, partitions: int = 1) -> Iterator[Inbox]:
    settings = {"bootstrap.servers": bootstrap, "group.id": f"inbox-{topic}", "isolation.level": "read_committed"}
    consumer = Consumer(settings | {"auto.offset.reset": "earliest", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
    try:
        yield Inbox(consumer)
    finally:
        consumer.close()
