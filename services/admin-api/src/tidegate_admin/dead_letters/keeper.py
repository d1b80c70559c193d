"""Keeps the index at the end of the dead letter topic, and appends resolutions to it.

Invariant: a resolution is done when the broker has it and the index has passed it; the index never runs ahead of the
topic and is built anew when the topic is another one.
"""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError

from tidegate.clock import unix_microseconds
from tidegate.config.pipeline import PipelineConfig
from tidegate.contracts.names import dead_letter_topic
from tidegate.contracts.resolution import MOST_IDS, Outcome, Resolution
from tidegate.errors import ConfigError, TidegateError
from tidegate.kafka_client import TopicMetadata, client_options
from tidegate.observability import logs
from tidegate_admin.dead_letters.index import Index
from tidegate_admin.errors import ApiError
from tidegate_admin.frames.raw import TopicReader, unavailable

_BATCH = 500
_UNSETTLED = 10_000
"""So many records change what is worth an index."""
_POLL_SECONDS = 1.0
_POLLS = 10
"""After so many without a record it is asked whether this is still the topic."""
_MISSING_SECONDS = 10.0
_SEEN_SECONDS = 10.0
_SEND_SECONDS = 15.0

_log = logs.get("dead_letters")


class Keeper:
    def __init__(self, config: PipelineConfig, folder: Path) -> None:
        self._config = config
        self._name = dead_letter_topic(config.pipeline)
        self.topic = TopicReader(config, self._name, committed=True)
        self._following = TopicReader(config, self._name, committed=True, follows=True)
        self.index = Index(folder / f"{config.pipeline}.dead-letters.sqlite")
        self.is_complete = False
        """Whether the index had reached the topic's end at the last look."""
        self._moved = asyncio.Condition()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name=f"dead letters {self._config.pipeline}")

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self.topic.close()
        await self._following.close()
        await asyncio.to_thread(self.index.close)

    async def resolve(self, outcome: Outcome, ids: Sequence[str], by: str) -> None:
        now = unix_microseconds()
        parts = [tuple(ids[at : at + MOST_IDS]) for at in range(0, len(ids), MOST_IDS)]
        last = -1
        for part in parts:
            last = await self._append(Resolution(outcome, part, by, now).encode())
        try:
            async with asyncio.timeout(_SEEN_SECONDS), self._moved:
                await self._moved.wait_for(lambda: self.index.next_offset > last)
        except TimeoutError as error:
            raise unavailable(error) from error

    async def _append(self, value: bytes) -> int:
        producer = AIOKafkaProducer(**client_options(self._config.kafka), acks="all", enable_idempotence=True)
        try:
            async with asyncio.timeout(_SEND_SECONDS):
                await producer.start()
                sent = await producer.send_and_wait(self._name, value, partition=0)
                return int(sent.offset)
        except (KafkaError, OSError, TimeoutError, ConfigError) as error:
            raise unavailable(error) from error
        finally:
            await producer.stop()

    async def _run(self) -> None:
        while True:
            try:
                await self._begin()
                await self._follow()
            except ApiError:
                self.is_complete = True  # no topic: no dead letter has ever been written
                await asyncio.sleep(_MISSING_SECONDS)
            except TidegateError as error:
                _log.failure("index_late", error, pipeline=self._config.pipeline)
                await asyncio.sleep(_POLL_SECONDS)

    async def _begin(self) -> None:
        bounds, identity = await self._following.bounds(), await self._topic_id()
        if not await asyncio.to_thread(self.index.belongs_to, identity, bounds.end):
            await asyncio.to_thread(self.index.begin_anew, identity)
            _log.info("index_begins", pipeline=self._config.pipeline, records=bounds.end - bounds.beginning)

    async def _follow(self) -> None:
        beginning = (await self._following.bounds()).beginning
        offset = max(beginning, await asyncio.to_thread(lambda: self.index.next_offset))
        unsettled = polls = 0
        while True:
            records = await self._following.read(offset, _BATCH, wait_seconds=_POLL_SECONDS)
            self.is_complete = not records
            unsettled += len(records)
            polls = 0 if records else polls + 1
            if not records and unsettled > _UNSETTLED:
                await asyncio.to_thread(self.index.settle)
                unsettled = 0
            if records:
                await asyncio.to_thread(self.index.take, records)
                offset = records[-1].offset + 1
                async with self._moved:
                    self._moved.notify_all()
            elif polls % _POLLS == 0 and (await self._following.bounds()).end < offset:
                return  # another topic of the same name

    async def _topic_id(self) -> str:
        admin: Any = AIOKafkaAdminClient(**client_options(self._config.kafka))
        try:
            await admin.start()
            answer = await admin._send_request(TopicMetadata(self._name))
            return str(answer.to_object()["topics"][0]["topic_id"])
        except (KafkaError, OSError, ConfigError) as error:
            raise unavailable(error) from error
        finally:
            await admin.close()
