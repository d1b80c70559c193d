"""/api/v1/pipelines: read-only. No logic: the watch has looked, the schema says it."""

from fastapi import APIRouter, Response
from pydantic import BaseModel

from tidegate_admin.deps import Deps, Given, PipelineName
from tidegate_admin.errors import pipeline_not_seen, pipeline_unknown
from tidegate_admin.paging import Cursor, Limit, encode_cursor, text_cursor
from tidegate_admin.pipelines.schemas import PipelineList, PipelineModel
from tidegate_admin.security.scopes import Scope, needs

router = APIRouter(prefix="/api/v1/pipelines", tags=["pipelines"])


@router.get("", summary="All pipelines of this service", response_model=PipelineList)
@needs(Scope.READ)
async def list_pipelines(deps: Given, cursor: Cursor = None, limit: Limit = 100) -> Response:
    after = text_cursor(cursor)
    found = [name for name in sorted(deps.watch.views) if name > after]
    last = encode_cursor(found[limit - 1]) if len(found) > limit else None
    return _json(PipelineList(items=[_pipeline(deps, name) for name in found[:limit]], next_cursor=last))


@router.get("/{name}", summary="One pipeline: reader, lanes, lag by stage, slot, gate", response_model=PipelineModel)
@needs(Scope.READ)
async def get_pipeline(name: PipelineName, deps: Given) -> Response:
    if name not in deps.watch.names:
        raise pipeline_unknown(name)
    return _json(_pipeline(deps, name))


def pipelines(deps: Deps) -> list[PipelineModel]:
    return [_pipeline(deps, name) for name in deps.watch.names if name in deps.watch.views]


def _pipeline(deps: Deps, name: str) -> PipelineModel:
    """Made once a look, however many ask."""
    view = deps.watch.views.get(name)
    if view is None:
        raise pipeline_not_seen(name)
    known = deps.models.get(name)
    if known is None or known[0] is not view:
        known = deps.models[name] = (view, PipelineModel.of(view, deps.watch.components(name)))
    return known[1]


def _json(model: BaseModel) -> Response:
    """Written once: a thousand lanes are half a megabyte, which need not be checked against their own model."""
    return Response(model.model_dump_json(), media_type="application/json")
