"""/api/v1/pipelines: read-only. No logic: the watch has looked, the schema says it."""

from typing import Annotated

from fastapi import APIRouter, Path

from tidegate_admin.deps import Deps, Given
from tidegate_admin.errors import pipeline_not_seen, pipeline_unknown
from tidegate_admin.pipelines.schemas import PipelineList, PipelineModel
from tidegate_admin.security.scopes import Scope, needs

router = APIRouter(prefix="/api/v1/pipelines", tags=["pipelines"])


@router.get("", summary="All pipelines of this service")
@needs(Scope.READ)
def list_pipelines(deps: Given) -> PipelineList:
    return PipelineList(items=pipelines(deps))


@router.get("/{name}", summary="One pipeline: reader, lanes, lag by stage, slot, gate")
@needs(Scope.READ)
def get_pipeline(name: Annotated[str, Path(max_length=64)], deps: Given) -> PipelineModel:
    if name not in deps.watch.names:
        raise pipeline_unknown(name)
    return _pipeline(deps, name)


def pipelines(deps: Deps) -> list[PipelineModel]:
    return [_pipeline(deps, name) for name in deps.watch.names if name in deps.watch.views]


def _pipeline(deps: Deps, name: str) -> PipelineModel:
    view = deps.watch.views.get(name)
    if view is None:
        raise pipeline_not_seen(name)
    return PipelineModel.of(view, deps.watch.components(name))
