"""One look at a pipeline: what its reader and lanes say of themselves, and what is acked, read from Redis.

Invariant: only reads. What cannot be read is absent and its reason is there; an answer is never half of two looks
without saying so: acks are read last, so a lane seems at most further than the reader, never behind it by the delay.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import redis
import redis.asyncio

from tidegate.checkpoint.connect import connect_async
from tidegate.config.pipeline import PipelineConfig
from tidegate.contracts import names
from tidegate.contracts.ack import Ack, decode_ack
from tidegate.contracts.lineage import Lineage, decode_lineage
from tidegate.contracts.status import LaneStatus, ReaderStatus
from tidegate.errors import ConfigError, DecodeError, TransientError
from tidegate_admin.slots.service import SlotView
from tidegate_admin.store import answered

DEADLINE_SECONDS = 2.0
_AT_ONCE = 16
"""Statuses: between half milliseconds others are answered."""

Read = TypeVar("Read")


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


class _Values(Generic[Read]):
    """Of one kind, by lane: read again only where the bytes are others."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[bytes, Read | None]] = {}

    def read(self, name: str, value: object, decode: Callable[[bytes], Read]) -> Read | None:
        """One that is malformed counts as absent: its writer is of another version, and its silence will be seen."""
        if not isinstance(value, bytes):
            return None
        known = self._known.get(name)
        if known is None or known[0] != value:
            try:
                known = (value, decode(value))
            except DecodeError:
                known = (value, None)
            self._known[name] = known
        return known[1]


class StatusReader:
    """Owns one connection; a question that is cut off drops it, because its late answer would go to the next one."""

    def __init__(self, config: PipelineConfig) -> None:
        self._config = config
        self._client: redis.asyncio.Redis | None = None
        self._readers: _Values[ReaderStatus] = _Values()
        self._lanes: _Values[LaneStatus] = _Values()
        self._lineages: _Values[Lineage] = _Values()
        self._generation = ""
        self._acks: _Values[Ack] = _Values()
        """Of that generation: what is an ack in one is none in another."""

    def follow(self, config: PipelineConfig) -> None:
        self._config = config

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
        keys = [names.reader_status_key(pipeline), names.lineage_key(pipeline)]
        keys += [names.lane_status_key(pipeline, sink) for sink in sinks]
        reader_value, lineage_value, *lane_values = await client.mget(keys)
        reader = self._readers.read("", reader_value, ReaderStatus.decode)
        lanes = await _each(sinks, lane_values, lambda sink, value: self._lanes.read(sink, value, LaneStatus.decode))
        lineage = self._lineages.read("", lineage_value, decode_lineage)
        # A reader that failed at its start has not said where: acks are then of where the one before it worked.
        generation = (reader.generation if reader else "") or (lineage.generation.id if lineage else "")
        if not generation or not sinks:
            return Statuses(reader, lanes)
        if generation != self._generation:
            self._generation, self._acks = generation, _Values()
        ack_values = await answered(client.hmget(names.ack_key(pipeline, generation), sinks))

        def ack(sink: str, value: object) -> Ack | None:
            return self._acks.read(sink, value, lambda found: decode_ack(found, sink=sink, generation=generation))

        return Statuses(reader, lanes, await _each(sinks, ack_values, ack))


async def _each(
    sinks: Sequence[str], values: Sequence[object], read: Callable[[str, object], Read | None]
) -> dict[str, Read]:
    """By sink, those that can be read. Not all in one go."""
    found: dict[str, Read] = {}
    for at, (sink, value) in enumerate(zip(sinks, values, strict=True), 1):
        one = read(sink, value)
        if one is not None:
            found[sink] = one
        if at % _AT_ONCE == 0:
            await asyncio.sleep(0)
    return found
