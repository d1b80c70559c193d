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

# A right to columns is none here: neither does it let a role lock the table, nor look at where in it a row lies.
_LEAVES = f"""
SELECT DISTINCT n.nspname, c.relname, row_security_active(c.oid),
  has_schema_privilege(n.oid, 'USAGE') AND has_table_privilege(c.oid, 'SELECT')
FROM ({LISTED}) published {LEAVES} ORDER BY 1, 2
"""  # noqa: S608  # made of constants


async def examine_rows(ask: Ask, config: PipelineConfig, *, slot_exists: bool) -> list[Finding]:
    if (path := _who_reads(config)) is None:
        return []
    [(role,)] = await ask("SELECT current_user::text")
    leaves = await ask(_LEAVES, wanted_tables(config.source.publication))
    denied = [qualified(schema, table) for schema, table, _, may_read in leaves if not may_read]
    hidden = [qualified(schema, table) for schema, table, is_hidden, _ in leaves if is_hidden]
    findings = [*_denied(path, identifier(role), denied), *_hidden(path, identifier(role), hidden)]
    if _is_certain(config.snapshot.mode, slot_exists=slot_exists):
        return findings
    return [replace(each, severity=Severity.CAUTION) for each in findings]


def _denied(path: str, role: str, tables: list[str]) -> list[Finding]:
    if not tables:
        return []
    return [
        refusal(
            path,
            code="SNAPSHOT_RIGHTS",
            reason=f"the role may not read {_named(tables)}, so a snapshot would fail",
            remedy=f"GRANT SELECT on each of them as a whole, a partition too, and USAGE on its schema, to {role}. A "
            "right to single columns is not enough.",
        )
    ]


def _hidden(path: str, role: str, tables: list[str]) -> list[Finding]:
    if not tables:
        return []
    return [
        refusal(
            path,
            code="SNAPSHOT_POLICY",
            reason=f"a policy decides which rows the role sees, so a snapshot would fail, of {_named(tables)}",
            remedy=f"ALTER ROLE {role} BYPASSRLS; as a superuser. Or leave these tables out of the publication.",
        )
    ]


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
