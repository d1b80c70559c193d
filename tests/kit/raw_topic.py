"""What the reader's tests ask of the raw topic and of its broker: the log as an independent judge reads it."""

import asyncio
import re
import urllib.request
from dataclasses import dataclass
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, RecordsToDelete

from tidegate.contracts.frame import Frame, FrameKind, body_messages, decode_frame
from tidegate.pgoutput.decode import decode_message
from tidegate.pgoutput.messages import Insert, Message


@dataclass(frozen=True)
class Record:
    offset: int
    frame: Frame


async def read_topic(bootstrap: str, topic: str) -> list[Record]:
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False)
    partition = TopicPartition(topic, 0)
    await consumer.start()
    try:
        consumer.assign([partition])
        at = (await consumer.beginning_offsets([partition]))[partition]
        end = (await consumer.end_offsets([partition]))[partition]
        consumer.seek(partition, at)
        records: list[Record] = []
        while at < end:
            batch = (await consumer.getmany(partition, timeout_ms=1000)).get(partition, ())
            records += [Record(each.offset, decode_frame(each.value)) for each in batch]
            at = records[-1].offset + 1 if records else at
        return records
    finally:
        await consumer.stop()


def valid(records: list[Record]) -> list[Record]:
    """By the words of the format: an epoch frame counts if its number is the highest yet, and voids the older epochs;
    within an epoch a seq counts if it is the next one, and the first that is not voids what follows."""
    number, nonce, seq = 0, b"", 0
    has_hole = False
    kept = []
    for record in records:
        header = record.frame.header
        if header.kind is FrameKind.EPOCH and header.epoch > number:
            number, nonce, seq, has_hole = header.epoch, header.epoch_nonce, 0, False
            kept.append(record)
        elif (header.epoch, header.epoch_nonce) == (number, nonce):
            has_hole = has_hole or header.seq != seq + 1
            if not has_hole:
                seq += 1
                kept.append(record)
    return kept


def messages_of(frames: list[Frame]) -> list[Message]:
    """Of all `wal` frames, parts re-joined; a group that an epoch cut off was never said."""
    messages: list[Message] = []
    group: list[bytes] = []
    for frame in frames:
        header = frame.header
        if header.kind is not FrameKind.WAL:
            group = []
            continue
        group = [*group, frame.body] if header.part > 1 else [frame.body]
        if header.part == header.parts:
            whole = Frame(header, frame.schema, b"".join(group))
            messages += [decode_message(message) for _, message in body_messages(whole)]
    return messages


def inserted(fleet: Any) -> list[str]:
    """The second column of every inserted row, in order, by the words of the format."""
    return [each.new[1].decode() for each in fleet.messages() if isinstance(each, Insert)]


def trim(fleet: Any, upto: int | None = None) -> int:
    """As retention does; but for the last record if nothing else is said."""
    cut: int = fleet.records()[-1].offset if upto is None else upto
    administer(fleet.bootstrap, "delete_records", {TopicPartition(fleet.topic, 0): RecordsToDelete(cut)})
    return cut


def known_beginning(port: int) -> int:
    """Where the raw topic begins, as the running reader knows it."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        [value] = re.findall(r"^tidegate_reader_raw_beginning_offset\S* (\S+)$", answer.read().decode(), re.MULTILINE)
    return int(float(value))


def administer(bootstrap: str, call: str, argument: object) -> None:
    """One call of Kafka's admin client."""
    asyncio.run(_administer(bootstrap, call, argument))


async def _administer(bootstrap: str, call: str, argument: object) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        await admin.start()
        await getattr(admin, call)(argument)
    finally:
        await admin.close()
