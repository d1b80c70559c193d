"""Whether a snapshot will see the rows of what is published: all of them, or none is read.

| it is taken | what it may not see |
| --- | --- |
| `always`, or at the first start: no slot is there | refuses the start |
| else by `snapshot.mode`, for a sink, behind a gap | is told: it may have been taken, or never be |
| by request alone | is told when it is asked for |

Each table is read where its rows lie, so of a partitioned one it is the leaves' rights and policies that decide.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tidegate.config.values import OnLost, SnapshotMode, StartFrom
from tidegate.preflight.ask import Ask
from tidegate.preflight.findings import Finding, Severity, refusal
from tidegate.preflight.tables import LEAVES, LISTED, MAX_NAMED_TABLES, wanted_tables
from tidegate.quoting import identifier, qualified

if TYPE_CHECKING:
    from tidegate.config.pipeline import PipelineConfig

_HIDDEN = f"""
SELECT DISTINCT n.nspname, c.relname FROM ({LISTED}) published {LEAVES}
WHERE row_security_active(c.oid) ORDER BY 1, 2
"""  # noqa: S608  # made of constants


async def examine_rows(ask: Ask, config: PipelineConfig, *, slot_exists: bool) -> list[Finding]:
    if (path := _who_reads(config)) is None:
        return []
    parameters = wanted_tables(config.source.publication)
    [(role,)] = await ask("SELECT current_user::text")
    findings = []
    if hidden := [qualified(schema, table) for schema, table in await ask(_HIDDEN, parameters)]:
        findings.append(
            refusal(
                path,
                code="SNAPSHOT_POLICY",
                reason=f"a policy decides which rows the role sees, so a snapshot would fail, of {_named(hidden)}",
                remedy=f"ALTER ROLE {identifier(role)} BYPASSRLS; as a superuser. Or leave these tables out of the "
                "publication.",
            )
        )
    if _is_certain(config.snapshot.mode, slot_exists=slot_exists):
        return findings
    return [replace(each, severity=Severity.CAUTION) for each in findings]


def _who_reads(config: PipelineConfig) -> str | None:
    """The setting by which tables are read without being asked for."""
    if config.snapshot.mode is not SnapshotMode.NEVER:
        return "snapshot.mode"
    if config.source.slot.on_lost is OnLost.RESNAPSHOT:
        return "source.slot.on_lost"
    sinks = [sink.name for sink in config.sinks if sink.start_from is StartFrom.SNAPSHOT]
    return f"sinks.{sinks[0]}.from" if sinks else None


def _is_certain(mode: SnapshotMode, *, slot_exists: bool) -> bool:
    return mode is SnapshotMode.ALWAYS or (mode is not SnapshotMode.NEVER and not slot_exists)


def _named(tables: list[str]) -> str:
    more = len(tables) - MAX_NAMED_TABLES
    return ", ".join(tables[:MAX_NAMED_TABLES]) + (f" and {more} more" if more > 0 else "")
