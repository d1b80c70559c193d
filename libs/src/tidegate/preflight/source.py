"""The source, asked through one plain connection: server, role, capacity, slot, publications, tables, what sinks
require of them, and what snapshots may read.

Invariant: only reads, and no driver is imported: the caller brings `ask`, the reader its own connection, the command
its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.preflight.ask import Ask
from tidegate.preflight.capacity import examine_capacity, examine_sessions
from tidegate.preflight.findings import Finding
from tidegate.preflight.publications import examine_publications
from tidegate.preflight.role import examine_role
from tidegate.preflight.rows import examine_rows
from tidegate.preflight.server import examine_server, version_of
from tidegate.preflight.slot import examine_slot
from tidegate.preflight.tables import examine_tables
from tidegate.preflight.whole_rows import examine_whole_rows

if TYPE_CHECKING:
    from tidegate.config.pipeline import PipelineConfig


async def examine_source(ask: Ask, config: PipelineConfig, backend_pid: int) -> list[Finding]:
    """`backend_pid` is what the server said of itself while connecting: a pooler in between says something else."""
    source = config.source
    version = await version_of(ask)
    slot, findings = await examine_slot(ask, source, version)
    return [
        *await examine_server(ask, version, backend_pid),
        *findings,
        *await examine_capacity(ask, slot_exists=slot is not None),
        *await examine_sessions(ask, config),
        *await examine_role(ask, source),
        *await examine_publications(ask, source, version),
        *await examine_tables(ask, source, version),
        *await examine_whole_rows(ask, config),
        *await examine_rows(ask, config, slot_exists=slot is not None),
    ]
