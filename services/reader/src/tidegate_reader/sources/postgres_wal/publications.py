"""The publications: ours are made and kept as configured, given ones are only looked at.

Invariant: a publication exists before its slot does; WAL older than a publication cannot be decoded with it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from tidegate.config.source import Publication
from tidegate.config.tables import TablePattern
from tidegate.errors import ConfigError
from tidegate.quoting import identifier, qualified
from tidegate_reader.sources.postgres_wal.session import SideConnection

Table = tuple[str, str]


@dataclass(frozen=True, slots=True)
class PublicationState:
    all_tables: bool
    via_root: bool
    tables: frozenset[Table]
    schemas: frozenset[str]


async def ensure_publication(side: SideConnection, wanted: Publication) -> None:
    """The managed publication: created, or completed. What it publishes beyond the configuration stays."""
    state = await _read(side, wanted.name)
    if state is None:
        await side.run(_create_statement(wanted))
        return
    if wanted.all_tables != state.all_tables:
        raise ConfigError(
            f"publication {wanted.name} publishes {'all' if state.all_tables else 'some'} tables, not as configured",
            code="PUBLICATION_SCOPE",
            remedy="Drop it, or change source.publication. Changing it loses changes made in between.",
        )
    missing = _missing(wanted, state)
    if missing:
        await side.run(f"ALTER PUBLICATION {identifier(wanted.name)} ADD {_scope(missing)}")
    if wanted.publish_via_partition_root != state.via_root:
        await side.run(f"ALTER PUBLICATION {identifier(wanted.name)} SET ({_option(wanted)})")


async def _read(side: SideConnection, name: str) -> PublicationState | None:
    rows = await side.fetch("SELECT to_jsonb(p), oid FROM pg_publication p WHERE pubname = %s", [name])
    if not rows:
        return None
    row, oid = rows[0]
    tables = await side.fetch(
        "SELECT n.nspname, c.relname FROM pg_publication_rel r JOIN pg_class c ON c.oid = r.prrelid"
        " JOIN pg_namespace n ON n.oid = c.relnamespace WHERE r.prpubid = %s",
        [oid],
    )
    has_schemas = await side.value("SELECT to_regclass('pg_catalog.pg_publication_namespace') IS NOT NULL")
    schemas = await _schemas(side, oid) if has_schemas else frozenset()
    return PublicationState(row["puballtables"], row.get("pubviaroot", False), frozenset(tables), schemas)


async def _schemas(side: SideConnection, publication: int) -> frozenset[str]:
    rows = await side.fetch(
        "SELECT n.nspname FROM pg_publication_namespace p JOIN pg_namespace n ON n.oid = p.pnnspid"
        " WHERE p.pnpubid = %s",
        [publication],
    )
    return frozenset(row[0] for row in rows)


def _create_statement(wanted: Publication) -> str:
    scope = "ALL TABLES" if wanted.all_tables else _scope(wanted.tables)
    return f"CREATE PUBLICATION {identifier(wanted.name)} FOR {scope} WITH ({_option(wanted)})"


def _scope(patterns: Sequence[TablePattern]) -> str:
    """Tables first: the form that PostgreSQL 14 knows, extended as 15 does."""
    tables = [qualified(each.schema.text, each.table.text) for each in patterns if each.is_exact]
    schemas = [identifier(each.schema.text) for each in patterns if not each.is_exact]
    parts = ["TABLE " + ", ".join(tables)] if tables else []
    return ", ".join([*parts, *(["TABLES IN SCHEMA " + ", ".join(schemas)] if schemas else [])])


def _missing(wanted: Publication, state: PublicationState) -> list[TablePattern]:
    return [table for table in wanted.tables if not _is_published(table, state)]


def _is_published(table: TablePattern, state: PublicationState) -> bool:
    if table.is_exact:
        return (table.schema.text, table.table.text) in state.tables
    return table.schema.text in state.schemas


def _option(wanted: Publication) -> str:
    return f"publish_via_partition_root = {'true' if wanted.publish_via_partition_root else 'false'}"
