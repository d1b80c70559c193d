"""The managed publication: made once, and kept as the configuration says; given ones are only looked at.

Invariant: a publication exists before its slot does, and one that vanished later is never made again here: WAL that was
written without it cannot be decoded with it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidegate.config.tables import TablePattern
from tidegate.errors import ConfigError
from tidegate.observability import logs
from tidegate.preflight.publications import OLDEST_VIA_ROOT
from tidegate.quoting import identifier, literal, qualified
from tidegate_reader.sources.postgres_wal.failures import publication_missing
from tidegate_reader.sources.postgres_wal.session import SideConnection

if TYPE_CHECKING:
    from tidegate.config.source import Limit, Publication

Table = tuple[str, str]
_MARK = "tidegate"
_MAX_TOLD = 20


@dataclass(frozen=True, slots=True)
class PublicationState:
    all_tables: bool
    via_root: bool
    tables: frozenset[Table]
    schemas: frozenset[str]
    comment: str = ""


async def ensure_publication(side: SideConnection, wanted: Publication, *, may_create: bool = True) -> None:
    """Created, or brought to what the configuration says, in one statement that counts from its commit on."""
    state = await _read(side, wanted.name)
    if state is None and not may_create:
        raise publication_missing()
    version = int(await side.value("SHOW server_version_num"))
    for statement in statements(wanted, state, version):
        await side.run(statement)
    if state is not None:
        _tell(wanted, state)


def statements(wanted: Publication, state: PublicationState | None, version: int) -> list[str]:
    """What has to be run so that the publication is as wanted; nothing if it is."""
    name = identifier(wanted.name)
    mark = f"COMMENT ON PUBLICATION {name} IS {literal(_definition(wanted))}"
    option = f"publish_via_partition_root = {'true' if wanted.publish_via_partition_root else 'false'}"
    knows_option = version >= OLDEST_VIA_ROOT
    if state is None:
        scope = "ALL TABLES" if wanted.all_tables else _scope(wanted.tables, wanted.limits)
        return [f"CREATE PUBLICATION {name} FOR {scope}" + (f" WITH ({option})" if knows_option else ""), mark]
    if wanted.all_tables != state.all_tables:
        raise ConfigError(
            f"publication {wanted.name} publishes {'all' if state.all_tables else 'some'} tables, not as configured",
            code="PUBLICATION_SCOPE",
            remedy="Drop it, or change source.publication. Changing it loses changes made in between.",
        )
    needed = []
    if not wanted.all_tables and not _is_as_wanted(wanted, state):
        needed.append(f"ALTER PUBLICATION {name} SET {_scope(wanted.tables, wanted.limits)}")
    if knows_option and wanted.publish_via_partition_root != state.via_root:
        needed.append(f"ALTER PUBLICATION {name} SET ({option})")
    return [*needed, mark] if needed else []


def _is_as_wanted(wanted: Publication, state: PublicationState) -> bool:
    """The server rewrites the text of a row filter, so what was asked for stands in the comment."""
    if wanted.limits and state.comment != _definition(wanted):
        return False
    return (_exact(wanted), _whole(wanted)) == (state.tables, state.schemas)


def _exact(wanted: Publication) -> frozenset[Table]:
    return frozenset((table.schema.text, table.table.text) for table in wanted.tables if table.is_exact)


def _whole(wanted: Publication) -> frozenset[str]:
    return frozenset(table.schema.text for table in wanted.tables if table.is_whole_schema)


def _definition(wanted: Publication) -> str:
    scope = "ALL TABLES" if wanted.all_tables else _scope(wanted.tables, wanted.limits)
    return f"{_MARK} {hashlib.blake2b(scope.encode(), digest_size=16).hexdigest()}"


def _scope(patterns: Sequence[TablePattern], limits: Sequence[Limit]) -> str:
    """Tables first: the form that PostgreSQL 10 knows, extended as 15 does."""
    of = {limit.table: limit for limit in limits}
    tables = [_table(each, of.get(each)) for each in patterns if each.is_exact]
    schemas = [identifier(each.schema.text) for each in patterns if not each.is_exact]
    parts = ["TABLE " + ", ".join(tables)] if tables else []
    return ", ".join([*parts, *(["TABLES IN SCHEMA " + ", ".join(schemas)] if schemas else [])])


def _table(pattern: TablePattern, limit: Limit | None) -> str:
    name = qualified(pattern.schema.text, pattern.table.text)
    columns = f" ({', '.join(map(identifier, limit.columns))})" if limit and limit.columns else ""
    # The expression is the operator's own SQL, as in CREATE PUBLICATION; the connection takes one statement at a time.
    return name + columns + (f" WHERE ({limit.where})" if limit and limit.where else "")


def _tell(wanted: Publication, state: PublicationState) -> None:
    if wanted.all_tables:
        return
    added = sorted(qualified(*table) for table in _exact(wanted) - state.tables)
    removed = sorted(qualified(*table) for table in state.tables - _exact(wanted))
    if added or removed:
        log = logs.get("reader")
        log.info("publication_set", publication=wanted.name, added=added[:_MAX_TOLD], removed=removed[:_MAX_TOLD])


async def _read(side: SideConnection, name: str) -> PublicationState | None:
    rows = await side.fetch(
        "SELECT to_jsonb(p), oid, obj_description(oid, 'pg_publication') FROM pg_publication p WHERE pubname = %s",
        [name],
    )
    if not rows:
        return None
    row, oid, comment = rows[0]
    tables = await side.fetch(
        "SELECT n.nspname, c.relname FROM pg_publication_rel r JOIN pg_class c ON c.oid = r.prrelid"
        " JOIN pg_namespace n ON n.oid = c.relnamespace WHERE r.prpubid = %s",
        [oid],
    )
    has_schemas = await side.value("SELECT to_regclass('pg_catalog.pg_publication_namespace') IS NOT NULL")
    schemas = await _schemas(side, oid) if has_schemas else frozenset()
    return PublicationState(
        row["puballtables"], row.get("pubviaroot", False), frozenset(tables), schemas, comment or ""
    )


async def _schemas(side: SideConnection, publication: int) -> frozenset[str]:
    rows = await side.fetch(
        "SELECT n.nspname FROM pg_publication_namespace p JOIN pg_namespace n ON n.oid = p.pnnspid"
        " WHERE p.pnpubid = %s",
        [publication],
    )
    return frozenset(row[0] for row in rows)
