"""A gap is LOST, and that is final; so it is believed only when nobody can have more than Redis says.

| the slot starts | believed |
| --- | --- |
| beyond the end of the raw topic | after lanes had the time to say again what they have |
| elsewhere | if, after that time, the lane of every required sink is up and has spoken; until then: start again |

Redis may have been restored, or emptied: a lane republishes its ack every 5 s, and one that starts does so at once.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import redis

from tidegate.checkpoint.connect import connect_async
from tidegate.clock import unix_microseconds
from tidegate.contracts.ack import Ack
from tidegate.contracts.generation import Generation
from tidegate.contracts.names import lane_status_key
from tidegate.contracts.status import LaneStatus, State
from tidegate.errors import DecodeError, StreamError, TransientError
from tidegate_reader.acks import READ_SECONDS, read_now
from tidegate_reader.resume import GAP_LOST, Plan

if TYPE_CHECKING:
    from tidegate.config.pipeline import PipelineConfig

_SPOKEN_SECONDS = 10.0
_LOOK_SECONDS = 1.0


async def decided(
    config: PipelineConfig,
    generation: Generation,
    decide: Callable[[Mapping[str, Ack]], Plan],
    acks: Mapping[str, Ack],
    *,
    is_beyond_the_log: bool,
) -> tuple[Plan, Mapping[str, Ack]]:
    believed_at = time.monotonic() + config.reader.gap_wait.total_seconds()
    while True:
        try:
            return decide(acks), acks
        except StreamError as error:
            if error.code != GAP_LOST:
                raise
            if time.monotonic() >= believed_at:
                if is_beyond_the_log or await lanes_have_spoken(config):
                    raise
                raise _unsure(error) from error
        await pause(_LOOK_SECONDS)
        acks = await read_acks_now(config, generation)


async def acks_of_all(config: PipelineConfig, generation: Generation) -> Mapping[str, Ack]:
    """Where it matters that none is missing: of a sink that has never acked, this is a wait for nothing."""
    sinks = {sink.name for sink in config.sinks}
    believed_at = time.monotonic() + config.reader.gap_wait.total_seconds()
    while True:
        acks = await read_acks_now(config, generation)
        if sinks <= acks.keys() or time.monotonic() >= believed_at:
            return acks
        await pause(_LOOK_SECONDS)


async def pause(seconds: float) -> None:
    """Nobody tells when a lane republishes."""
    await asyncio.sleep(seconds)


async def read_acks_now(config: PipelineConfig, generation: Generation) -> dict[str, Ack]:
    async with connect_async(config.redis) as client:
        return await read_now(client, config.pipeline, generation.id)


async def lanes_have_spoken(config: PipelineConfig) -> bool:
    """Whether every required sink's lane runs, and has for long enough to have republished its ack."""
    keys = [lane_status_key(config.pipeline, sink) for sink in config.required_sinks]
    async with connect_async(config.redis) as client:
        try:
            async with asyncio.timeout(READ_SECONDS):
                values = await client.mget(keys) if keys else []
        except (redis.RedisError, OSError, TimeoutError):
            return False
    return all(_has_spoken(value) for value in values)


def _has_spoken(value: object) -> bool:
    try:
        status = LaneStatus.decode(value) if isinstance(value, bytes) else None
    except DecodeError:
        return False
    if status is None or status.state is not State.RUNNING or status.is_stale(unix_microseconds()):
        return False
    return status.time - status.started >= _SPOKEN_SECONDS * 1e6


def _unsure(error: StreamError) -> TransientError:
    return TransientError(
        f"{error.message}; but a lane that would know better is not up",
        code="GAP_UNSURE",
        remedy="Start the processor: within seconds its lanes say what they have. If that is no more than Redis says, "
        "the reader ends with GAP_LOST.",
    )
