"""A frame is missing before another of the same epoch: brokers lost one that they had answered, and kept a later one.

The producer's own numbering prevents it as long as brokers keep their word, so the frame that "came later" is written
here: it says that the stream has passed all that stands in the WAL, which the missing ones would have brought.
Invariant: nobody may believe it; the next epoch sends what was missing.
"""

import random
from dataclasses import replace

from chaos.fleet.faults import flow
from chaos.fleet.field import Field
from confluent_kafka import Consumer, TopicPartition
from kit.topics import append
from kit.wait import wait

from tidegate.contracts import names
from tidegate.contracts.frame import FrameKind, decode_header, encode_frame
from tidegate.lsn import parse_lsn
from tidegate.position import Position

_FRAMES_LOST = 1000
"""More than the frozen reader can have under way, so that it stays a hole."""
_CALL_SECONDS = 20.0


def frame_missing(field: Field, draw: random.Random) -> None:
    bootstrap, raw = field.servers.kafka.bootstrap, names.raw_topic(field.pipeline)
    flow(field, draw)
    field.reader.freeze()
    flow(field, draw)
    newest = decode_header(_newest(bootstrap, raw))
    reached = parse_lsn(field.rig.sql("SELECT pg_current_wal_lsn()::text")[0][0])
    there = Position(reached, 0)
    behind_the_hole = replace(
        newest,
        kind=FrameKind.WAL,
        seq=newest.seq + _FRAMES_LOST,
        first=there,
        last=there,
        safe_lsn=reached,
        messages=0,
        changes=0,
        part=0,
        parts=0,
        open_transaction=None,
    )
    append(bootstrap, raw, [encode_frame(behind_the_hole)])
    flow(field, draw)
    field.reader.thaw()
    flow(field, draw)


def _newest(bootstrap: str, topic: str) -> bytes:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": f"newest-of-{topic}", "enable.auto.commit": False})
    try:
        _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=_CALL_SECONDS)
        consumer.assign([TopicPartition(topic, 0, end - 1)])
        message = wait(lambda: consumer.poll(0.2), _CALL_SECONDS, "the newest frame is read")
        return bytes(message.value() or b"")
    finally:
        consumer.close()
