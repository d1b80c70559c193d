"""Whether the server has a slot and a sender left for us, and our role may have as many sessions as snapshots take."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.preflight.ask import Ask
from tidegate.preflight.findings import Finding, caution, refusal
from tidegate.quoting import identifier

if TYPE_CHECKING:
    from tidegate.config.pipeline import PipelineConfig

_SPARE = 5
READER_SESSIONS = 4
"""The stream, the one beside it, the one that holds an exported snapshot, and the one that looks at the catalogue."""


async def examine_capacity(ask: Ask, *, slot_exists: bool) -> list[Finding]:
    [(slots, max_slots, senders, max_senders)] = await ask(
        "SELECT (SELECT count(*) FROM pg_replication_slots), current_setting('max_replication_slots')::int,"
        " (SELECT count(*) FROM pg_stat_replication), current_setting('max_wal_senders')::int"
    )
    findings = []
    if not slot_exists and slots >= max_slots:
        reason = f"all {max_slots} replication slots are taken"
        remedy = f"Drop an unused slot, or ALTER SYSTEM SET max_replication_slots = {max_slots + _SPARE}; and restart."
        findings.append(refusal("source.slot", code="SLOTS_EXHAUSTED", reason=reason, remedy=remedy))
    if senders >= max_senders:
        reason = f"all {max_senders} WAL senders are busy"
        remedy = f"ALTER SYSTEM SET max_wal_senders = {max_senders + _SPARE}; and restart."
        findings.append(refusal("source", code="SENDERS_EXHAUSTED", reason=reason, remedy=remedy))
    return findings


async def examine_sessions(ask: Ask, config: PipelineConfig) -> list[Finding]:
    """The limit does not bind a superuser."""
    needed = READER_SESSIONS + config.snapshot.connections
    rows = await ask(
        "SELECT rolname, rolconnlimit FROM pg_roles WHERE rolname = current_user AND NOT rolsuper"
        " AND rolconnlimit BETWEEN 0 AND %s",
        [needed - 1],
    )
    return [
        caution(
            "snapshot.connections",
            code="ROLE_CONNECTIONS",
            reason=f"the role may have {limit} sessions; beside a snapshot the reader alone takes up to {needed}",
            remedy=f"ALTER ROLE {identifier(role)} CONNECTION LIMIT {2 * needed}; or lower snapshot.connections.",
        )
        for role, limit in rows
    ]
