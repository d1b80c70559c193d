"""/api/v1/pipelines/{name}/source: what could be published."""

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Query

from tidegate_admin.deps import Of
from tidegate_admin.errors import ApiError
from tidegate_admin.paging import Cursor, Limit, decode_cursor, encode_cursor, text_cursor
from tidegate_admin.security.scopes import Scope, needs
from tidegate_admin.source import discovery
from tidegate_admin.source.schemas import SchemaList, SourceModel, TableDetails, TableList

router = APIRouter(prefix="/api/v1/pipelines/{name}/source", tags=["source"])

Catalogued = Annotated[str, Query(min_length=1, max_length=63, pattern=r"^[^\x00]+$")]


@router.get("", summary="The source's server and its databases")
@needs(Scope.READ)
async def get_source(of: Of) -> SourceModel:
    async with of.sessions.reading() as session:
        return await discovery.describe(session, of.config.source.database)


@router.get("/schemas", summary="Schemas of the pipeline's database")
@needs(Scope.READ)
async def list_source_schemas(of: Of, cursor: Cursor = None, limit: Limit = 100) -> SchemaList:
    async with of.sessions.reading() as session:
        found = await discovery.list_schemas(session, text_cursor(cursor), limit + 1)
    last = encode_cursor(found[limit - 1].name) if len(found) > limit else None
    return SchemaList(items=found[:limit], next_cursor=last)


@router.get("/tables", summary="Tables: identity, size, published or not")
@needs(Scope.READ)
async def list_source_tables(
    of: Of, schema: Catalogued | None = None, cursor: Cursor = None, limit: Limit = 100
) -> TableList:
    after = decode_cursor(cursor, str, str) if cursor else ("", "")
    async with of.sessions.reading() as session:
        found = await discovery.list_tables(session, of.config, schema, (str(after[0]), str(after[1])), limit + 1)
    last = found[limit - 1] if len(found) > limit else None
    return TableList(items=found[:limit], next_cursor=encode_cursor(last.schema_name, last.table) if last else None)


@router.get("/table", summary="One table: columns, their types and how an event holds them, keys")
@needs(Scope.READ)
async def get_source_table(of: Of, schema: Catalogued, table: Catalogued) -> TableDetails:
    async with of.sessions.reading() as session:
        found = await discovery.describe_table(session, of.config, schema, table)
    if found is None:
        raise ApiError(
            HTTPStatus.NOT_FOUND,
            "there is no such table",
            code="TABLE_UNKNOWN",
            remedy="GET …/source/tables lists them.",
        )
    return found
