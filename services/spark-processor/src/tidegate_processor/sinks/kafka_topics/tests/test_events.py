"""What consumers of committed records get: byte for byte what the reference says, in order, where it is looked for."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest
from confluent_kafka import Consumer, Message, TopicPartition
from hypothesis import HealthCheck, Phase, given, settings
from kit import reference
from kit.frames import GENERATION, INT4, ORDERS, TEXT, RawLog, row
from kit.made_frames import frame_of, frames
from kit.wait import wait

from tidegate.contracts.cursor import Cursor
from tidegate.contracts.frame import Frame, decode_frame
from tidegate.errors import DecodeError
from tidegate.lsn import Lsn
from tidegate.pgoutput.messages import (
    Begin,
    Column,
    Delete,
    Insert,
    OldKind,
    Relation,
    ReplicaIdentity,
    Truncate,
    Update,
)
from tidegate.position import BEGINNING

NO_KEY = Relation(
    16386, "public", "log", ReplicaIdentity.NOTHING, (Column(0, "id", INT4, -1), Column(0, "note", TEXT, -1))
)
ONE_TOPIC = "{pipeline}.all"
PARTITIONS = 4
CURSOR = Cursor(GENERATION.id, "topic", 1, "", 1, 1, BEGINNING, Lsn(0), "c", 1)


def committed(bootstrap: str, topic: str, count: int, partitions: int = 1) -> list[Message]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "committed", "isolation.level": "read_committed"})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
    found: list[Message] = []
    try:
        wait(lambda: found.extend(consumer.consume(1000, 0.05)) or len(found) >= count, 20, f"{count} events")
    finally:
        consumer.close()
    return found


def said(messages: Sequence[Message]) -> list[tuple[bytes | None, bytes]]:
    return [(message.key(), message.value()) for message in messages]


def test_rows_of_every_kind_and_truncates_between_them_arrive_as_the_reference_says_and_in_order(config, start) -> None:
    log = RawLog()
    log.epoch()
    log.transaction(row(1, "one"), row(2, 'tab\t"é"'), Truncate((ORDERS.relation_id,), 3), row(1, "again"))
    log.transaction(
        Update(ORDERS.relation_id, OldKind.KEY, (b"1", None), (b"7", b"moved")),
        Delete(ORDERS.relation_id, OldKind.KEY, (b"7", None)),
    )
    log.transaction(
        *(Insert(NO_KEY.relation_id, (b"%d" % at, b"")) for at in range(3)),
        Truncate((NO_KEY.relation_id,), 0),
        relation=NO_KEY,
    )
    log.in_parts(row(8, "in parts " * 1000), 3)
    delivery = start(topic=ONE_TOPIC)

    delivery.feed(enumerate(log.frames))
    delivery.commit()

    expected = [event for frame in whole(log) for event in expected_of(frame, config.pipeline)]
    assert said(committed(config.kafka.bootstrap, f"{config.pipeline}.all", len(expected))) == expected


def test_keys_meet_the_partitions_of_kafkas_own_clients_and_what_has_none_the_first(config, start) -> None:
    log = RawLog()
    log.epoch()
    log.transaction(*(row(at) for at in range(100)), Truncate((ORDERS.relation_id,), 0))
    delivery = start(partitions=PARTITIONS)

    delivery.feed(enumerate(log.frames))
    delivery.commit()

    messages = committed(config.kafka.bootstrap, f"{config.pipeline}.public.orders", 101, PARTITIONS)
    expected = {message.key(): 0 if message.key() is None else partition_of(message.key()) for message in messages}
    assert {message.key(): message.partition() for message in messages} == expected
    assert len(set(expected.values())) == PARTITIONS


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_what_partitions_are_compared_with_here_is_what_kafkas_own_tests_say(key: bytes, expected: int) -> None:
    """org.apache.kafka.common.utils.UtilsTest.testMurmur2"""
    assert expected & 0xFFFFFFFF == murmur2(key)


def test_transactions_that_follow_each_other_at_once_all_get_through(config, start) -> None:
    """The brokers still finish the one before, and refuse the next one more often than the client asks by itself."""
    log = RawLog()
    log.epoch()
    for at in range(100):
        log.transaction(row(at))
    delivery = start()

    for offset, frame in enumerate(log.frames):
        delivery.feed([(offset, frame)])
        delivery.commit()

    messages = committed(config.kafka.bootstrap, f"{config.pipeline}.public.orders", 100)
    assert [message.key() for message in messages] == [b'{"id":%d}' % at for at in range(100)]


def test_many_tables_that_nobody_has_seen_before_come_in_one_frame(config, start) -> None:
    relations = [replace(ORDERS, relation_id=1 + at, name=f"orders{at}") for at in range(40)]
    rows = [Insert(relation.relation_id, (b"1", b"")) for relation in relations]
    sink = start()._sink

    receipt = sink.write(frame_of(relations, [Begin(Lsn(9), 5, 7), *rows]), BEGINNING)
    sink.commit(CURSOR)

    assert (receipt.events, receipt.rejected) == (40, ())
    for relation in relations:
        committed(config.kafka.bootstrap, f"{config.pipeline}.public.{relation.name}", 1)


def test_whatever_stands_in_frames_arrives_as_the_reference_says(config, start) -> None:
    """Names, types and values that no sane source has, all into one topic."""
    sink = start(topic=ONE_TOPIC)._sink
    expected: list[tuple[bytes | None, bytes]] = []

    @settings(max_examples=40, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    @given(frames())
    def write(frame: Frame) -> None:
        try:
            made = expected_of(frame, config.pipeline)
        except DecodeError:
            with pytest.raises(DecodeError):
                sink.write(frame, BEGINNING)
            return
        receipt = sink.write(frame, BEGINNING)
        assert receipt.events == len(made)
        assert receipt.bytes == sum(len(value) for _, value in made)
        expected.extend(made)

    write()
    sink.commit(CURSOR)

    assert said(committed(config.kafka.bootstrap, f"{config.pipeline}.all", len(expected))) == expected


def expected_of(frame: Frame, pipeline: str) -> list[tuple[bytes | None, bytes]]:
    return reference.encode(frame, lambda *_: "all", pipeline).of_topic("all")


def whole(log: RawLog) -> Iterator[Frame]:
    """With the parts re-joined."""
    body = b""
    for each in map(decode_frame, log.frames[1:]):
        if each.header.parts:
            body += each.body
            if each.header.part < each.header.parts:
                continue
        yield Frame(each.header, each.schema, body or each.body)
        body = b""


def partition_of(key: bytes) -> int:
    return (murmur2(key) & 0x7FFFFFFF) % PARTITIONS


def murmur2(key: bytes) -> int:
    """org.apache.kafka.common.utils.Utils.murmur2"""
    mask, m = 0xFFFFFFFF, 0x5BD1E995
    h = 0x9747B28C ^ len(key)
    for at in range(0, len(key) - 3, 4):
        k = int.from_bytes(key[at : at + 4], "little") * m & mask
        k = (k ^ k >> 24) * m & mask
        h = (h * m & mask) ^ k
    rest = key[len(key) & ~3 :]
    if rest:
        h = (h ^ int.from_bytes(rest, "little")) * m & mask
    h = (h ^ h >> 13) * m & mask
    return h ^ h >> 15
