"""The way to each pipeline's servers: connections that requests share, opened when first needed.

Invariant: whatever is opened here ends with `running`; a server that does not answer fails the request that needs it
and no other.
"""

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import redis
import redis.asyncio

from tidegate.checkpoint.connect import connect_async
from tidegate.config.pipeline import PipelineConfig
from tidegate.contracts import names
from tidegate.errors import ConfigError, TransientError
from tidegate.observability import logs
from tidegate_admin.config import AdminSettings
from tidegate_admin.dead_letters.keeper import Keeper
from tidegate_admin.events.stream import Tail
from tidegate_admin.frames.raw import TopicReader
from tidegate_admin.frames.search import Known
from tidegate_admin.searches.service import Searches
from tidegate_admin.source.session import Sessions

AUDIT_KEPT = 10_000

_log = logs.get("access")


class PipelineAccess:
    def __init__(self, config: PipelineConfig) -> None:
        self.config = config
        self._letters: Keeper | None = None
        self.sessions = Sessions(config.source)
        self.raw = TopicReader(config, config.raw_topic.name)
        self.known = Known()
        """Of the raw topic."""
        self.tail = Tail(TopicReader(config, config.raw_topic.name))
        """With a client of its own: it would keep others waiting."""
        self.searches = Searches(config.pipeline)
        self._redis: redis.asyncio.Redis | None = None

    @property
    def redis(self) -> redis.asyncio.Redis:
        if self._redis is None:
            self._redis = connect_async(self.config.redis)
        return self._redis

    @property
    def letters(self) -> Keeper:
        if self._letters is None:
            raise TransientError("the index is not open yet", code="INDEX_NOT_OPEN", remedy="Ask again in a moment.")
        return self._letters

    def start(self, folder: Path) -> None:
        self._letters = Keeper(self.config, folder)
        self._letters.start()

    def has_sink(self, name: str) -> bool:
        return any(sink.name == name for sink in self.config.sinks)

    async def leave_raw_topic(self) -> None:
        """Before it is deleted: a client that goes on asking for it may have the brokers make it again."""
        await self.tail.close()
        await self.tail.topic.close()
        await self.raw.close()
        self.known = Known()

    async def close(self) -> None:
        if self._letters is not None:
            await self._letters.close()
        await self.sessions.close()
        await self.searches.close()
        await self.leave_raw_topic()
        client, self._redis = self._redis, None
        if client is not None:
            await client.aclose()


class Access:
    def __init__(self, settings: AdminSettings) -> None:
        self._settings = settings
        self._of = {config.pipeline: PipelineAccess(config) for config in settings.pipelines}

    def follow(self, config: PipelineConfig) -> None:
        """By this one from now on; its servers are the same."""
        self._of[config.pipeline].config = config

    def of(self, pipeline: str) -> PipelineAccess:
        return self._of[pipeline]

    async def keep(self, pipeline: str, entry: bytes) -> None:
        """The list of changes is for looking: where Redis does not answer, the log alone has it."""
        if pipeline not in self._of:
            return
        try:
            await self._of[pipeline].redis.xadd(
                names.audit_key(pipeline), {"entry": entry}, maxlen=AUDIT_KEPT, approximate=True
            )
        except (redis.RedisError, OSError, ConfigError) as error:
            _log.failure("audit_not_listed", error, pipeline=pipeline)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            folder = self._settings.state
            if folder is None:
                folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tidegate-admin-")))
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            stack.push_async_callback(self._close)
            for access in self._of.values():
                access.start(folder)
            yield

    async def _close(self) -> None:
        """All at once: each may have to wait for a broker."""
        async with asyncio.TaskGroup() as closing:
            for access in self._of.values():
                closing.create_task(access.close(), name=f"close {access.config.pipeline}")
