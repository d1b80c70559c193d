"""The replication slot: what the server says of it, how it is made, and when it is not ours to read any more.

Invariant: a slot is created only where the raw topic knows of none; a lost one is never created again silently.
"""

import re
from dataclasses import dataclass

from tidegate.config.source import Slot
from tidegate.errors import ConfigError, StreamError
from tidegate.lsn import Lsn, parse_lsn
from tidegate.quoting import identifier
from tidegate_reader.sources.postgres_wal.failures import LOST_REMEDY
from tidegate_reader.sources.postgres_wal.session import SideConnection
from tidegate_reader.sources.postgres_wal.stream import ReplicationStream

_NAME = re.compile(r"[a-z0-9_]{1,63}", re.ASCII)


@dataclass(frozen=True, slots=True)
class SlotState:
    name: str
    plugin: str
    database: str
    active_pid: int | None
    confirmed: Lsn
    restart: Lsn
    invalidated: str | None
    """Why the server gave it up, if it did."""
    two_phase: bool
    safe_wal_bytes: int | None


async def read_slot(side: SideConnection, name: str) -> SlotState | None:
    # As JSON, because the columns differ from version to version.
    rows = await side.fetch("SELECT to_jsonb(s) FROM pg_replication_slots s WHERE slot_name = %s", [name])
    if not rows:
        return None
    row = rows[0][0]
    lost = "lost" if row.get("wal_status") == "lost" else None
    return SlotState(
        name=name,
        plugin=row["plugin"] or "",
        database=row["database"] or "",
        active_pid=row["active_pid"],
        confirmed=parse_lsn(row["confirmed_flush_lsn"] or "0/0"),
        restart=parse_lsn(row["restart_lsn"] or "0/0"),
        invalidated=row.get("invalidation_reason") or ("conflicting" if row.get("conflicting") else lost),
        two_phase=bool(row.get("two_phase")),
        safe_wal_bytes=row.get("safe_wal_size"),
    )


def check_slot(slot: SlotState, database: str) -> None:
    """Raises if this slot cannot be read by us."""
    if slot.invalidated:
        raise StreamError(f"slot {slot.name} is invalidated ({slot.invalidated})", code="SLOT_LOST", remedy=LOST_REMEDY)
    if slot.plugin != "pgoutput" or slot.database != database:
        raise ConfigError(
            f"slot {slot.name} belongs to plugin {slot.plugin or 'none'}, database {slot.database or 'none'}",
            code="SLOT_FOREIGN",
            remedy="Give this pipeline a slot name of its own.",
        )
    if slot.two_phase:
        raise ConfigError(
            f"slot {slot.name} has two_phase set, so prepared transactions would be sent",
            code="SLOT_TWO_PHASE",
            remedy="Drop it when its changes are consumed and let the reader create its own, without two_phase.",
        )


async def create_slot(stream: ReplicationStream, slot: Slot, server_version: int) -> Lsn:
    """The LSN from which on the new slot sees every commit."""
    if not _NAME.fullmatch(slot.name):
        raise ConfigError("a slot name has 1 to 63 of a-z, 0-9 and _", code="SLOT_NAME", remedy="Rename source.slot.")
    rows = await stream.execute(_create_command(slot, server_version))
    return parse_lsn(str(rows[0][1]))


def _create_command(slot: Slot, server_version: int) -> str:
    temporary = "TEMPORARY " if slot.temporary else ""
    if server_version < 150_000:
        options = "NOEXPORT_SNAPSHOT"
    else:
        options = "(SNAPSHOT 'nothing', FAILOVER)" if slot.failover else "(SNAPSHOT 'nothing')"
    return f"CREATE_REPLICATION_SLOT {identifier(slot.name)} {temporary}LOGICAL pgoutput {options}"
