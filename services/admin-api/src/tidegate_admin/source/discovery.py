"""What a source has: databases, schemas, tables, columns, and how each column will look in an event.

Invariant: only the catalogue is read, never a row.
"""

from collections.abc import Mapping
from typing import Any

from tidegate.config.pipeline import PipelineConfig
from tidegate.pgoutput.types import Kind, kind_of
from tidegate_admin.publications.schemas import Identity
from tidegate_admin.publications.service import IDENTITY
from tidegate_admin.source.schemas import (
    ColumnModel,
    DatabaseModel,
    SchemaModel,
    SourceModel,
    TableDetails,
    TableModel,
)
from tidegate_admin.source.session import Session

JSON_FORMS: Mapping[Kind, str] = {
    Kind.BOOL: "true or false",
    Kind.INTEGER: "number",
    Kind.FLOAT: "number, or string where it is not finite",
    Kind.NUMERIC: "string of digits",
    Kind.BPCHAR: "string",
    Kind.BYTEA: "string, base64",
    Kind.JSON: "embedded JSON",
    Kind.TIMESTAMP: "string, RFC 3339 without offset",
    Kind.TIMESTAMPTZ: "string, RFC 3339 in UTC",
    Kind.ARRAY: "array",
    Kind.TEXT: "string",
}

_OURS = "n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname NOT LIKE 'pg\\_%%'"
_SERVER = """
SELECT current_setting('server_version'), current_setting('wal_level'), pg_is_in_recovery(),
       CASE WHEN pg_is_in_recovery() THEN pg_last_wal_receive_lsn() ELSE pg_current_wal_lsn() END::text,
       current_setting('max_replication_slots')::int, (SELECT count(*) FROM pg_replication_slots),
       (SELECT setting::bigint * 1048576 FROM pg_settings WHERE name = 'max_slot_wal_keep_size'),
       CASE WHEN has_function_privilege('pg_control_system()', 'EXECUTE')
            THEN (SELECT system_identifier::text FROM pg_control_system()) END
"""
_DATABASES = """
SELECT datname, pg_encoding_to_char(encoding),
       CASE WHEN has_database_privilege(oid, 'CONNECT') THEN pg_database_size(oid) END
FROM pg_database WHERE datallowconn AND NOT datistemplate ORDER BY datname LIMIT 1000
"""
_SCHEMAS = (
    "SELECT n.nspname, count(c.oid) FROM pg_namespace n"  # noqa: S608 - constants
    " LEFT JOIN pg_class c ON c.relnamespace = n.oid AND c.relkind IN ('r', 'p')"
    " WHERE n.nspname > %s AND " + _OURS + " GROUP BY 1 ORDER BY 1 LIMIT %s"
)
_TABLES = (
    "SELECT n.nspname, c.relname, " + IDENTITY + ", c.relkind = 'p', c.reltuples::bigint, pg_table_size(c.oid),"  # noqa: S608 - constants
    " ARRAY(SELECT t.pubname::text FROM pg_publication_tables t"
    "       WHERE t.schemaname = n.nspname AND t.tablename = c.relname ORDER BY 1), c.oid"
    " FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
    " WHERE c.relkind IN ('r', 'p') AND c.relpersistence = 'p' AND " + _OURS
)
_PAGE = (
    _TABLES + " AND (n.nspname, c.relname) > (%s, %s) AND (%s::text IS NULL OR n.nspname = %s) ORDER BY 1, 2 LIMIT %s"
)
_ONE = _TABLES + " AND n.nspname = %s AND c.relname = %s"
# A domain is sent as what it is made of, however many domains lie between.
_COLUMNS = """
WITH RECURSIVE base(attnum, oid, typbasetype) AS (
    SELECT a.attnum, t.oid, t.typbasetype FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
    WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped
    UNION ALL
    SELECT b.attnum, t.oid, t.typbasetype FROM base b JOIN pg_type t ON t.oid = b.typbasetype WHERE b.typbasetype <> 0
)
SELECT a.attname, format_type(a.atttypid, a.atttypmod), b.oid::bigint, NOT a.attnotnull, a.attgenerated <> '',
       CASE c.relreplident WHEN 'f' THEN true WHEN 'n' THEN false ELSE EXISTS (
           SELECT FROM pg_index i WHERE i.indrelid = c.oid AND a.attnum = ANY(i.indkey)
           AND CASE c.relreplident WHEN 'i' THEN i.indisreplident ELSE i.indisprimary END) END
FROM pg_attribute a JOIN base b ON b.attnum = a.attnum AND b.typbasetype = 0 JOIN pg_class c ON c.oid = a.attrelid
WHERE a.attrelid = %s ORDER BY a.attnum
"""


async def describe(session: Session, database: str) -> SourceModel:
    row = await (await session.execute(_SERVER)).fetchone()
    assert row is not None
    databases = await (await session.execute(_DATABASES)).fetchall()
    version, wal_level, is_standby, lsn, slots, used, keep, system_identifier = row
    return SourceModel(
        version=version,
        system_identifier=system_identifier,
        wal_level=wal_level,
        is_standby=is_standby,
        current_lsn=lsn,
        max_replication_slots=slots,
        used_replication_slots=used,
        max_slot_wal_keep_bytes=keep if keep is not None and keep >= 0 else None,
        databases=[
            DatabaseModel(name=name, is_pipelines=name == database, encoding=encoding, bytes=size)
            for name, encoding, size in databases
        ],
    )


async def list_schemas(session: Session, after: str, limit: int) -> list[SchemaModel]:
    rows = await (await session.execute(_SCHEMAS, [after, limit])).fetchall()
    return [SchemaModel(name=name, tables=tables) for name, tables in rows]


async def list_tables(
    session: Session, config: PipelineConfig, schema: str | None, after: tuple[str, str], limit: int
) -> list[TableModel]:
    rows = await (await session.execute(_PAGE, [*after, schema, schema, limit])).fetchall()
    return [TableModel(**_table(row, config)) for row in rows]


async def describe_table(session: Session, config: PipelineConfig, schema: str, table: str) -> TableDetails | None:
    row = await (await session.execute(_ONE, [schema, table])).fetchone()
    if row is None:
        return None
    columns = await (await session.execute(_COLUMNS, [row[-1], row[-1]])).fetchall()
    return TableDetails(**_table(row, config), columns=[_column(*column) for column in columns])


def _table(row: tuple[Any, ...], config: PipelineConfig) -> dict[str, Any]:
    schema, table, identity, is_partitioned, rows, size, publications, _ = row
    return {
        "schema": schema,
        "table": table,
        "identity": Identity(identity),
        "is_partitioned": is_partitioned,
        "rows": rows if rows >= 0 else None,
        "bytes": size,
        "publications": publications,
        "is_published": bool(set(publications) & set(config.publication_names)),
    }


def _column(name: str, kind: str, oid: int, nullable: bool, is_generated: bool, is_key: bool) -> ColumnModel:
    return ColumnModel(
        name=name,
        type=kind,
        json_form=JSON_FORMS[kind_of(oid)],
        nullable=nullable,
        is_key=is_key,
        is_generated=is_generated,
    )
