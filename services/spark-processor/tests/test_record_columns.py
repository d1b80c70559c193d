"""Events go to the client from the kernels' buffer: the same records in the same partitions as one message each."""

import random
from collections.abc import Iterator

import numpy as np
import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from kit.topics import make_topic
from kit.wait import wait

from tidegate.columns.json_encode import TopicEvents, Written
from tidegate_processor.sinks.shared.draining import Draining
from tidegate_processor.sinks.shared.lane_producer import messages
from tidegate_processor.sinks.shared.record_columns import RecordColumns

PARTITIONS = 4
Records = list[tuple[bytes | None, bytes]]


def events_of(records: Records) -> TopicEvents:
    """Behind some bytes and events of another topic, as in a frame of several."""
    others: Records = [(b"other", b"topic")]
    places, joined = [], b"before"
    for at, (key, value) in enumerate(others + records):
        key_at, key_length = len(joined), -1 if key is None else len(key)
        joined += key or b""
        places.append((key_at, key_length, len(joined), len(value), at))
        joined += value
    buffer = np.frombuffer(joined, np.uint8).copy()
    written = Written(buffer, np.array(places, np.int64), None)  # type: ignore[arg-type] # nothing is refused here
    keyless, size = sum(key is None for key, _ in records), sum(len(value) for _, value in records)
    return TopicEvents("", written, len(others), (len(records), size, 0, keyless))


@pytest.fixture
def producer(kafka) -> Iterator[Producer]:
    producer = producer_of(kafka.bootstrap)
    yield producer
    producer.purge()


def producer_of(bootstrap: str, **more: object) -> Producer:
    settings = {"enable.idempotence": True, "linger.ms": 1000, "partitioner": "murmur2_random"}
    return Producer({"bootstrap.servers": bootstrap, **settings, **more})


def read(bootstrap: str, topic: str, count: int) -> list[Records]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "columns"})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
    found: list[Records] = [[] for _ in range(PARTITIONS)]

    def has_come() -> bool:
        for message in consumer.consume(1000, 0.05):
            found[message.partition()].append((message.key(), message.value()))
        return sum(map(len, found)) >= count

    try:
        wait(has_come, 20, f"{count} records")
    finally:
        consumer.close()
    return found


def test_records_are_those_of_messages_in_the_same_partitions(kafka, producer, prefix: str) -> None:
    chance = random.Random(7)
    sizes = [chance.choice((0, 1, 300, 70_000)) for _ in range(300)]
    records: Records = [(b"key %d" % chance.randrange(50), chance.randbytes(size)) for size in sizes]
    records[5] = b"", b"an empty key is one"
    events = events_of(records)
    topics = [f"{prefix}.columns", f"{prefix}.messages"]
    for topic in topics:
        make_topic(kafka.bootstrap, topic, partitions=PARTITIONS)
    columns = RecordColumns(producer)

    assert columns.produce(topics[0], -1, events) == len(records)
    assert producer.produce_batch(topics[1], messages(events), partition=-1) == len(records)
    columns.close()

    assert producer.flush(20) == 0
    ours, theirs = (read(kafka.bootstrap, topic, len(records)) for topic in topics)
    assert ours == theirs
    assert sum(bool(partition) for partition in ours) > 1


def test_what_has_no_key_goes_where_it_is_sent(kafka, producer, prefix: str) -> None:
    make_topic(kafka.bootstrap, prefix, partitions=PARTITIONS)
    records: Records = [(None, b"%d" % at) for at in range(20)]

    RecordColumns(producer).produce(prefix, 2, events_of(records))

    assert producer.flush(20) == 0
    assert read(kafka.bootstrap, prefix, len(records))[2] == records


def test_the_buffer_is_free_once_the_call_is_over(kafka, producer, prefix: str) -> None:
    make_topic(kafka.bootstrap, prefix, partitions=PARTITIONS)
    records: Records = [(b"key", b"%d" % at) for at in range(1000)]
    events = events_of(records)

    RecordColumns(producer).produce(prefix, 0, events)
    events.buffer[:] = 0

    assert producer.flush(20) == 0
    assert read(kafka.bootstrap, prefix, len(records))[0] == records


def test_a_full_queue_takes_the_first_ones(kafka, prefix: str) -> None:
    make_topic(kafka.bootstrap, prefix, partitions=PARTITIONS)
    producer = producer_of(kafka.bootstrap, **{"queue.buffering.max.messages": 100})
    records: Records = [(b"key", b"%d" % at) for at in range(250)]
    columns, events = RecordColumns(producer), events_of(records)

    taken = [columns.produce(prefix, 0, events)]
    while sum(taken) < len(records):
        assert producer.flush(20) == 0
        taken.append(columns.produce(prefix, 0, events, sum(taken)))
    columns.close()

    assert taken == [100, 100, 50]
    assert producer.flush(20) == 0
    assert read(kafka.bootstrap, prefix, len(records))[0] == records


def test_a_name_that_no_topic_can_have_is_refused(producer) -> None:
    with pytest.raises(KafkaException):
        RecordColumns(producer).produce("t" * 513, 0, events_of([(b"key", b"value")]))


def test_whatever_is_no_producer_is_refused(kafka) -> None:
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": "columns"})
    with pytest.raises(RuntimeError):
        RecordColumns(consumer)
    consumer.close()


def test_full_batches_are_acknowledged_without_a_flush_and_a_rest_is_left(kafka, prefix: str) -> None:
    make_topic(kafka.bootstrap, prefix, partitions=PARTITIONS)
    batch, value = 65_536, b"x" * 1000
    producer = producer_of(kafka.bootstrap, **{"batch.size": batch, "linger.ms": 900_000, "message.timeout.ms": 2**30})
    columns, draining = RecordColumns(producer), Draining(batch, patience_seconds=20)
    events = events_of([(b"key", value)] * 1000)
    columns.produce(prefix, 0, events)
    draining.sent(prefix, 1, len(events), events.value_bytes)

    draining.wait(producer)

    assert 0 < len(producer) <= 2 * batch / len(value)
    columns.close()
    producer.purge()


def test_brokers_that_are_gone_are_not_waited_for() -> None:
    producer = producer_of("127.0.0.1:1", **{"linger.ms": 0})
    draining = Draining(1000)
    RecordColumns(producer).produce("gone", 0, events_of([(b"key", b"x" * 500)] * 1000))
    draining.sent("gone", 1, 1000, 500_000)

    draining.wait(producer)

    assert len(producer) == 1000
    producer.purge()
