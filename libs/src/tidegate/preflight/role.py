"""Whether our role may do what it will be asked to: replicate, and make the managed publication if it is not there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.preflight.ask import Ask
from tidegate.preflight.findings import Finding, refusal
from tidegate.quoting import identifier, qualified

if TYPE_CHECKING:
    from tidegate.config.source import PostgresSource, Publication

# Managed servers give the right to replicate by a role of theirs.
_REPLICATION = """
SELECT r.rolname, r.rolsuper, r.rolreplication OR r.rolsuper OR EXISTS (
  SELECT FROM pg_roles g WHERE g.rolname IN ('rds_replication', 'azure_pg_admin', 'cloudsqlsuperuser')
    AND pg_has_role(current_user, g.oid, 'member'))
FROM pg_roles r WHERE r.rolname = current_user
"""
_NOT_OWNED = """
SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE (n.nspname, c.relname) IN (SELECT * FROM unnest(%s::text[], %s::text[]))
  AND NOT pg_has_role(current_user, c.relowner, 'member') ORDER BY 1, 2
"""


async def examine_role(ask: Ask, source: PostgresSource) -> list[Finding]:
    [(role, is_super, may_replicate)] = await ask(_REPLICATION)
    findings = []
    if not may_replicate:
        remedy = f"ALTER ROLE {identifier(role)} REPLICATION;"
        reason = "the role may not replicate"
        findings.append(refusal("source.user", code="ROLE_REPLICATION", reason=reason, remedy=remedy))
    publication = source.publication
    exists = await ask("SELECT FROM pg_publication WHERE pubname = %s", [publication.name])
    if publication.manage and not is_super and not exists:
        findings += await _may_publish(ask, publication, role)
    return findings


async def _may_publish(ask: Ask, publication: Publication, role: str) -> list[Finding]:
    path = "source.publication"
    if publication.all_tables or any(table.is_whole_schema for table in publication.tables):
        reason = "only a superuser publishes all tables or whole schemas"
        remedy = "Let one create the publication, and give it by manage: false and names; or list the tables."
        return [refusal(path, code="ROLE_PUBLICATION", reason=reason, remedy=remedy)]
    findings = []
    if not (await ask("SELECT has_database_privilege(current_database(), 'CREATE')"))[0][0]:
        remedy = f"GRANT CREATE ON DATABASE … TO {identifier(role)}; or create the publication, and manage: false."
        reason = "the role may not create a publication in this database"
        findings.append(refusal(path, code="ROLE_PUBLICATION", reason=reason, remedy=remedy))
    names = [(table.schema.text, table.table.text) for table in publication.tables]
    foreign = await ask(_NOT_OWNED, [[schema for schema, _ in names], [table for _, table in names]])
    for schema, table in foreign:
        reason = f"only its owner may publish {qualified(schema, table)}"
        remedy = "Let the owner create the publication, and give it by manage: false and names."
        findings.append(refusal(path, code="ROLE_TABLE_OWNER", reason=reason, remedy=remedy))
    return findings
