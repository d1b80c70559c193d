"""Whether the server has a slot and a sender left for us."""

from tidegate.preflight.ask import Ask
from tidegate.preflight.findings import Finding, refusal

_SPARE = 5


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
