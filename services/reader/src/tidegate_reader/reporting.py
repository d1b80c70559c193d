"""Says every second how the reader is: its status and lineage in Redis, its numbers as metrics, its health.

Invariant: a report that fails changes nothing about delivery; it is tried again a second later.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

import redis
import redis.asyncio

from tidegate.checkpoint.connect import connect_async
from tidegate.contracts.lineage import Lineage
from tidegate.contracts.names import lineage_key, reader_status_key
from tidegate.observability import logs
from tidegate_reader.cancellation import raise_if_cancelled
from tidegate_reader.progress import Progress

if TYPE_CHECKING:
    from tidegate.config.redis import RedisConfig

REPORT_SECONDS = 1.0
WRITE_SECONDS = 1.0


class Reporter:
    """Owns one connection; a write that is cut off drops it."""

    def __init__(self, config: RedisConfig, progress: Progress) -> None:
        self._config, self._progress = config, progress
        self._client: redis.asyncio.Redis | None = None
        self.lineage: Callable[[], Lineage] | None = None
        """Said with each report, for a Redis that has been emptied."""
        self._is_told = False
        self._due = asyncio.Event()
        self._writing = asyncio.Lock()

    async def run(self) -> None:
        while True:
            self._due.clear()
            await self.report()
            with suppress(TimeoutError):
                async with asyncio.timeout(REPORT_SECONDS):
                    await self._due.wait()

    def hurry(self) -> None:
        """What has just changed is worth knowing at once."""
        self._due.set()

    async def report(self) -> bool:
        """Whether Redis has it. No report of before comes in behind this one."""
        async with self._writing:
            return await self._report()

    async def _report(self) -> bool:
        values = {reader_status_key(self._progress.pipeline): self._progress.status().encode()}
        if self.lineage is not None:
            values[lineage_key(self._progress.pipeline)] = self.lineage().encode()
        return await self._set(values)

    async def close(self) -> None:
        if self._client is not None:
            client, self._client = self._client, None
            await client.aclose()

    async def _set(self, values: Mapping[str, bytes]) -> bool:
        self._client = self._client or connect_async(self._config)
        try:
            async with asyncio.timeout(WRITE_SECONDS):
                await self._client.mset(values)
        except (redis.RedisError, OSError, TimeoutError) as error:
            await self.close()
            self._tell(type(error).__name__)
            return False
        finally:
            raise_if_cancelled()
        self._is_told = False
        return True

    def _tell(self, error: str) -> None:
        """Once, until it works again: a user without the right to write would else never be noticed."""
        if not self._is_told:
            self._is_told = True
            logs.get("reader").warning("status_unwritten", error=error)
