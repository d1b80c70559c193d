"""Publications as the catalogue has them, and one table more or less in one.

Invariant: a table that would make the application's own UPDATEs fail is not added unless that is said. A publication
that a reader keeps as its configuration says is not changed here: the reader would change it back, with a gap. Nor is
one that the pipeline does not read: it is somebody else's.
"""

from collections.abc import Iterable
from http import HTTPStatus
from typing import Any, LiteralString

from tidegate.config.pipeline import PipelineConfig
from tidegate.quoting import identifier, qualified
from tidegate_admin.errors import ApiError
from tidegate_admin.publications.schemas import (
    AddTable,
    Identity,
    PublicationChanged,
    PublicationModel,
    PublishedTable,
    RemoveTable,
)
from tidegate_admin.source.places import on_database_of
from tidegate_admin.source.session import Session

Pipelines = Iterable[PipelineConfig]
"""All of this service."""

_OPERATIONS = {"pubinsert": "insert", "pubupdate": "update", "pubdelete": "delete", "pubtruncate": "truncate"}

_PUBLICATIONS = """
SELECT to_jsonb(p), (SELECT count(*) FROM pg_publication_tables t WHERE t.pubname = p.pubname)
FROM pg_publication p WHERE p.pubname > %s AND (%s::text IS NULL OR p.pubname = %s) ORDER BY p.pubname LIMIT %s
"""
_IDENTITY = """
CASE c.relreplident WHEN 'f' THEN 'full' WHEN 'i' THEN 'index' WHEN 'n' THEN 'nothing'
     ELSE CASE WHEN EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary AND i.indisvalid)
               THEN 'primary_key' ELSE 'nothing' END END
"""
IDENTITY: LiteralString = _IDENTITY
"""Of a pg_class row named c."""
# attnames and rowfilter came with 15.
_TABLES = (
    "SELECT t.schemaname, t.tablename, "  # noqa: S608 - constants
    + _IDENTITY
    + """, to_jsonb(t) ->> 'rowfilter' IS NOT NULL,
       to_jsonb(t) -> 'attnames',
       (SELECT count(*) FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped),
       EXISTS (SELECT FROM pg_publication_rel r JOIN pg_publication p ON p.oid = r.prpubid
               WHERE r.prrelid = c.oid AND p.pubname = t.pubname)
FROM pg_publication_tables t
JOIN pg_namespace n ON n.nspname = t.schemaname
JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = t.tablename
WHERE t.pubname = %s AND (t.schemaname, t.tablename) > (%s, %s) ORDER BY 1, 2 LIMIT %s
"""
)
_TABLE = (
    "SELECT " + _IDENTITY + " FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"  # noqa: S608 - constants
    " WHERE n.nspname = %s AND c.relname = %s AND c.relkind IN ('r', 'p')"
)


async def list_publications(
    session: Session, pipelines: Pipelines, config: PipelineConfig, after: str, limit: int, name: str | None = None
) -> list[PublicationModel]:
    sources = [each.source.publication for each in on_database_of(config, pipelines)]
    managed = {source.name for source in sources if source.manage}
    cursor = await session.execute(_PUBLICATIONS, [after, name, name, limit])
    return [_publication(row, tables, config, managed) for row, tables in await cursor.fetchall()]


async def list_tables(session: Session, publication: str, after: tuple[str, str], limit: int) -> list[PublishedTable]:
    cursor = await session.execute(_TABLES, [publication, *after, limit])
    return [_table(*row) for row in await cursor.fetchall()]


async def add_table(
    session: Session, pipelines: Pipelines, config: PipelineConfig, name: str, wanted: AddTable
) -> PublicationChanged:
    publication = await _find(session, pipelines, config, name)
    cursor = await session.execute(_TABLE, [wanted.schema_name, wanted.table])
    row = await cursor.fetchone()
    if row is None:
        raise _refused(
            HTTPStatus.NOT_FOUND, "TABLE_UNKNOWN", "there is no such table", "GET …/source/tables lists them."
        )
    changes_rows = {"update", "delete"} & set(publication.operations)
    if row[0] == Identity.NOTHING and changes_rows and not wanted.accept_no_identity:
        raise _refused(
            HTTPStatus.CONFLICT,
            "TABLE_NO_IDENTITY",
            "the table has no replica identity: UPDATE and DELETE would fail in the application",
            "Give it a primary key, or ALTER TABLE … REPLICA IDENTITY FULL; or say accept_no_identity.",
        )
    await _alter(session, name, "ADD", wanted.schema_name, wanted.table)
    return PublicationChanged(publication=name, schema_name=wanted.schema_name, table=wanted.table, done="added")


async def remove_table(
    session: Session, pipelines: Pipelines, config: PipelineConfig, name: str, wanted: RemoveTable
) -> PublicationChanged:
    await _find(session, pipelines, config, name)
    if wanted.confirm != f"{wanted.schema_name}.{wanted.table}":
        raise _refused(
            HTTPStatus.UNPROCESSABLE_ENTITY,
            "CONFIRM_MISMATCH",
            "confirm is not the table's name",
            "Type schema.table into confirm, exactly.",
        )
    await _alter(session, name, "DROP", wanted.schema_name, wanted.table)
    return PublicationChanged(publication=name, schema_name=wanted.schema_name, table=wanted.table, done="removed")


async def _find(session: Session, pipelines: Pipelines, config: PipelineConfig, name: str) -> PublicationModel:
    found = await list_publications(session, pipelines, config, "", 1, name)
    if not found:
        raise _refused(
            HTTPStatus.NOT_FOUND,
            "PUBLICATION_UNKNOWN",
            "there is no such publication",
            "GET …/publications lists them.",
        )
    if found[0].all_tables:
        raise _refused(
            HTTPStatus.CONFLICT, "PUBLICATION_ALL", "it publishes all tables", "Nothing can be added or removed."
        )
    if found[0].is_managed:
        raise _refused(
            HTTPStatus.CONFLICT,
            "PUBLICATION_MANAGED",
            "a pipeline's reader keeps this publication as its configuration says",
            "Change that pipeline's source.publication.tables, and restart its reader.",
        )
    if not found[0].is_used:
        raise _refused(
            HTTPStatus.CONFLICT,
            "PUBLICATION_UNUSED",
            "this pipeline does not read this publication",
            "Ask at the pipeline that reads it, or change it in PostgreSQL.",
        )
    return found[0]


async def _alter(session: Session, publication: str, verb: LiteralString, schema: str, table: str) -> None:
    # Quoted by the one function that quotes, which is what makes this text safe.
    await session.execute(f"ALTER PUBLICATION {identifier(publication)} {verb} TABLE {qualified(schema, table)}")


def _publication(row: dict[str, Any], tables: int, config: PipelineConfig, managed: set[str]) -> PublicationModel:
    name = row["pubname"]
    return PublicationModel(
        name=name,
        is_used=name in config.publication_names,
        is_managed=name in managed,
        all_tables=row["puballtables"],
        operations=[operation for column, operation in _OPERATIONS.items() if row.get(column)],
        via_partition_root=bool(row.get("pubviaroot")),
        tables=tables,
    )


def _table(
    schema: str, table: str, identity: str, has_filter: bool, columns: list[str] | None, count: int, is_listed: bool
) -> PublishedTable:
    some = columns if columns is not None and len(columns) < count else None
    return PublishedTable(
        schema_name=schema,
        table=table,
        identity=Identity(identity),
        has_row_filter=has_filter,
        columns=some,
        is_listed=is_listed,
    )


def _refused(status: HTTPStatus, code: str, message: str, remedy: str) -> ApiError:
    return ApiError(status, message, code=code, remedy=remedy)
