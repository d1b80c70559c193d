"""What PostgreSQL itself says of a replication slot, asked on a connection of our own with short deadlines.

Invariant: only reads, never holds a slot or a snapshot, and every question ends within `DEADLINE_SECONDS`.
"""

import asyncio
from dataclasses import dataclass
from typing import Any

import psycopg

from tidegate.config.source import PostgresSource
from tidegate.errors import ConfigError, TransientError
from tidegate.lsn import Lsn, parse_lsn

DEADLINE_SECONDS = 2.0
_STATEMENT_TIMEOUT_MS = 1_500

# As JSON, because columns were added over the versions: wal_status and safe_wal_size came with 13.
_SLOT = """
SELECT to_jsonb(slot),
       CASE WHEN pg_is_in_recovery() THEN pg_last_wal_receive_lsn() ELSE pg_current_wal_lsn() END::text
FROM (SELECT 1) AS one LEFT JOIN pg_replication_slots AS slot ON slot_name = %s
"""


@dataclass(frozen=True, slots=True)
class SlotView:
    name: str
    exists: bool
    current_lsn: Lsn
    """End of the server's WAL when it was asked."""
    active: bool = False
    active_pid: int | None = None
    confirmed_flush_lsn: Lsn | None = None
    restart_lsn: Lsn | None = None
    wal_status: str | None = None
    safe_wal_bytes: int | None = None
    """How much more WAL may be written before the slot is given up; none = no limit is set."""

    @property
    def wal_held_bytes(self) -> int | None:
        return None if self.restart_lsn is None else max(0, self.current_lsn - self.restart_lsn)


class SlotReader:
    """Owns one connection, opened when first needed and dropped when a question fails."""

    def __init__(self, source: PostgresSource) -> None:
        self._source = source
        self._connection: psycopg.AsyncConnection[Any] | None = None

    async def read(self) -> SlotView:
        try:
            async with asyncio.timeout(DEADLINE_SECONDS):
                row = await self._ask()
        except (psycopg.Error, OSError, TimeoutError, ConfigError) as error:
            await self.close()
            raise TransientError(
                f"PostgreSQL did not answer for the slot: {_cause(error)}",
                code="SOURCE_UNAVAILABLE",
                remedy="Check that the server is up and that the role may connect; delivery does not depend on this.",
            ) from error
        return slot_view(self._source.slot.name, *row)

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    async def _ask(self) -> tuple[dict[str, Any] | None, str]:
        if self._connection is None:
            self._connection = await psycopg.AsyncConnection.connect(**connection_arguments(self._source))
        cursor = await self._connection.execute(_SLOT, [self._source.slot.name])
        row = await cursor.fetchone()
        return (None, "0/0") if row is None else (row[0], row[1] or "0/0")


def connection_arguments(source: PostgresSource) -> dict[str, Any]:
    """Keywords of libpq; the password is read anew, so that a rotated one is seen."""
    tls = source.tls
    arguments = {
        "host": source.host,
        "port": source.port,
        "dbname": source.database,
        "user": source.user,
        "password": source.password.reveal() if source.password else None,
        "sslmode": tls.mode.value,
        "sslrootcert": tls.ca,
        "sslcert": tls.cert,
        "sslkey": tls.key,
        "application_name": "tidegate admin",
        "connect_timeout": 2,
        "options": f"-c statement_timeout={_STATEMENT_TIMEOUT_MS} -c default_transaction_read_only=on",
    }
    return {name: value for name, value in arguments.items() if value is not None} | {"autocommit": True}


def slot_view(name: str, row: dict[str, Any] | None, current_lsn: str) -> SlotView:
    """From a row of pg_replication_slots of any server version."""
    current = parse_lsn(current_lsn)
    if row is None:
        return SlotView(name, exists=False, current_lsn=current)
    return SlotView(
        name,
        exists=True,
        current_lsn=current,
        active=bool(row["active"]),
        active_pid=row.get("active_pid"),
        confirmed_flush_lsn=_lsn(row.get("confirmed_flush_lsn")),
        restart_lsn=_lsn(row.get("restart_lsn")),
        wal_status=row.get("wal_status"),
        safe_wal_bytes=row.get("safe_wal_size"),
    )


def _lsn(text: str | None) -> Lsn | None:
    return None if text is None else parse_lsn(text)


def _cause(error: BaseException) -> str:
    """The SQLSTATE where there is one. A server's message may quote values, so it stays out."""
    state = getattr(error, "sqlstate", None)
    return f"{type(error).__name__} {state}" if state else type(error).__name__
