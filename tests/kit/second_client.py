"""What a reader of committed records finds in a topic: a client that is not the one under test."""

from confluent_kafka import Consumer, TopicPartition
from kit.wait import wait


def committed(bootstrap: str, topic: str) -> list[bytes]:
    """The values up to the topic's end as it is now; nothing if there is no such topic."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "second", "isolation.level": "read_committed"}
    consumer = Consumer(settings | {"enable.partition.eof": True, "enable.auto.commit": False})
    values: list[bytes] = []
    ended = False

    def read() -> bool:
        nonlocal ended
        for message in consumer.consume(1000, 0.2):
            if message.error() is None:
                values.append(message.value())
            else:
                ended = True
        return ended

    try:
        if topic not in consumer.list_topics(timeout=10).topics:
            return []
        consumer.assign([TopicPartition(topic, 0, 0)])
        wait(read, 20, f"the end of {topic}")
    finally:
        consumer.close()
    return values
