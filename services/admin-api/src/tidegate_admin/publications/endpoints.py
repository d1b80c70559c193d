"""/api/v1/pipelines/{name}/publications: what is published, table by table."""

from typing import Annotated

from fastapi import APIRouter, Path
from fastapi.responses import JSONResponse

from tidegate_admin.deps import Given, Of
from tidegate_admin.once import DoneOnce
from tidegate_admin.paging import Cursor, Limit, decode_cursor, encode_cursor, text_cursor
from tidegate_admin.publications import service
from tidegate_admin.publications.schemas import (
    AddTable,
    PublicationChanged,
    PublicationList,
    PublishedTables,
    RemoveTable,
)
from tidegate_admin.security.scopes import Scope, needs

router = APIRouter(prefix="/api/v1/pipelines/{name}/publications", tags=["publications"])

Publication = Annotated[str, Path(min_length=1, max_length=63, pattern=r"^[^\x00]+$")]


@router.get("", summary="All publications of the pipeline's database")
@needs(Scope.READ)
async def list_publications(deps: Given, of: Of, cursor: Cursor = None, limit: Limit = 100) -> PublicationList:
    async with of.sessions.reading() as session:
        found = await service.list_publications(
            session, deps.settings.pipelines, of.config, text_cursor(cursor), limit + 1
        )
    last = encode_cursor(found[limit - 1].name) if len(found) > limit else None
    return PublicationList(items=found[:limit], next_cursor=last)


@router.get("/{publication}/tables", summary="Its tables, with replica identity")
@needs(Scope.READ)
async def list_published_tables(
    of: Of, publication: Publication, cursor: Cursor = None, limit: Limit = 100
) -> PublishedTables:
    schema, table = decode_cursor(cursor, str, str) if cursor else ("", "")
    after = (str(schema), str(table))
    async with of.sessions.reading() as session:
        found = await service.list_tables(session, publication, after, limit + 1)
    last = found[limit - 1] if len(found) > limit else None
    return PublishedTables(
        items=found[:limit], next_cursor=encode_cursor(last.schema_name, last.table) if last else None
    )


@router.post(
    "/{publication}/tables", summary="Publish one table more", status_code=201, response_model=PublicationChanged
)
@needs(Scope.OPERATE)
async def add_published_table(
    deps: Given, of: Of, once: DoneOnce, publication: Publication, wanted: AddTable
) -> JSONResponse:
    async def action() -> PublicationChanged:
        async with of.sessions.changing() as session:
            return await service.add_table(session, deps.settings.pipelines, of.config, publication, wanted)

    return await once.do(action)


@router.post(
    "/{publication}/tables/remove",
    summary="Publish one table less: its later changes reach nobody",
    response_model=PublicationChanged,
)
@needs(Scope.DESTROY)
async def remove_published_table(
    deps: Given, of: Of, once: DoneOnce, publication: Publication, wanted: RemoveTable
) -> JSONResponse:
    async def action() -> PublicationChanged:
        async with of.sessions.changing() as session:
            return await service.remove_table(session, deps.settings.pipelines, of.config, publication, wanted)

    return await once.do(action)
