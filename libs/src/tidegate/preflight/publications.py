"""Whether what is to be published is there: the given publications, or the tables of the managed one.

A publication that is made later than the slot is not in the WAL before it: changes until then would be lost, or stop
the stream.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.preflight.ask import Ask
from tidegate.preflight.findings import Finding, refusal
from tidegate.quoting import identifier, qualified

if TYPE_CHECKING:
    from tidegate.config.source import PostgresSource, Publication

OLDEST_SCHEMAS = 150_000
"""TABLES IN SCHEMA, column lists and row filters."""
OLDEST_VIA_ROOT = 130_000

_KNOWN_TABLES = """
SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') AND (n.nspname, c.relname) IN (SELECT * FROM unnest(%s::text[], %s::text[]))
"""


async def examine_publications(ask: Ask, source: PostgresSource, version: int) -> list[Finding]:
    publication = source.publication
    if not publication.manage:
        return await _missing_publications(ask, publication.names)
    return [*_too_old_for(publication, version), *await _missing_tables(ask, publication)]


async def _missing_publications(ask: Ask, names: tuple[str, ...]) -> list[Finding]:
    found = {name for (name,) in await ask("SELECT pubname FROM pg_publication WHERE pubname = ANY(%s)", [list(names)])}
    return [
        refusal(
            "source.publication.names",
            code="PUBLICATION_UNKNOWN",
            reason=f"publication {name} does not exist",
            remedy=f"CREATE PUBLICATION {identifier(name)} FOR TABLE …;",
        )
        for name in names
        if name not in found
    ]


def _too_old_for(publication: Publication, version: int) -> list[Finding]:
    whole = any(table.is_whole_schema for table in publication.tables)
    if version >= OLDEST_SCHEMAS or not (whole or publication.limits):
        return []
    reason = "whole schemas, column lists and row filters are published from PostgreSQL 15 on"
    remedy = "List the tables one by one, without limits, or upgrade the server."
    return [refusal("source.publication", code="PUBLICATION_VERSION", reason=reason, remedy=remedy)]


async def _missing_tables(ask: Ask, publication: Publication) -> list[Finding]:
    exact = [(table.schema.text, table.table.text) for table in publication.tables if table.is_exact]
    schemas = [table.schema.text for table in publication.tables if table.is_whole_schema]
    found = set(await ask(_KNOWN_TABLES, [[schema for schema, _ in exact], [table for _, table in exact]]))
    known = {name for (name,) in await ask("SELECT nspname FROM pg_namespace")}
    absent = [f"table {qualified(*table)}" for table in exact if table not in found]
    absent += [f"schema {identifier(schema)}" for schema in schemas if schema not in known]
    return [
        refusal(
            "source.publication.tables",
            code="TABLE_UNKNOWN",
            reason=f"{name} does not exist",
            remedy="Create it first, or remove it from the list.",
        )
        for name in absent
    ]
