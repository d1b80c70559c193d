"""All slots of the source's server: whose they are, who holds them, what they keep."""

from collections.abc import Iterable
from typing import Any

from tidegate.config.pipeline import PipelineConfig
from tidegate.lsn import parse_lsn
from tidegate_admin.slots.schemas import HolderModel, SlotEntry, Whose
from tidegate_admin.source.places import on_server_of
from tidegate_admin.source.session import Session

PREFIX = "tidegate_"

Owners = dict[tuple[str, str | None], str]
"""The pipeline by a slot's name and database, of one server."""

# As JSON, because columns were added over the versions.
_SLOTS = """
SELECT to_jsonb(s), to_jsonb(a),
       CASE WHEN pg_is_in_recovery() THEN pg_last_wal_receive_lsn() ELSE pg_current_wal_lsn() END::text
FROM pg_replication_slots s
LEFT JOIN (SELECT pid, usename, application_name, host(client_addr) AS address, backend_start FROM pg_stat_activity) a
       ON a.pid = s.active_pid
WHERE s.slot_name > %s AND (%s::text IS NULL OR s.slot_name = %s) ORDER BY s.slot_name LIMIT %s
"""


async def list_slots(
    session: Session, pipelines: Iterable[PipelineConfig], config: PipelineConfig, *, after: str, limit: int
) -> list[SlotEntry]:
    """`config`: of the pipeline whose server is looked at, among all `pipelines` of this service."""
    return await _read(session, _owners(pipelines, config), (after, None, None, limit))


async def find_slot(
    session: Session, pipelines: Iterable[PipelineConfig], config: PipelineConfig, name: str
) -> SlotEntry | None:
    found = await _read(session, _owners(pipelines, config), ("", name, name, 1))
    return found[0] if found else None


def _owners(pipelines: Iterable[PipelineConfig], config: PipelineConfig) -> Owners:
    """Where two pipelines name the same slot, it is told as the asked one's."""
    known = [*on_server_of(config, pipelines), config]
    return {(each.source.slot.name, each.source.database): each.pipeline for each in known}


async def _read(session: Session, owners: Owners, arguments: tuple[object, ...]) -> list[SlotEntry]:
    cursor = await session.execute(_SLOTS, arguments)
    return [_entry(slot, holder, current or "0/0", owners) for slot, holder, current in await cursor.fetchall()]


def _entry(slot: dict[str, Any], holder: dict[str, Any] | None, current: str, owners: Owners) -> SlotEntry:
    name, restart = slot["slot_name"], slot.get("restart_lsn")
    pipeline = owners.get((name, slot.get("database")))
    lost = slot.get("invalidation_reason") or ("conflicting" if slot.get("conflicting") else None)
    return SlotEntry(
        name=name,
        whose=_whose(slot, pipeline),
        pipeline=pipeline,
        plugin=slot.get("plugin"),
        database=slot.get("database"),
        slot_type=slot["slot_type"],
        active=slot["active"],
        holder=_holder(slot.get("active_pid"), holder),
        wal_status=slot.get("wal_status"),
        invalidated=lost,
        restart_lsn=restart,
        confirmed_flush_lsn=slot.get("confirmed_flush_lsn"),
        wal_held_bytes=max(0, parse_lsn(current) - parse_lsn(restart)) if restart else None,
        safe_wal_bytes=slot.get("safe_wal_size"),
    )


def _whose(slot: dict[str, Any], pipeline: str | None) -> Whose:
    if pipeline is not None:
        return Whose.OWN
    is_ours = slot["slot_name"].startswith(PREFIX) and slot.get("plugin") == "pgoutput"
    return Whose.ORPHAN if is_ours and not slot["active"] else Whose.FOREIGN


def _holder(pid: int | None, activity: dict[str, Any] | None) -> HolderModel | None:
    if pid is None:
        return None
    told = activity or {}
    return HolderModel(
        pid=pid,
        user=told.get("usename"),
        application=told.get("application_name"),
        address=told.get("address"),
        since=told.get("backend_start"),
    )
