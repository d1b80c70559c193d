"""Says whom a slot that is being made waits for: every transaction that was open when it began has to end first.

Invariant: it only looks, over the second connection; what it can't see changes nothing about the slot.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

from tidegate.errors import TidegateError

if TYPE_CHECKING:
    from tidegate_reader.sources.postgres_wal.session import SideConnection
    from tidegate_reader.surroundings import Surroundings

_LOOK_SECONDS = 1.0
_REPEAT_LOOKS = 10
"""So often the same one is told again."""
# Who makes a slot holds it meanwhile. A prepared transaction has no process: it is told as 0.
_HOLDERS = """
SELECT holder, coalesce(extract(epoch FROM clock_timestamp() - xact_start)::float8, 0)
FROM pg_replication_slots s CROSS JOIN LATERAL unnest(pg_blocking_pids(s.active_pid)) holder
LEFT JOIN pg_stat_activity a ON a.pid = holder WHERE s.slot_name = %s AND s.active_pid IS NOT NULL
ORDER BY a.xact_start LIMIT 1
"""


@asynccontextmanager
async def telling_whom_it_waits_for(around: Surroundings, side: SideConnection) -> AsyncIterator[None]:
    looking = asyncio.create_task(_look(around, side), name="slot_wait")
    try:
        yield
    finally:
        looking.cancel()
        await asyncio.wait([looking])


async def _look(around: Surroundings, side: SideConnection) -> None:
    told: tuple[int, int] = (-1, 0)
    looks = 0
    with suppress(TidegateError):  # whoever makes the slot finds out what is wrong
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            looks += 1
            rows = await side.fetch(_HOLDERS, [around.config.source.slot.name])
            for pid, seconds in rows:
                who = f"the transaction of pid {pid}" if pid else "a prepared transaction"
                around.progress.oldest_transaction_seconds = seconds
                around.health.degraded("source", f"the slot that is being made waits for {who}")
                if pid != told[0] or looks - told[1] >= _REPEAT_LOOKS:
                    told = (pid, looks)
                    around.log.warning("slot_waits", pid=pid, open_seconds=round(seconds, 1))
