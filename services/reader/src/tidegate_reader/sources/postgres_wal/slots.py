"""The replication slot: what the server says of it, how it is made, and when it is not ours to read any more.

Invariant: a slot is created only where the raw topic knows of none; a lost one is never created again silently, and
one is dropped only if the server has given it up.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tidegate.errors import ConfigError, StreamError, TransientError
from tidegate.lsn import Lsn, parse_lsn
from tidegate.preflight import slot as preflight_slot
from tidegate.preflight.findings import raise_worst
from tidegate.preflight.slot import SlotState, judge_slot
from tidegate.quoting import identifier
from tidegate_reader.sources.postgres_wal.failures import LOST_REMEDY
from tidegate_reader.sources.postgres_wal.session import SideConnection
from tidegate_reader.sources.postgres_wal.stream import ReplicationStream

if TYPE_CHECKING:
    from tidegate.config.source import Slot

# As JSON, because the columns differ from version to version.
_DROP_INVALIDATED = """
SELECT pg_drop_replication_slot(slot_name) FROM (
  SELECT slot_name, to_jsonb(s) AS it FROM pg_replication_slots s
  WHERE slot_name = %s AND plugin = 'pgoutput' AND database = current_database() AND NOT active
) given
WHERE it->>'wal_status' = 'lost' OR it->>'invalidation_reason' IS NOT NULL OR (it->>'conflicting')::bool
"""
_NAME = re.compile(r"[a-z0-9_]{1,63}", re.ASCII)


async def read_slot(side: SideConnection, name: str) -> SlotState | None:
    return await preflight_slot.read_slot(side.fetch, name)


def check_slot(slot: SlotState, database: str, *, may_be_invalidated: bool = False) -> None:
    """Raises if this slot cannot be read by us, nor replaced."""
    if slot.invalidated and not may_be_invalidated:
        raise invalidated(slot)
    raise_worst(judge_slot(slot, database))


def invalidated(slot: SlotState) -> StreamError:
    return StreamError(f"slot {slot.name} is invalidated ({slot.invalidated})", code="SLOT_LOST", remedy=LOST_REMEDY)


async def drop_invalidated(side: SideConnection, name: str) -> None:
    """Looked at once more by the very statement that drops it."""
    if not await side.fetch(_DROP_INVALIDATED, [name]):
        raise TransientError(
            f"slot {name} is not as it was a moment ago", code="EPOCH_RACE", remedy="The reader starts again."
        )


async def create_slot(
    stream: ReplicationStream, slot: Slot, server_version: int, *, export: bool = False
) -> tuple[Lsn, str]:
    """The LSN from which on the new slot sees every commit, and, if it is to be exported, the name of the snapshot that
    shows all before: it is gone with the stream's next command."""
    if not _NAME.fullmatch(slot.name):
        raise ConfigError("a slot name has 1 to 63 of a-z, 0-9 and _", code="SLOT_NAME", remedy="Rename source.slot.")
    rows = await stream.execute(_create_command(slot, server_version, export=export))
    return parse_lsn(str(rows[0][1])), rows[0][2] or ""


def _create_command(slot: Slot, server_version: int, *, export: bool) -> str:
    temporary = "TEMPORARY " if slot.temporary else ""
    if server_version < 150_000:
        options = "EXPORT_SNAPSHOT" if export else "NOEXPORT_SNAPSHOT"
    else:
        failover = ", FAILOVER" if slot.failover else ""
        options = f"(SNAPSHOT '{'export' if export else 'nothing'}'{failover})"
    return f"CREATE_REPLICATION_SLOT {identifier(slot.name)} {temporary}LOGICAL pgoutput {options}"
