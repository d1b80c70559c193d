"""Where the reader takes requests about snapshots from Redis, and says there how far they are.

Invariant: what a start asks for is durable before its request is taken away, and a request is taken away in the same
transaction of Redis that keeps its outcome. Redis or the source being away delays requests and reports, nothing else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import redis
import redis.asyncio

from tidegate.checkpoint.connect import connect_async
from tidegate.clock import unix_microseconds
from tidegate.contracts.names import (
    snapshot_outcome_key,
    snapshot_requests_key,
    snapshot_tables_key,
    snapshots_key,
)
from tidegate.contracts.request import LaneOutcome, Result
from tidegate.contracts.snapshot_request import SnapshotAsked, SnapshotRequest, decode_snapshot_request
from tidegate.contracts.snapshot_status import (
    SnapshotKind,
    SnapshotState,
    SnapshotStatus,
    decode_snapshot_status,
)
from tidegate.errors import ConfigError, DecodeError, TidegateError, TransientError
from tidegate_reader.cancellation import raise_if_cancelled
from tidegate_reader.snapshot.planning import EPOCH_OVER
from tidegate_reader.snapshot.records import SnapshotRecord
from tidegate_reader.snapshot.refusals import beside_a_standby, forgotten, malformed

if TYPE_CHECKING:
    from tidegate.config.pipeline import PipelineConfig
    from tidegate.contracts.ack import Ack
    from tidegate_reader.snapshot.board import Board
    from tidegate_reader.snapshot.coordinator import Snapshots
    from tidegate_reader.snapshot.new_sinks import NewSinks
    from tidegate_reader.sources.postgres_wal.session import SideConnection
    from tidegate_reader.surroundings import Surroundings

EVERY_SECONDS = 1.0
KEPT_SECONDS = 86_400
TABLES_KEPT_SECONDS = 30 * 86_400
OLDEST_SECONDS = 600
"""One that waited longer would be done by surprise."""
LAST_SECONDS = 2.0
_MOST_AT_ONCE = 20


class SnapshotDesk:
    def __init__(
        self,
        around: Surroundings,
        snapshots: Snapshots,
        board: Board,
        side: SideConnection,
        acks: Callable[[], Mapping[str, Ack]],
        new_sinks: NewSinks,
    ) -> None:
        self._around, self._snapshots, self._board, self._side = around, snapshots, board, side
        self._acks, self._new_sinks = acks, new_sinks
        self._pipeline = around.config.pipeline

    def follow(self, config: PipelineConfig) -> None:
        self._new_sinks.follow(config)

    async def run(self) -> None:
        while True:
            async with connect_async(self._around.config.redis) as client:
                with suppress(redis.RedisError, OSError, TimeoutError):
                    await self._disown(client)
                    while True:
                        await self._asking(self._serve(client))
                        await self._report(client)
                        await self._snapshots.acked(self._acks())
                        await self._asking(self._new_sinks.look(self._acks()))
                        await asyncio.sleep(EVERY_SECONDS)
            raise_if_cancelled()
            await asyncio.sleep(EVERY_SECONDS)

    async def _disown(self, client: redis.asyncio.Redis) -> None:
        """What is shown as under way and was forgotten would be shown so for ever."""
        key, now, error = snapshots_key(self._pipeline), unix_microseconds(), forgotten()
        for value in await client.hvals(key):
            status = _shown(value)
            if status is None or status.id in self._snapshots.jobs or status.state.is_over:
                continue
            ended = replace(
                status,
                state=SnapshotState.FAILED,
                finished=now,
                time=now,
                waits_for="",
                code=error.code,
                message=error.message,
                remedy=error.remedy,
            )
            await client.hset(key, status.id, ended.encode().decode())
            self._around.log.warning("snapshot_forgotten", snapshot=status.id, code=error.code)
        raise_if_cancelled()

    async def _asking(self, step: Awaitable[None]) -> None:
        """What the source can't answer now is asked again in a second: a request waits in its list as long as it may,
        and the stream goes on."""
        try:
            await step
        except TransientError as error:
            if error.code == EPOCH_OVER:
                raise
            self._around.log.warning("snapshot_asking_failed", code=error.code, cause=error.message)

    async def say_the_last(self) -> None:
        """Before the reader ends by itself: else what is done would be shown as running."""
        with suppress(redis.RedisError, OSError, TimeoutError):
            async with asyncio.timeout(LAST_SECONDS), connect_async(self._around.config.redis) as client:
                await self._report(client)
        raise_if_cancelled()

    async def _serve(self, client: redis.asyncio.Redis) -> None:
        key = snapshot_requests_key(self._pipeline)
        for _ in range(_MOST_AT_ONCE):
            value = await client.lindex(key, 0)
            raise_if_cancelled()
            if not isinstance(value, bytes):
                return
            await self._answer(client, key, value)

    async def _answer(self, client: redis.asyncio.Redis, key: str, value: bytes) -> None:
        try:
            request = decode_snapshot_request(value)
        except DecodeError as error:
            self._around.log.failure("request_malformed", error)
            await self._take_away(client, key, value, malformed(value, error))
            return
        outcome = await self._outcome(request)
        await self._take_away(client, key, value, outcome)
        self._around.log.info(
            "snapshot_request",
            asked=request.asked,
            by=request.by,
            request=request.id,
            snapshot=request.snapshot or request.id,
            result=outcome.result,
            code=outcome.code,
        )

    async def _take_away(
        self, client: redis.asyncio.Redis, key: str, value: bytes, outcome: LaneOutcome | None
    ) -> None:
        async with client.pipeline(transaction=True) as together:
            if outcome is not None:
                together.set(snapshot_outcome_key(self._pipeline, outcome.id), outcome.encode(), ex=KEPT_SECONDS)
            together.lrem(key, 1, value)  # type: ignore[arg-type]  # bytes are taken as they are
            await together.execute()

    async def _outcome(self, request: SnapshotRequest) -> LaneOutcome:
        now = unix_microseconds()
        try:
            if now - request.time > OLDEST_SECONDS * 1e6:
                raise ConfigError("the request waited too long", code="SNAPSHOT_REQUEST_EXPIRED", remedy="Ask again.")
            await self._do(request)
        except TidegateError as error:
            if not isinstance(error, ConfigError):
                raise
            return LaneOutcome(request.id, Result.REFUSED, now, error.code, error.message, error.remedy)
        return LaneOutcome(request.id, Result.DONE, now)

    async def _do(self, request: SnapshotRequest) -> None:
        if request.asked is SnapshotAsked.START:
            await self._start(request)
            return
        job = self._snapshots.jobs.get(request.snapshot)
        if job is None:
            raise ConfigError(
                "there is no such snapshot", code="SNAPSHOT_UNKNOWN", remedy="List them: `tidegate snapshot list`."
            )
        state = job.record.state
        match request.asked:
            case SnapshotAsked.PAUSE if job.is_runnable:
                await self._snapshots.change(job, SnapshotState.PAUSED)
            case SnapshotAsked.RESUME if state in (SnapshotState.PAUSED, SnapshotState.FAILED):
                await self._snapshots.change(job, SnapshotState.RUNNING)
            case SnapshotAsked.CANCEL if not state.is_over:
                await self._snapshots.change(job, SnapshotState.CANCELLED)
            case _:
                raise ConfigError(
                    f"a snapshot that is {state} can't be asked to {request.asked}",
                    code="SNAPSHOT_STATE",
                    remedy="Look at its state: `tidegate snapshot show`.",
                )

    async def _start(self, request: SnapshotRequest) -> None:
        if request.id in self._snapshots.jobs:
            return
        if await self._side.value("SELECT pg_is_in_recovery()"):
            raise beside_a_standby()
        await self._snapshots.check_names(request.tables)
        await self._snapshots.add(
            SnapshotRecord(
                id=request.id,
                kind=SnapshotKind.REQUESTED,
                state=SnapshotState.WAITING,
                by=request.by,
                requested=request.time,
                priority=request.priority,
                tables=request.tables,
                filters=request.filters,
            )
        )

    async def _report(self, client: redis.asyncio.Redis) -> None:
        for status, tables in self._board.reports(self._snapshots.jobs.values()):
            async with client.pipeline(transaction=False) as together:
                together.hset(snapshots_key(self._pipeline), status.id, status.encode().decode())
                if tables:
                    key = snapshot_tables_key(self._pipeline, status.id)
                    together.hset(key, mapping={name: table.encode().decode() for name, table in tables.items()})
                    together.expire(key, TABLES_KEPT_SECONDS)
                await together.execute()
            raise_if_cancelled()
            self._board.reported(status)


def _shown(value: object) -> SnapshotStatus | None:
    """What can't be read is not ours to judge: it is for people, and nothing is decided by it."""
    try:
        return decode_snapshot_status(value) if isinstance(value, bytes) else None
    except DecodeError:
        return None
