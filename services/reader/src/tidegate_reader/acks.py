"""Acks from Redis, by subscription and by poll: the poll is the truth, the subscription only makes it prompt.

Invariant: each way has a connection of its own that is dropped when its task ends, because a reply left in a connection
would answer the next question. Redis being away means that acks come late, nothing else.
"""

import asyncio
import time
from collections.abc import Callable, Mapping

import redis
import redis.asyncio

from tidegate.checkpoint.connect import connect_async
from tidegate.checkpoint.redis_store import read_acks
from tidegate.config.redis import RedisConfig
from tidegate.contracts.ack import Ack
from tidegate.contracts.names import ack_channel
from tidegate.errors import TransientError
from tidegate.observability.logs import Log

POLL_SECONDS = 1.0
READ_SECONDS = 5.0
_RECONNECT_SECONDS = 1.0


class AckWatch:
    def __init__(
        self,
        config: RedisConfig,
        pipeline: str,
        generation: str,
        on_acks: Callable[[Mapping[str, Ack]], None],
        log: Log,
    ) -> None:
        self._config, self._pipeline, self._generation = config, pipeline, generation
        self._on_acks, self._log = on_acks, log
        self._news = asyncio.Event()
        self.is_reachable = True
        self.last_read = time.monotonic()

    async def poll(self) -> None:
        """Reads at every publication and at least once a second."""
        while True:
            self._news.clear()
            await self._read_until_it_fails()
            await asyncio.sleep(_RECONNECT_SECONDS)

    async def subscribe(self) -> None:
        while True:
            async with connect_async(self._config) as client:
                try:
                    await self._listen(client)
                except (redis.RedisError, OSError, TimeoutError):
                    pass  # The poll goes on, and says that Redis is away.
            await asyncio.sleep(_RECONNECT_SECONDS)

    async def _read_until_it_fails(self) -> None:
        async with connect_async(self._config) as client:
            while True:
                try:
                    acks = await read_now(client, self._pipeline, self._generation)
                except TransientError as error:
                    self._note_reachable(False, error)
                    return
                self._note_reachable(True, None)
                self._on_acks(acks)
                await self._wait_for_news()

    async def _wait_for_news(self) -> None:
        try:
            async with asyncio.timeout(POLL_SECONDS):
                await self._news.wait()
        except TimeoutError:
            pass
        self._news.clear()

    async def _listen(self, client: redis.asyncio.Redis) -> None:
        async with client.pubsub(ignore_subscribe_messages=True) as channel:
            await channel.subscribe(ack_channel(self._pipeline, self._generation))
            while True:
                if await channel.get_message(timeout=POLL_SECONDS * 3) is not None:
                    self._news.set()

    def _note_reachable(self, reachable: bool, error: TransientError | None) -> None:
        if reachable:
            self.last_read = time.monotonic()
        if reachable != self.is_reachable:
            self.is_reachable = reachable
            event = "acks_readable_again" if reachable else "acks_unreadable"
            self._log.warning(event, code=error.code if error else "")


async def read_now(client: redis.asyncio.Redis, pipeline: str, generation: str) -> dict[str, Ack]:
    try:
        async with asyncio.timeout(READ_SECONDS):
            return await read_acks(client, pipeline, generation)
    except (TimeoutError, OSError) as error:
        raise TransientError(
            "Redis did not answer for the acks in time",
            code="ACK_STORE_UNAVAILABLE",
            remedy="Check that Redis is up and reachable; nothing is confirmed meanwhile.",
        ) from error
