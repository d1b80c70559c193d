"""Reads the raw topic at any offset, for people: one client for all who ask, one question at a time.

Invariant: a question ends within its deadline, reads at most what it names, and a client that failed or was cut off is
dropped, because its late answer would go to the next one.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError

from tidegate.config.pipeline import PipelineConfig
from tidegate.errors import ConfigError, TransientError
from tidegate.kafka_client import client_options
from tidegate_admin.errors import ApiError

SECONDS = 10.0
_LOOK_BYTES = 2**17
"""For a look at some frames. The broker gives a whole batch however large it is; more than that is not asked for."""
_FOLLOW_BYTES = 2**20
_LOOK_MS = 100
_FOLLOW_MS = 1_000
"""So long the broker waits for a record that is not there: who follows a topic is told at once when there is one."""


@dataclass(frozen=True, slots=True)
class Record:
    offset: int
    time: int
    """Unix milliseconds, as the broker has it."""
    key: bytes | None
    value: bytes


@dataclass(frozen=True, slots=True)
class Bounds:
    beginning: int
    end: int
    """The offset that the next record gets."""


class TopicReader:
    """Of a topic's first partition. `follows`: it reads on and on, instead of here and there."""

    def __init__(self, config: PipelineConfig, topic: str, *, committed: bool = False, follows: bool = False) -> None:
        self._config = config
        self._fetch_bytes, self._wait_ms = (_FOLLOW_BYTES, _FOLLOW_MS) if follows else (_LOOK_BYTES, _LOOK_MS)
        self._isolation = "read_committed" if committed else "read_uncommitted"
        self._place = TopicPartition(topic, 0)
        self._lock = asyncio.Lock()
        self._consumer: Any = None  # aiokafka is not typed

    async def bounds(self) -> Bounds:
        async with self._asking() as consumer:
            first, end = await asyncio.gather(
                consumer.beginning_offsets([self._place]), consumer.end_offsets([self._place])
            )
            return Bounds(first[self._place], end[self._place])

    async def read(self, offset: int, count: int, *, wait_seconds: float = 2.0) -> list[Record]:
        """From `offset` on, at most `count`; fewer where the topic ends or a fetch does, none after `wait_seconds`."""
        async with self._asking() as consumer:
            consumer.seek(self._place, offset)
            consumer.resume(self._place)
            found = await consumer.getmany(self._place, timeout_ms=int(wait_seconds * 1000), max_records=count)
            consumer.pause(self._place)
        return [Record(each.offset, each.timestamp, each.key, each.value or b"") for each in found.get(self._place, ())]

    async def close(self) -> None:
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            await consumer.stop()

    @asynccontextmanager
    async def _asking(self) -> AsyncIterator[Any]:
        try:
            async with asyncio.timeout(SECONDS), self._lock:
                try:
                    yield await self._opened()
                except BaseException:
                    await self.close()
                    raise
        except (KafkaError, OSError, TimeoutError, ConfigError) as error:
            raise unavailable(error) from error

    async def _opened(self) -> Any:
        if self._consumer is None:
            consumer = AIOKafkaConsumer(
                **client_options(self._config.kafka),
                enable_auto_commit=False,
                auto_offset_reset="none",
                isolation_level=self._isolation,
                max_partition_fetch_bytes=self._fetch_bytes,
                fetch_max_wait_ms=self._wait_ms,
            )
            try:
                await consumer.start()
                if self._place.topic not in await consumer.topics():
                    raise _missing(self._place.topic)
                consumer.assign([self._place])
                consumer.pause(self._place)
            except BaseException:
                await consumer.stop()
                raise
            self._consumer = consumer
        return self._consumer


def unavailable(error: BaseException) -> TransientError:
    return TransientError(
        f"Kafka did not answer: {type(error).__name__}",
        code="LOG_UNAVAILABLE",
        remedy="Check the brokers; delivery does not depend on this.",
    )


def _missing(topic: str) -> ApiError:
    return ApiError(
        HTTPStatus.NOT_FOUND,
        f"there is no topic {topic}",
        code="TOPIC_MISSING",
        remedy="Its first writer makes it: start the reader, or wait for the first dead letter.",
    )
