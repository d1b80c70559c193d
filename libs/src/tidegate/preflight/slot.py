"""The slot's row: what it says, and whether we can read from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tidegate.config.values import OnLost
from tidegate.lsn import Lsn, parse_lsn
from tidegate.preflight.ask import Ask
from tidegate.preflight.findings import Finding, caution, refusal
from tidegate.quoting import literal

if TYPE_CHECKING:
    from tidegate.config.source import PostgresSource, Slot

OLDEST_FAILOVER = 170_000


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
    failover: bool = False
    synced: bool = False
    """On a standby: kept in step with the primary's. It stays set when that standby is promoted."""
    temporary: bool = False


async def read_slot(ask: Ask, name: str) -> SlotState | None:
    # As JSON, because the columns differ from version to version.
    rows = await ask("SELECT to_jsonb(s) FROM pg_replication_slots s WHERE slot_name = %s", [name])
    return slot_state(rows[0][0]) if rows else None


def slot_state(row: Mapping[str, Any]) -> SlotState:
    lost = "lost" if row.get("wal_status") == "lost" else None
    return SlotState(
        name=row["slot_name"],
        plugin=row["plugin"] or "",
        database=row["database"] or "",
        active_pid=row["active_pid"],
        confirmed=parse_lsn(row["confirmed_flush_lsn"] or "0/0"),
        restart=parse_lsn(row["restart_lsn"] or "0/0"),
        invalidated=row.get("invalidation_reason") or ("conflicting" if row.get("conflicting") else lost),
        two_phase=bool(row.get("two_phase")),
        safe_wal_bytes=row.get("safe_wal_size"),
        failover=bool(row.get("failover")),
        synced=bool(row.get("synced")),
        temporary=bool(row.get("temporary")),
    )


async def examine_slot(ask: Ask, source: PostgresSource, version: int) -> tuple[SlotState | None, list[Finding]]:
    slot = await read_slot(ask, source.slot.name)
    findings = judge_missing(source) if slot is None else judge_slot(slot, source.database, wanted=source.slot)
    if source.slot.failover:
        findings += _failover(slot, version)
        findings += await _synchronized(ask, version)
    return slot, findings


def judge_missing(source: PostgresSource) -> list[Finding]:
    if source.slot.create:
        return []
    name = source.slot.name
    remedy = f"SELECT pg_create_logical_replication_slot({literal(name)}, 'pgoutput');"
    reason = f"slot {name} does not exist and source.slot.create is false"
    return [refusal("source.slot", code="SLOT_UNKNOWN", reason=reason, remedy=remedy)]


def judge_slot(slot: SlotState, database: str, *, wanted: Slot | None = None) -> list[Finding]:
    """A slot that the server has given up is not a finding of the configuration: the reader says LOST, or makes it anew
    as `wanted` says."""
    findings = []
    if slot.plugin != "pgoutput" or slot.database != database:
        reason = f"slot {slot.name} belongs to plugin {slot.plugin or 'none'}, database {slot.database or 'none'}"
        remedy = "Give this pipeline a slot name of its own."
        findings.append(refusal("source.slot", code="SLOT_FOREIGN", reason=reason, remedy=remedy))
    if slot.two_phase:
        reason = f"slot {slot.name} has two_phase set, so prepared transactions would be sent"
        remedy = "Drop it when its changes are consumed and let the reader create its own, without two_phase."
        findings.append(refusal("source.slot", code="SLOT_TWO_PHASE", reason=reason, remedy=remedy))
    if slot.invalidated:
        is_remade = wanted is not None and wanted.on_lost is OnLost.RESNAPSHOT and wanted.create
        reason, remedy = _will_be_remade(slot) if is_remade else _will_be_lost(slot)
        findings.append(caution("source.slot", code="SLOT_INVALIDATED", reason=reason, remedy=remedy))
    return findings


def _will_be_lost(slot: SlotState) -> tuple[str, str]:
    return (
        f"slot {slot.name} is invalidated ({slot.invalidated}): the reader will say LOST (exit 3)",
        "Drop slot and raw topic and take a new snapshot, or restore the source. A person decides, unless "
        "source.slot.on_lost is resnapshot.",
    )


def _will_be_remade(slot: SlotState) -> tuple[str, str]:
    """By a reader whose raw topic or Redis knows of a past; else it says LOST."""
    return (
        f"slot {slot.name} is invalidated ({slot.invalidated}): the reader will drop it, make it anew, announce the "
        "gap to all lanes, and read all tables again (source.slot.on_lost: resnapshot)",
        "If that is wanted, start the reader. What was deleted in the gap stays in sinks that keep rows by key: "
        "docs/operations/slot-lost.md.",
    )


def _failover(slot: SlotState | None, version: int) -> list[Finding]:
    if version < OLDEST_FAILOVER:
        reason = "slots follow a failover from PostgreSQL 17 on"
        remedy = "Set source.slot.failover: false, or upgrade the server."
        return [refusal("source.slot.failover", code="SLOT_FAILOVER_VERSION", reason=reason, remedy=remedy)]
    if slot is not None and not slot.failover:
        reason = f"slot {slot.name} exists without failover, so no standby has it"
        remedy = f"With the reader stopped, on a replication connection: ALTER_REPLICATION_SLOT {slot.name} (FAILOVER);"
        return [caution("source.slot.failover", code="SLOT_FAILOVER_OFF", reason=reason, remedy=remedy)]
    return []


async def _synchronized(ask: Ask, version: int) -> list[Finding]:
    """A name in synchronized_standby_slots that nobody reads stops the decoding of every failover slot."""
    if version < OLDEST_FAILOVER:
        return []
    if (await ask("SHOW synchronized_standby_slots"))[0][0] == "":
        unguarded = caution(
            "source.slot.failover",
            code="FAILOVER_UNGUARDED",
            reason="synchronized_standby_slots is empty: sinks may have what a promoted standby never had",
            remedy="ALTER SYSTEM SET synchronized_standby_slots to the standby's physical slot; and reload.",
        )
        return [unguarded]
    idle = await ask(
        "SELECT name FROM unnest(string_to_array(replace(current_setting('synchronized_standby_slots'), ' ', ''),"
        " ',')) name WHERE name <> '' AND name NOT IN (SELECT slot_name FROM pg_replication_slots WHERE active)"
    )
    return [
        caution(
            "source.slot.failover",
            code="STANDBY_SLOT_IDLE",
            reason=f"synchronized_standby_slots names {name}, which no standby reads: nothing will be decoded",
            remedy="Start that standby, or take its slot out of synchronized_standby_slots.",
        )
        for (name,) in idle
    ]
