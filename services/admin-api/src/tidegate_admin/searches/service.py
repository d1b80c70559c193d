"""Searches the log for a row by its key: a job, since every frame of the span is looked at.

The job runs in the instance that was asked; its progress is in Redis, so that any instance can tell it. What was
searched for is row data and stays in the instance; what is found is positions and offsets.

Invariant: at most `AT_ONCE` run, each yields between frames, and one that nobody runs any more is told as lost.
"""

import asyncio
import json
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import redis
import redis.asyncio

from tidegate.clock import unix_microseconds
from tidegate.contracts.frame import FrameKind, decode_frame
from tidegate.errors import ConfigError, TidegateError
from tidegate.lsn import format_lsn
from tidegate.observability import logs
from tidegate_admin.frames.decoded import Change, changes
from tidegate_admin.frames.raw import TopicReader
from tidegate_admin.room import Room
from tidegate_admin.store import store_unavailable

AT_ONCE = 2
KEPT_SECONDS = 3600
MOST_MATCHES = 100
LOST_SECONDS = 10.0
_BATCH = 64
_TELL_SECONDS = 0.5

_log = logs.get("searches")


@dataclass(frozen=True, slots=True)
class Wanted:
    table: str
    key: dict[str, str] = field(repr=False)
    start: int = 0
    end: int = 0

    def is_it(self, change: Change) -> bool:
        if self.table not in change.tables:
            return False
        rows = [row for row in (change.row, change.old) if row is not None]
        return any(all(row.get(name) == text for name, text in self.key.items()) for row in rows)

    def may_hold(self, body: bytes) -> bool:
        """Whether it is worth decoding: PostgreSQL sends a value as the text that is searched for."""
        return all(text.encode() in body for text in self.key.values())


@dataclass(slots=True)
class Job:
    id: str
    state: str
    start: int
    end: int
    at: int
    updated: int
    matches: list[dict[str, Any]] = field(default_factory=list)
    failure: str = ""

    def encode(self) -> bytes:
        return json.dumps({name: getattr(self, name) for name in self.__slots__}, separators=(",", ":")).encode()


def job_key(pipeline: str, identity: str) -> str:
    return f"tidegate:{pipeline}:search:{identity}"


class Searches:
    def __init__(self, pipeline: str) -> None:
        self._pipeline = pipeline
        self._running: dict[str, asyncio.Task[None]] = {}
        self.room = Room(AT_ONCE)

    async def begin(
        self, client: redis.asyncio.Redis, topic: TopicReader, wanted: Wanted, release: Callable[[], None]
    ) -> Job:
        """`release`: of the room that was taken for it; called when it ends. One that does not begin leaves it held."""
        job = Job(uuid.uuid4().hex, "running", wanted.start, wanted.end, wanted.start, unix_microseconds())
        await self._tell(client, job)
        task = asyncio.create_task(self._run(client, topic, wanted, job), name=f"search {job.id}")
        self._running[job.id] = task
        task.add_done_callback(lambda _: self._ended(job.id, release))
        return job

    def _ended(self, identity: str, release: Callable[[], None]) -> None:
        self._running.pop(identity, None)
        release()

    async def look(self, client: redis.asyncio.Redis, identity: str) -> Job | None:
        try:
            value = await client.get(job_key(self._pipeline, identity))
        except (redis.RedisError, OSError, ConfigError) as error:
            raise store_unavailable(error) from error
        if value is None:
            return None
        job = Job(**json.loads(value))
        if job.state == "running" and unix_microseconds() - job.updated > LOST_SECONDS * 1e6:
            job.state, job.failure = "lost", "the instance that searched is gone"
        return job

    async def cancel(self, client: redis.asyncio.Redis, identity: str) -> None:
        """Also where another instance runs it: that one sees its job gone and stops."""
        task = self._running.get(identity)
        if task is not None:
            task.cancel()
        try:
            await client.delete(job_key(self._pipeline, identity))
        except (redis.RedisError, OSError, ConfigError) as error:
            raise store_unavailable(error) from error

    async def close(self) -> None:
        tasks = list(self._running.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, client: redis.asyncio.Redis, topic: TopicReader, wanted: Wanted, job: Job) -> None:
        told = time.monotonic()
        try:
            while job.at < job.end and len(job.matches) < MOST_MATCHES:
                records = await topic.read(job.at, min(_BATCH, job.end - job.at))
                if not records:
                    break
                for record in records:
                    job.matches += _matches(record.offset, record.value, wanted)
                    await asyncio.sleep(0)
                job.at = records[-1].offset + 1
                if time.monotonic() - told > _TELL_SECONDS:
                    told = time.monotonic()
                    if not await client.exists(job_key(self._pipeline, job.id)):
                        return
                    await self._tell(client, job)
            job.state = "done"
        except (TidegateError, redis.RedisError, OSError) as error:
            _log.failure("search_failed", error, search=job.id)
            job.state, job.failure = "failed", getattr(error, "code", type(error).__name__)
        await self._tell(client, job)

    async def _tell(self, client: redis.asyncio.Redis, job: Job) -> None:
        job.updated = unix_microseconds()
        try:
            await client.set(job_key(self._pipeline, job.id), job.encode(), ex=KEPT_SECONDS)
        except (redis.RedisError, OSError, ConfigError) as error:
            raise store_unavailable(error) from error


def _matches(offset: int, value: bytes, wanted: Wanted) -> list[dict[str, Any]]:
    frame = decode_frame(value)
    if frame.header.kind is not FrameKind.WAL or not wanted.may_hold(frame.body):
        return []
    return [
        {
            "offset": offset,
            "epoch": frame.header.epoch,
            "commit_lsn": format_lsn(change.position.commit_lsn),
            "ordinal": change.position.ordinal,
            "operation": change.operation.value,
            "xid": change.xid,
        }
        for change in changes(frame)
        if wanted.is_it(change)
    ]
