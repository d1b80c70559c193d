"""/api/v1/pipelines: read-only. No logic: the watch has looked, the schema says it."""

import json

from fastapi import APIRouter, Response

from tidegate_admin.deps import Deps, Given, PipelineName
from tidegate_admin.errors import pipeline_not_seen, pipeline_unknown
from tidegate_admin.paging import Cursor, Limit, encode_cursor, text_cursor
from tidegate_admin.pipelines.schemas import PipelineList, PipelineModel
from tidegate_admin.pipelines.watch import Picture
from tidegate_admin.security.scopes import Scope, needs

router = APIRouter(prefix="/api/v1/pipelines", tags=["pipelines"])


@router.get("", summary="All pipelines of this service", response_model=PipelineList)
@needs(Scope.READ)
async def list_pipelines(deps: Given, cursor: Cursor = None, limit: Limit = 100) -> Response:
    after = text_cursor(cursor)
    found = [name for name in sorted(deps.watch.views) if name > after]
    last = encode_cursor(found[limit - 1]) if len(found) > limit else None
    items = ",".join(_picture(deps, name).json for name in found[:limit])
    return _json(f'{{"items":[{items}],"next_cursor":{json.dumps(last)}}}')


@router.get("/{name}", summary="One pipeline: reader, lanes, lag by stage, slot, gate", response_model=PipelineModel)
@needs(Scope.READ)
async def get_pipeline(name: PipelineName, deps: Given) -> Response:
    if name not in deps.watch.names:
        raise pipeline_unknown(name)
    return _json(_picture(deps, name).json)


def pipelines(deps: Deps) -> list[PipelineModel]:
    return [_picture(deps, name).model for name in deps.watch.names if name in deps.watch.views]


def _picture(deps: Deps, name: str) -> Picture:
    picture = deps.watch.picture(name)
    if picture is None:
        raise pipeline_not_seen(name)
    return picture


def _json(text: str) -> Response:
    """Written once: a thousand lanes are half a megabyte, which need not be checked against their own model."""
    return Response(text, media_type="application/json")
