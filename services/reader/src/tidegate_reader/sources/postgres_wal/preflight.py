"""What has to be right at the source before the first byte is read; every finding at once, with the SQL that mends it.

Invariant: nothing is created or changed here.
"""

from tidegate.config.source import PostgresSource
from tidegate.errors import ConfigError, Problem
from tidegate.quoting import identifier, qualified
from tidegate_reader.sources.postgres_wal.publications import missing_publications, missing_tables
from tidegate_reader.sources.postgres_wal.session import SideConnection

OLDEST_VERSION = 100_000
OLDEST_STANDBY_VERSION = 160_000
_MAX_NAMED_TABLES = 20

# A table whose UPDATE and DELETE PostgreSQL refuses once it is published for them.
_WITHOUT_IDENTITY = """
WITH published AS (
  SELECT DISTINCT t.schemaname, t.tablename FROM pg_publication p JOIN pg_publication_tables t ON t.pubname = p.pubname
  WHERE p.pubname = ANY(%(given)s) AND (p.pubupdate OR p.pubdelete)
), wanted AS (
  SELECT schemaname, tablename FROM published
  UNION SELECT * FROM unnest(%(schemas)s::text[], %(tables)s::text[])
)
SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') AND c.relpersistence = 'p'
  AND n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname NOT LIKE 'pg\\_%%'
  AND ((n.nspname, c.relname) IN (SELECT schemaname, tablename FROM wanted)
       OR n.nspname = ANY(%(whole)s) OR %(every)s)
  AND CASE c.relreplident
        WHEN 'f' THEN false
        WHEN 'd' THEN NOT EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary)
        WHEN 'i' THEN NOT EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisreplident)
        ELSE true
      END
ORDER BY 1, 2
"""


async def preflight(side: SideConnection, source: PostgresSource, *, slot_exists: bool) -> int:
    """The server's version; a ConfigError with all findings if it cannot be read from."""
    version = int(await side.value("SHOW server_version_num"))
    problems = [
        *await _server(side, version),
        *await _role(side),
        *await _capacity(side, slot_exists=slot_exists),
        *await _tables(side, source),
    ]
    if problems:
        raise ConfigError(
            f"{len(problems)} finding(s) at the source",
            code="SOURCE_PREFLIGHT",
            remedy="Mend each of them; nothing has been created or changed.",
            problems=tuple(problems),
        )
    return version


async def _server(side: SideConnection, version: int) -> list[Problem]:
    problems = []
    if version < OLDEST_VERSION:
        problems.append(_problem("SERVER_TOO_OLD", "PostgreSQL before 10 has no pgoutput", "Upgrade the server."))
    if await side.value("SHOW wal_level") != "logical":
        remedy = "ALTER SYSTEM SET wal_level = 'logical'; then restart the server."
        problems.append(_problem("WAL_LEVEL", "wal_level is not logical", remedy))
    if version < OLDEST_STANDBY_VERSION and await side.value("SELECT pg_is_in_recovery()"):
        reason = "the server is a standby, which decodes from PostgreSQL 16 on"
        problems.append(_problem("SERVER_STANDBY", reason, "Point source at the primary.", "source.host"))
    return problems


async def _role(side: SideConnection) -> list[Problem]:
    role, allowed = (
        await side.fetch("SELECT rolname, rolreplication OR rolsuper FROM pg_roles WHERE rolname = current_user")
    )[0]
    # Managed servers give the right by a role of theirs.
    managed = await side.value(
        "SELECT count(*) FROM pg_roles WHERE rolname IN ('rds_replication', 'azure_pg_admin')"
        " AND pg_has_role(current_user, oid, 'member')"
    )
    if allowed or managed:
        return []
    remedy = f"ALTER ROLE {identifier(role)} REPLICATION;"
    return [_problem("ROLE_REPLICATION", "the role may not replicate", remedy, "source.user")]


async def _capacity(side: SideConnection, *, slot_exists: bool) -> list[Problem]:
    slots, max_slots, senders, max_senders = (
        await side.fetch(
            "SELECT (SELECT count(*) FROM pg_replication_slots), current_setting('max_replication_slots')::int,"
            " (SELECT count(*) FROM pg_stat_replication), current_setting('max_wal_senders')::int"
        )
    )[0]
    problems = []
    if not slot_exists and slots >= max_slots:
        remedy = f"Drop an unused slot, or ALTER SYSTEM SET max_replication_slots = {max_slots + 5}; and restart."
        problems.append(_problem("SLOTS_EXHAUSTED", f"all {max_slots} replication slots are taken", remedy))
    if senders >= max_senders:
        remedy = f"ALTER SYSTEM SET max_wal_senders = {max_senders + 5}; and restart."
        problems.append(_problem("SENDERS_EXHAUSTED", f"all {max_senders} WAL senders are busy", remedy))
    return problems


async def _tables(side: SideConnection, source: PostgresSource) -> list[Problem]:
    publication = source.publication
    if publication.manage:
        problems = await missing_tables(side, publication)
    else:
        problems = await missing_publications(side, publication.names)
    exact = [table for table in publication.tables if table.is_exact]
    rows = await side.fetch(
        _WITHOUT_IDENTITY,
        {
            "given": list(publication.names),
            "schemas": [table.schema.text for table in exact],
            "tables": [table.table.text for table in exact],
            "whole": [table.schema.text for table in publication.tables if table.is_whole_schema],
            "every": publication.all_tables,
        },
    )
    problems += [_without_identity(schema, table) for schema, table in rows[:_MAX_NAMED_TABLES]]
    if len(rows) > _MAX_NAMED_TABLES:
        more = f"{len(rows) - _MAX_NAMED_TABLES} more tables have no replica identity"
        problems.append(_problem("REPLICA_IDENTITY", more, "See pg_class.relreplident.", "source.publication"))
    return problems


def _without_identity(schema: str, table: str) -> Problem:
    name = qualified(schema, table)
    return Problem(
        "source.publication",
        code="REPLICA_IDENTITY",
        reason=f"{name} has no usable replica identity: once published, UPDATE and DELETE on it fail",
        remedy=f"ALTER TABLE {name} ADD PRIMARY KEY (…); or ALTER TABLE {name} REPLICA IDENTITY FULL;",
    )


def _problem(code: str, reason: str, remedy: str, path: str = "source") -> Problem:
    return Problem(path, code=code, reason=reason, remedy=remedy)
