"""A small transactional message on a second connection while the source is quiet.

It moves the slot's catalogue horizon, which keepalives alone do not, and shows that the whole way works. The
non-transactional form would pin WAL (before PostgreSQL 19).
"""

import asyncio
import json

from tidegate.clock import unix_microseconds
from tidegate_reader.sources.postgres_wal.session import SideConnection
from tidegate_reader.surroundings import Surroundings

PREFIX = "tidegate"


class Heartbeat:
    def __init__(self, side: SideConnection, around: Surroundings) -> None:
        self._side, self._around = side, around
        self._interval = around.config.source.heartbeat.interval.total_seconds()

    async def run(self) -> None:
        if await self._side.value("SELECT pg_is_in_recovery()"):
            return  # A standby cannot write; its primary's own traffic has to do.
        own = 0
        while True:
            seen = self._around.progress.changes
            await asyncio.sleep(self._interval)
            # Our own message comes back as one change.
            if self._around.progress.changes - seen > own:
                own = 0
                continue
            await self._beat()
            own = 1

    async def _beat(self) -> None:
        content = json.dumps({"pipeline": self._around.config.pipeline, "time": unix_microseconds()})
        await self._side.fetch("SELECT pg_logical_emit_message(true, %s, %s)", [PREFIX, content])
        self._around.metrics.heartbeats.add()
