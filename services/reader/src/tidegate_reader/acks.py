"""Acks from Redis, by subscription and by poll: the poll is the truth, the subscription only makes it prompt.

Invariant: each way has a connection of its own that is dropped when its task ends, because a reply left in a connection
would answer the next question. Redis being away means that acks come late, nothing else.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import TypeVar

import redis
import redis.asyncio

from tidegate.checkpoint.connect import connect_async
from tidegate.checkpoint.redis_store import read_acks, read_lineage_async, write_lineage_async
from tidegate.contracts.ack import Ack
from tidegate.contracts.lineage import Lineage
from tidegate.contracts.names import ack_channel
from tidegate.errors import TransientError
from tidegate.failpoints import Failpoint, reach
from tidegate_reader.cancellation import raise_if_cancelled
from tidegate_reader.surroundings import Surroundings

Read = TypeVar("Read")

POLL_SECONDS = 1.0
READ_SECONDS = 5.0
_RECONNECT_SECONDS = 1.0


class AckWatch:
    def __init__(self, around: Surroundings, generation: str, on_acks: Callable[[Mapping[str, Ack]], None]) -> None:
        self._around, self._generation = around, generation
        self._redis, self._pipeline = around.config.redis, around.config.pipeline
        self._on_acks = on_acks
        self._news = asyncio.Event()
        self._is_reachable = True

    async def poll(self) -> None:
        """Reads at every publication and at least once a second."""
        while True:
            self._news.clear()
            await self._read_until_it_fails()
            await asyncio.sleep(_RECONNECT_SECONDS)

    async def subscribe(self) -> None:
        while True:
            async with connect_async(self._redis) as client:
                # The poll goes on meanwhile, and says that Redis is away.
                with suppress(redis.RedisError, OSError, TimeoutError):
                    await self._listen(client)
            raise_if_cancelled()
            await asyncio.sleep(_RECONNECT_SECONDS)

    async def _read_until_it_fails(self) -> None:
        async with connect_async(self._redis) as client:
            while True:
                try:
                    acks = await read_now(client, self._pipeline, self._generation)
                except TransientError as error:
                    self._unreadable(error)
                    return
                self._readable()
                reach(Failpoint.READER_ACKS_READ)
                self._on_acks(acks)
                await self._wait_for_news()

    async def _wait_for_news(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(POLL_SECONDS):
                await self._news.wait()
        self._news.clear()

    async def _listen(self, client: redis.asyncio.Redis) -> None:
        async with client.pubsub(ignore_subscribe_messages=True) as channel:
            await channel.subscribe(ack_channel(self._pipeline, self._generation))
            while True:
                if await channel.get_message(timeout=POLL_SECONDS * 3) is not None:
                    self._news.set()
                raise_if_cancelled()

    def _unreadable(self, error: TransientError) -> None:
        if self._is_reachable:
            self._is_reachable = False
            self._around.health.degraded("acks", "Redis does not answer: nothing is confirmed")
            self._around.log.warning("acks_unreadable", code=error.code)

    def _readable(self) -> None:
        if not self._is_reachable:
            self._is_reachable = True
            self._around.health.up("acks")
            self._around.log.info("acks_readable_again")


async def read_now(client: redis.asyncio.Redis, pipeline: str, generation: str) -> dict[str, Ack]:
    return await _in_time(read_acks(client, pipeline, generation))


async def lineage_now(client: redis.asyncio.Redis, pipeline: str) -> Lineage | None:
    return await _in_time(read_lineage_async(client, pipeline))


async def say_lineage(client: redis.asyncio.Redis, pipeline: str, lineage: Lineage) -> None:
    await _in_time(write_lineage_async(client, pipeline, lineage))


async def _in_time(reading: Awaitable[Read]) -> Read:
    try:
        async with asyncio.timeout(READ_SECONDS):
            read = await reading
    except (TimeoutError, OSError) as error:
        raise TransientError(
            "Redis did not answer in time",
            code="ACK_STORE_UNAVAILABLE",
            remedy="Check that Redis is up and reachable; nothing is confirmed meanwhile.",
        ) from error
    raise_if_cancelled()
    return read
