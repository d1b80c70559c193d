"""Looks at the slot from beside the stream: the WAL it holds, how much more it may, and whether it is good."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tidegate.errors import StreamError
from tidegate.lsn import parse_lsn
from tidegate_reader.progress import Progress
from tidegate_reader.sources.postgres_wal.failures import LOST_REMEDY
from tidegate_reader.sources.postgres_wal.session import SideConnection
from tidegate_reader.sources.postgres_wal.slots import check_slot, read_slot

if TYPE_CHECKING:
    from tidegate.config.pipeline import PipelineConfig

_WAL_END = (
    "SELECT CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_flush_lsn() END::text"
)


async def wal_end(side: SideConnection) -> int:
    return parse_lsn(await side.value(_WAL_END))


class SourceWatch:
    def __init__(self, side: SideConnection, config: PipelineConfig, progress: Progress) -> None:
        self._side, self._progress = side, progress
        self._slot, self._database = config.source.slot.name, config.source.database
        self._look_seconds = config.reader.look_every.total_seconds()

    async def run(self) -> None:
        while True:
            await self.look()
            await asyncio.sleep(self._look_seconds)

    async def look(self) -> None:
        state = await read_slot(self._side, self._slot)
        if state is None:
            raise StreamError(f"slot {self._slot} is gone", code="SLOT_MISSING", remedy=LOST_REMEDY)
        check_slot(state, self._database)
        end = await wal_end(self._side)
        self._progress.server_lsn = end
        self._progress.wal_held_bytes = max(0, end - state.restart)
        self._progress.safe_wal_bytes = state.safe_wal_bytes
