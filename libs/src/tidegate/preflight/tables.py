"""Tables whose UPDATE and DELETE PostgreSQL refuses once they are published: that would break the application.

Refused, or only told if `source.publication.without_identity` says `allow`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.config.values import WithoutIdentity
from tidegate.preflight.ask import Ask
from tidegate.preflight.findings import Finding, caution, refusal
from tidegate.preflight.publications import OLDEST_SCHEMAS
from tidegate.quoting import qualified

if TYPE_CHECKING:
    from tidegate.config.source import PostgresSource, Publication

MAX_NAMED_TABLES = 20

LISTED = """
WITH published AS (
  SELECT DISTINCT t.schemaname, t.tablename FROM pg_publication p JOIN pg_publication_tables t ON t.pubname = p.pubname
  WHERE p.pubname = ANY(%(given)s)
), wanted AS (
  SELECT schemaname, tablename FROM published
  UNION SELECT * FROM unnest(%(schemas)s::text[], %(tables)s::text[])
)
SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') AND c.relpersistence = 'p'
  AND n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname NOT LIKE 'pg\\_%%'
  AND ((n.nspname, c.relname) IN (SELECT schemaname, tablename FROM wanted)
       OR n.nspname = ANY(%(whole)s) OR %(every)s)
"""
"""Tables that are published, or will be: a managed publication may not be there yet."""
PUBLISHED = LISTED.replace("ANY(%(given)s)", "ANY(%(given)s) AND (p.pubupdate OR p.pubdelete)")
"""Those whose updates or deletes are."""
UPDATED = LISTED.replace("ANY(%(given)s)", "ANY(%(given)s) AND p.pubupdate")
"""Those whose updates are."""
# Before PostgreSQL 12 there is no pg_partition_tree.
LEAVES = """
JOIN pg_namespace pn ON pn.nspname = published.nspname
JOIN pg_class top ON top.relnamespace = pn.oid AND top.relname = published.relname
CROSS JOIN LATERAL (
  WITH RECURSIVE part(oid) AS (
    SELECT top.oid
    UNION ALL SELECT i.inhrelid FROM part JOIN pg_inherits i ON i.inhparent = part.oid
      JOIN pg_class child ON child.oid = i.inhrelid WHERE child.relispartition
  ) SELECT oid FROM part
) part
JOIN pg_class c ON c.oid = part.oid AND c.relkind = 'r'
JOIN pg_namespace n ON n.oid = c.relnamespace
"""
"""Of a list called `published`: each table `c` that holds rows, and its schema `n`."""

_HAS_NO_IDENTITY = """
  AND CASE c.relreplident
        WHEN 'f' THEN false
        WHEN 'd' THEN NOT EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary)
        WHEN 'i' THEN NOT EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisreplident)
        ELSE true
      END
ORDER BY 1, 2
"""
# Columns of the identity that a column list leaves out, and columns of a row filter that the identity does not have.
# The filter's tree names its columns (nodes/primnodes.h); pg_depend holds those of the list as well.
_NARROWED = r"""
WITH narrowed AS (
  SELECT r.oid, r.prrelid, r.prattrs, r.prqual, c.relreplident, ARRAY(
    SELECT a FROM pg_index i, unnest(i.indkey) a WHERE i.indrelid = c.oid AND a > 0
      AND CASE c.relreplident WHEN 'd' THEN i.indisprimary WHEN 'i' THEN i.indisreplident ELSE false END) AS identity
  FROM pg_publication_rel r JOIN pg_publication p ON p.oid = r.prpubid JOIN pg_class c ON c.oid = r.prrelid
  WHERE p.pubname = ANY(%s) AND (p.pubupdate OR p.pubdelete)
)
SELECT n.nspname, c.relname FROM narrowed w JOIN pg_class c ON c.oid = w.prrelid
JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE (w.prattrs IS NOT NULL AND (w.relreplident = 'f' OR NOT w.identity <@ w.prattrs::int2[]))
   OR (w.relreplident <> 'f' AND EXISTS (
     SELECT FROM regexp_matches(w.prqual::text, ':varattno (\d+)', 'g') used
     WHERE NOT used[1]::int2 = ANY(w.identity)))
ORDER BY 1, 2
"""


async def examine_tables(ask: Ask, source: PostgresSource, version: int) -> list[Finding]:
    publication = source.publication
    rows = await ask(PUBLISHED + _HAS_NO_IDENTITY, wanted_tables(publication))
    allowed = publication.without_identity is WithoutIdentity.ALLOW
    findings = [_finding(_without_identity(schema, table), allowed) for schema, table in rows[:MAX_NAMED_TABLES]]
    if len(rows) > MAX_NAMED_TABLES:
        more = f"{len(rows) - MAX_NAMED_TABLES} more tables have no usable replica identity"
        findings.append(_finding((more, "See pg_class.relreplident."), allowed))
    if version >= OLDEST_SCHEMAS:
        # The managed one is about to be set to what the configuration says: what it is now refuses nothing.
        names = [publication.name] if publication.manage else list(publication.names)
        allowed = allowed or publication.manage
        findings += [_narrowed(schema, table, allowed=allowed) for schema, table in await ask(_NARROWED, [names])]
    return findings


def wanted_tables(publication: Publication) -> dict[str, object]:
    """Parameters of `LISTED` and what is made of it."""
    exact = [table for table in publication.tables if table.is_exact]
    return {
        "given": list(publication.names),
        "schemas": [table.schema.text for table in exact],
        "tables": [table.table.text for table in exact],
        "whole": [table.schema.text for table in publication.tables if table.is_whole_schema],
        "every": publication.all_tables,
    }


def _without_identity(schema: str, table: str) -> tuple[str, str]:
    name = qualified(schema, table)
    return (
        f"{name} has no usable replica identity: once published, UPDATE and DELETE on it fail",
        f"ALTER TABLE {name} ADD PRIMARY KEY (…); or ALTER TABLE {name} REPLICA IDENTITY FULL; or accept it with "
        "source.publication.without_identity: allow, for tables that are only inserted into.",
    )


def _finding(told: tuple[str, str], allowed: bool) -> Finding:
    reason, remedy = told
    if allowed:
        return caution("source.publication", code="REPLICA_IDENTITY", reason=reason, remedy=remedy)
    return refusal("source.publication", code="REPLICA_IDENTITY", reason=reason, remedy=remedy)


def _narrowed(schema: str, table: str, *, allowed: bool) -> Finding:
    kind = caution if allowed else refusal
    return kind(
        "source.publication",
        code="IDENTITY_NARROWED",
        reason=f"the column list or row filter of {qualified(schema, table)} does not go with its replica identity: "
        "UPDATE and DELETE on it fail",
        remedy="Put every identity column into the list and only identity columns into the filter.",
    )
