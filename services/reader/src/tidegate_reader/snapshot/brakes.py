"""What has to be calm at the source before another piece of a table is read beside the stream: sessions and replicas.

Invariant: a brake that can't see is none: what the role may not look at is refused, never taken for calm.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from tidegate.errors import ConfigError, TransientError

if TYPE_CHECKING:
    from tidegate.config.snapshot import SnapshotConfig
    from tidegate_reader.progress import Progress
    from tidegate_reader.sources.postgres_wal.session import SideConnection

LOOK_SECONDS = 1.0
"""An answer holds for so long, whoever asks."""
# What the role may not see has neither state nor type; a session that is connecting has a type already. What the server
# does for itself is no session.
_SESSIONS = """
SELECT count(*) FILTER (WHERE state = 'active'), count(*) FILTER (WHERE state IS NULL AND backend_type IS NULL),
    count(*) FILTER (WHERE state = 'disabled')
FROM pg_stat_activity WHERE datid IS NOT NULL AND (backend_type IS NULL OR backend_type = 'client backend')
AND application_name NOT LIKE %s
"""
_REPLICAS = """
SELECT coalesce(max(pg_wal_lsn_diff(CASE WHEN pg_is_in_recovery() THEN pg_last_wal_receive_lsn()
    ELSE pg_current_wal_lsn() END, replay_lsn)) FILTER (WHERE state IN ('catchup', 'streaming')), 0)::int8,
    count(*) FILTER (WHERE state IS NULL) FROM pg_stat_replication
WHERE pid NOT IN (SELECT active_pid FROM pg_replication_slots WHERE slot_type = 'logical' AND active_pid IS NOT NULL)
"""


class Brakes:
    def __init__(
        self,
        side: SideConnection,
        config: SnapshotConfig,
        pipeline: str,
        progress: Progress,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._side, self._config, self._progress, self._clock = side, config, progress, clock
        self._ours = f"tidegate {pipeline}%"
        self._looked = float("-inf")
        self._reason = ""

    async def reason(self) -> str:
        """What has to change before another piece is read; empty if nothing has to."""
        if self._clock() - self._looked >= LOOK_SECONDS:
            try:
                self._reason = await self._sessions() or await self._replicas()
            except TransientError:
                self._reason = "the source to answer"  # if it does not, the reader ends by itself
            self._looked = self._clock()
            self._progress.is_snapshot_braked = bool(self._reason)
        return self._reason

    def release(self) -> None:
        """Nobody reads any more."""
        self._looked, self._progress.is_snapshot_braked = float("-inf"), False

    async def _sessions(self) -> str:
        most = self._config.max_active_sessions
        if most is None:
            return ""
        [(active, hidden, untracked)] = await self._side.fetch(_SESSIONS, [self._ours])
        if hidden:
            raise _blind("max_active_sessions")
        if untracked:
            raise _untracked()
        return f"the source to have no more than {most} active sessions, now {active}" if active > most else ""

    async def _replicas(self) -> str:
        most = self._config.max_replica_lag
        if most is None:
            return ""
        [(behind, hidden)] = await self._side.fetch(_REPLICAS)
        if hidden:
            raise _blind("max_replica_lag")
        return f"a replica that is {behind // 2**20} MiB behind, {most // 2**20} may be" if behind > most else ""


def _blind(setting: str) -> ConfigError:
    return ConfigError(
        f"the role may not see what snapshot.{setting} looks at",
        code="SNAPSHOT_BRAKE_BLIND",
        remedy=f"GRANT pg_monitor TO the role, or leave snapshot.{setting} out.",
    )


def _untracked() -> ConfigError:
    return ConfigError(
        "the server does not track what its sessions do, which snapshot.max_active_sessions looks at",
        code="SNAPSHOT_BRAKE_UNTRACKED",
        remedy="Set track_activities = on for the server and each of its roles, or leave "
        "snapshot.max_active_sessions out.",
    )
