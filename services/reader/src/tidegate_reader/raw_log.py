"""Reads the end and the beginning of the raw topic, once, when a reader starts.

Invariant: what is read reaches to the end as the broker gave it before the first record was asked for.
"""

import asyncio
from dataclasses import dataclass
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError

from tidegate.config.kafka import KafkaConfig
from tidegate.contracts.frame import FrameHeader, decode_header
from tidegate.errors import StreamError, TransientError
from tidegate.kafka_client import client_options
from tidegate_reader.raw_topic import unavailable
from tidegate_reader.tail import Tail, find_tail

READ_SECONDS = 30.0
WINDOW = 256
"""Records from the end. A writer that was fenced has at most 64 frames under way, so this sees past several of them."""


@dataclass(frozen=True, slots=True)
class RawLog:
    """The raw topic as a starting reader finds it."""

    beginning: int
    end: int
    """The offset that the next record gets."""
    first: FrameHeader | None
    tail: Tail | None


async def read_raw_log(kafka: KafkaConfig, topic: str) -> RawLog:
    consumer = AIOKafkaConsumer(
        **client_options(kafka), enable_auto_commit=False, max_partition_fetch_bytes=2**20, auto_offset_reset="none"
    )
    partition = TopicPartition(topic, 0)
    try:
        async with asyncio.timeout(READ_SECONDS):
            await consumer.start()
            consumer.assign([partition])
            return await _read(consumer, partition)
    except KafkaError as error:
        raise unavailable(error) from error
    except TimeoutError:
        raise TransientError(
            "the end of the raw topic could not be read in time",
            code="RAW_TOPIC_UNREADABLE",
            remedy="Check the brokers; the reader tries again.",
        ) from None
    finally:
        await consumer.stop()


async def _read(consumer: Any, partition: TopicPartition) -> RawLog:  # aiokafka is not typed
    beginning = (await consumer.beginning_offsets([partition]))[partition]
    end = (await consumer.end_offsets([partition]))[partition]
    if beginning == end:
        return RawLog(beginning, end, None, None)
    start = max(beginning, end - WINDOW)
    headers = await _headers(consumer, partition, start, end)
    first = headers[0] if start == beginning else (await _headers(consumer, partition, beginning, beginning + 1))[0]
    tail = find_tail(headers, window_start=start)
    if tail is not None and beginning <= tail.epoch_offset < start:
        await _check_epoch_frame(consumer, partition, tail)
    return RawLog(beginning, end, first[1], tail)


async def _headers(consumer: Any, partition: TopicPartition, start: int, end: int) -> list[tuple[int, FrameHeader]]:
    consumer.seek(partition, start)
    headers: list[tuple[int, FrameHeader]] = []
    while not headers or headers[-1][0] < end - 1:
        records = (await consumer.getmany(partition, timeout_ms=1000, max_records=WINDOW)).get(partition, ())
        headers += [(each.offset, decode_header(each.value)) for each in records if each.offset < end]
    return headers


async def _check_epoch_frame(consumer: Any, partition: TopicPartition, tail: Tail) -> None:
    """The newest epoch is only believed if the frame it points to says so too."""
    [(_, header)] = await _headers(consumer, partition, tail.epoch_offset, tail.epoch_offset + 1)
    if (header.epoch, header.epoch_nonce) != (tail.number, tail.nonce):
        raise StreamError(
            "the raw topic's newest frames point to an epoch frame that is not theirs",
            code="RAW_TOPIC_FOREIGN",
            remedy="Somebody else writes into the raw topic. Find the writer, then decide which log is right.",
        )
