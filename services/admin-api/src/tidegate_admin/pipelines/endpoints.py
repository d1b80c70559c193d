"""/api/v1/pipelines: what the watch has seen, as the schema says it, and how one begins anew."""

import asyncio
import json
from collections.abc import Iterable
from functools import partial

from fastapi import APIRouter, Response
from fastapi.responses import JSONResponse

from tidegate_admin.deps import Deps, Given, Of, PipelineName
from tidegate_admin.errors import pipeline_not_seen, pipeline_unknown
from tidegate_admin.once import DoneOnce
from tidegate_admin.paging import Cursor, Limit, encode_cursor, text_cursor
from tidegate_admin.pipelines.forgetting import forget
from tidegate_admin.pipelines.pictures import Rendering
from tidegate_admin.pipelines.schemas import ForgetPipeline, PipelineForgotten, PipelineList, PipelineModel
from tidegate_admin.security.scopes import Scope, needs

router = APIRouter(prefix="/api/v1/pipelines", tags=["pipelines"])


@router.get("", summary="All pipelines of this service", response_model=PipelineList)
@needs(Scope.READ)
async def list_pipelines(deps: Given, cursor: Cursor = None, limit: Limit = 100) -> Response:
    after = text_cursor(cursor)
    found = [name for name in sorted(deps.watch.views) if name > after]
    last = encode_cursor(found[limit - 1]) if len(found) > limit else None
    items = ",".join((await pictures(deps, found[:limit], PipelineModel.model_dump_json)).values())
    return _json(f'{{"items":[{items}],"next_cursor":{json.dumps(last)}}}')


@router.get("/{name}", summary="One pipeline: reader, lanes, lag by stage, slot, gate", response_model=PipelineModel)
@needs(Scope.READ)
async def get_pipeline(name: PipelineName, deps: Given) -> Response:
    if name not in deps.watch.names:
        raise pipeline_unknown(name)
    picture = deps.watch.picture(name, PipelineModel.model_dump_json)
    if picture is None:
        raise pipeline_not_seen(name)
    return _json(picture)


@router.post(
    "/{name}/forget", summary="Have a pipeline begin anew whose slot is gone", response_model=PipelineForgotten
)
@needs(Scope.DESTROY)
async def forget_pipeline(of: Of, once: DoneOnce, wanted: ForgetPipeline) -> JSONResponse:
    return await once.do(partial(forget, of, wanted))


async def pictures(deps: Deps, names: Iterable[str], rendering: Rendering) -> dict[str, str]:
    """Of those that were looked at. The first to ask has them all made: others are answered between."""
    made: dict[str, str] = {}
    for name in names:
        picture = deps.watch.picture(name, rendering)
        if picture is not None:
            made[name] = picture
        await asyncio.sleep(0)
    return made


def _json(text: str) -> Response:
    """Written once: a thousand lanes are half a megabyte, which need not be checked against their own model."""
    return Response(text, media_type="application/json")
