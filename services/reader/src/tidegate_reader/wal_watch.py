"""Asks what holds WAL, and says it: as metrics, in the log when the zone changes, and on /readyz while it is not green.

It looks at what the watch over the slot has seen (`progress`), and asks the server more only when much is held.
"""

import asyncio
import time

from tidegate.lsn import Lsn
from tidegate_reader.sources.postgres_wal.session import SideConnection
from tidegate_reader.surroundings import Surroundings
from tidegate_reader.wal_safety import SEGMENT_BYTES, Held, Pin, Verdict, WalSafety, Zone

_REPEAT_SECONDS = 60.0
_OTHER_HOLDER_SECONDS = 10.0
"""So often at most it is told that somebody else holds WAL now."""

# Only who has an xid holds a slot back; a reading transaction does not.
_OLDEST = """
(SELECT 'transaction of pid ' || pid, extract(epoch FROM clock_timestamp() - xact_start)::float8
 FROM pg_stat_activity WHERE backend_xid IS NOT NULL AND xact_start IS NOT NULL AND pid <> pg_backend_pid()
 ORDER BY xact_start LIMIT 1)
UNION ALL
(SELECT 'prepared transaction ' || quote_literal(gid), extract(epoch FROM clock_timestamp() - prepared)::float8
 FROM pg_prepared_xacts WHERE database = current_database() ORDER BY prepared LIMIT 1)
"""
_OTHER = """
SELECT o.slot_name FROM pg_replication_slots o, pg_replication_slots s
WHERE s.slot_name = %s AND o.slot_name <> s.slot_name AND o.restart_lsn < s.restart_lsn ORDER BY o.restart_lsn LIMIT 1
"""


class WalWatch:
    def __init__(self, side: SideConnection, around: Surroundings) -> None:
        slot = around.config.source.slot
        self._side, self._around, self._slot = side, around, slot.name
        self._safety = WalSafety(slot.wal_budget)
        self._told_at = float("-inf")
        self._told_holder = ""

    async def run(self) -> None:
        while True:
            await self.look()
            await asyncio.sleep(self._around.config.reader.look_every.total_seconds())

    async def look(self) -> None:
        progress = self._around.progress
        if not progress.server_lsn:
            return
        held = Held(
            end=Lsn(progress.server_lsn),
            restart=Lsn(max(0, progress.server_lsn - progress.wal_held_bytes)),
            confirmed=Lsn(progress.confirmed_lsn),
            safe_wal_bytes=progress.safe_wal_bytes,
        )
        pins: tuple[Pin, ...] = ()
        other = None
        if held.held_bytes > SEGMENT_BYTES:
            pins = tuple(Pin(*row) for row in await self._side.fetch(_OLDEST))
            others = await self._side.fetch(_OTHER, [self._slot])
            other = others[0][0] if others else None
        now = time.monotonic()
        verdict = self._safety.judge(held, now, sink=progress.gate_holder, pins=pins, other=other)
        progress.oldest_transaction_seconds = max((pin.age_seconds for pin in pins), default=0.0)
        self._tell(verdict, held, now)

    def _tell(self, verdict: Verdict, held: Held, now: float) -> None:
        progress, health = self._around.progress, self._around.health
        before, progress.wal_zone = progress.wal_zone, verdict.zone
        progress.slot_dies_in_seconds = verdict.dies_in_seconds
        name = verdict.zone.name.lower()
        if verdict.zone is Zone.GREEN:
            health.up("wal", verdict.holder)
        else:
            health.degraded("wal", f"{name}: {_dies(verdict)}{verdict.holder or 'WAL is written faster than read'}")
        holder, since = verdict.holder.partition(",")[0], now - self._told_at  # without for how long
        is_other = verdict.zone is not Zone.GREEN and holder != self._told_holder and since > _OTHER_HOLDER_SECONDS
        if verdict.zone != before or is_other or (verdict.zone is Zone.RED and since > _REPEAT_SECONDS):
            self._told_at, self._told_holder = now, holder
            log = self._around.log.warning if verdict.zone else self._around.log.info
            log(
                "wal_zone",
                zone=name,
                held_bytes=held.held_bytes,
                safe_wal_bytes=held.safe_wal_bytes,
                dies_in_seconds=None if verdict.dies_in_seconds is None else round(verdict.dies_in_seconds),
                holder=verdict.holder,
            )


def _dies(verdict: Verdict) -> str:
    return "" if verdict.dies_in_seconds is None else f"this slot dies in {verdict.dies_in_seconds:.0f} s; "
