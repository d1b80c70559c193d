"""What a transaction sees, and what none may see yet though the stream has had it.

A commit is in the stream before it is visible: its record comes first, and a session may wait for a synchronous standby
in between. What came in this epoch the framer knows. Of what came before it nothing is told again, so before the first
window the transactions that are open when the epoch begins have to end.

Invariant: no window is opened while a transaction that an earlier epoch has had may not be visible.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidegate_reader.sources.postgres_wal.session import SideConnection

_NEAR = 2**20
"""Transaction numbers so far above a snapshot's end are of another age."""
_LOOK_SECONDS = 0.1
_SHORT_SECONDS = 5.0
"""Longer than any commit takes from its record to being seen, if it waits for nobody."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What a transaction sees."""

    xmin: int
    xmax: int
    running: frozenset[int]
    read_at: int = 0

    def contains(self, xid: int) -> bool:
        """`xid` as the stream tells it: the lower half."""
        above = (xid - self.xmax) % 2**32
        return above >= _NEAR and xid not in self.running


def seen_in(snapshot: str, read_at: int = 0) -> Seen:
    """As `txid_current_snapshot` writes it."""
    xmin, xmax, running = snapshot.split(":")
    numbers = frozenset(int(xid) % 2**32 for xid in running.split(",") if xid)
    return Seen(int(xmin) % 2**32, int(xmax) % 2**32, numbers, read_at)


class Earlier:
    """Transactions that were open when the epoch began."""

    def __init__(self, side: SideConnection) -> None:
        self._side = side
        self._open: frozenset[int] | None = None
        self._since = 0.0
        self._lock = asyncio.Lock()

    async def settle(self, tell: Callable[[str], None]) -> None:
        """Until none of them may be one that the stream has had. Where commits wait for nobody, one that is still open
        after some seconds is really open."""
        async with self._lock:
            if self._open is None:
                # A snapshot names those that are open below the last that has ended: so one has to end now.
                await self._side.value("SELECT txid_current()")
                self._open, self._since = await self._running(), time.monotonic()
            while self._open:
                await asyncio.sleep(_LOOK_SECONDS)
                self._open &= await self._running()
                if time.monotonic() - self._since > _SHORT_SECONDS and not await self._commits_wait():
                    self._open = frozenset()
                elif self._open:
                    tell(f"{len(self._open)} transactions that were open when the reader began")

    async def _running(self) -> frozenset[int]:
        return seen_in(str(await self._side.value("SELECT txid_current_snapshot()::text"))).running

    async def _commits_wait(self) -> bool:
        """For synchronous standbys."""
        return bool(await self._side.value("SHOW synchronous_standby_names"))
