"""One look at a pipeline: what its reader and lanes say of themselves, and what is acked, read from Redis.

Invariant: only reads. What cannot be read is absent and its reason is there; an answer is never half of two looks
without saying so: acks are read last, so a lane seems at most further than the reader, never behind it by the delay.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

import redis
import redis.asyncio

from tidegate.checkpoint.connect import connect_async
from tidegate.checkpoint.redis_store import read_acks
from tidegate.config.pipeline import PipelineConfig
from tidegate.contracts import names
from tidegate.contracts.ack import Ack
from tidegate.contracts.status import LaneStatus, ReaderStatus
from tidegate.errors import ConfigError, DecodeError, TransientError
from tidegate_admin.slots.service import SlotView

DEADLINE_SECONDS = 2.0
_AT_ONCE = 16
"""Statuses: between half milliseconds others are answered."""

S = TypeVar("S", ReaderStatus, LaneStatus)


@dataclass(frozen=True, slots=True)
class Statuses:
    """What Redis holds about one pipeline."""

    reader: ReaderStatus | None = None
    lanes: Mapping[str, LaneStatus] = field(default_factory=dict)
    acks: Mapping[str, Ack] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Unavailable:
    """A part that did not answer."""

    code: str
    reason: str


@dataclass(frozen=True, slots=True)
class Observation:
    time: int
    """Unix microseconds."""
    statuses: Statuses | Unavailable
    slot: SlotView | Unavailable
    wrong_settings: int | None = None
    """Of the raw topic, as of the last time that Kafka could be asked."""


class StatusReader:
    """Owns one connection; a question that is cut off drops it, because its late answer would go to the next one."""

    def __init__(self, config: PipelineConfig) -> None:
        self._config = config
        self._client: redis.asyncio.Redis | None = None

    async def read(self) -> Statuses:
        try:
            async with asyncio.timeout(DEADLINE_SECONDS):
                return await self._ask()
        except (redis.RedisError, OSError, TimeoutError, TransientError, ConfigError) as error:
            await self.close()
            raise TransientError(
                f"Redis did not answer for the statuses: {type(error).__name__}",
                code="STATUS_STORE_UNAVAILABLE",
                remedy="Check that Redis is up and reachable; acks come late meanwhile, nothing is lost.",
            ) from error

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def _ask(self) -> Statuses:
        client = self._client = self._client or connect_async(self._config.redis)
        pipeline, sinks = self._config.pipeline, [sink.name for sink in self._config.sinks]
        keys = [names.reader_status_key(pipeline), *(names.lane_status_key(pipeline, sink) for sink in sinks)]
        reader_value, *lane_values = await client.mget(keys)
        reader = _decoded(ReaderStatus, reader_value)
        lanes: dict[str, LaneStatus] = {}
        for at, (sink, value) in enumerate(zip(sinks, lane_values, strict=True), 1):
            lane = _decoded(LaneStatus, value)
            if lane is not None:
                lanes[sink] = lane
            if at % _AT_ONCE == 0:
                await asyncio.sleep(0)
        generation = reader.generation if reader else ""
        acks = await read_acks(client, pipeline, generation) if generation else {}
        return Statuses(reader, lanes, acks)


def _decoded(kind: type[S], value: bytes | str | None) -> S | None:
    """One that is malformed counts as absent: its writer is of another version, and its silence will be seen."""
    try:
        return kind.decode(value) if isinstance(value, bytes) else None
    except DecodeError:
        return None
