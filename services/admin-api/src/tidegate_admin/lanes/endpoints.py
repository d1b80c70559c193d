"""/api/v1/pipelines/{name}/lanes: their states, and what may be asked of one."""

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Path
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field

from tidegate_admin.deps import Given, Of, PipelineName
from tidegate_admin.errors import ApiError, pipeline_not_seen
from tidegate_admin.lanes.requests import not_served
from tidegate_admin.once import DoneOnce
from tidegate_admin.pipelines.schemas import LaneModel
from tidegate_admin.security.scopes import Scope, needs

router = APIRouter(prefix="/api/v1/pipelines/{name}/lanes", tags=["lanes"])

Lane = Annotated[str, Path(min_length=1, max_length=64, description="The sink's name.")]


class LaneList(BaseModel):
    items: list[LaneModel]
    next_cursor: str | None = None


class Rewind(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    commit_lsn: str = Field(pattern=r"^[0-9A-Fa-f]{1,8}/[0-9A-Fa-f]{1,8}$", description="Deliver what is behind it.")
    confirm: str = Field(max_length=64, description="The lane's name, typed again.")


class LaneAsked(BaseModel):
    id: str
    asked: str


@router.get("", summary="The lanes of a pipeline")
@needs(Scope.READ)
async def list_lanes(deps: Given, _of: Of, name: PipelineName) -> LaneList:
    view = deps.watch.views.get(name)
    if view is None:
        raise pipeline_not_seen(name)
    return LaneList(items=[LaneModel.of(lane) for lane in view.lanes])


@router.post("/{lane}/pause", summary="Have a lane pause", status_code=202, response_model=LaneAsked)
@needs(Scope.OPERATE)
async def pause_lane(of: Of, _once: DoneOnce, lane: Lane) -> JSONResponse:
    raise _refusal(of.has_sink(lane), "pause")


@router.post("/{lane}/resume", summary="Have a lane go on", status_code=202, response_model=LaneAsked)
@needs(Scope.OPERATE)
async def resume_lane(of: Of, _once: DoneOnce, lane: Lane) -> JSONResponse:
    raise _refusal(of.has_sink(lane), "resume")


@router.post("/{lane}/rewind", summary="Have a lane deliver again", status_code=202, response_model=LaneAsked)
@needs(Scope.OPERATE)
async def rewind_lane(of: Of, _once: DoneOnce, lane: Lane, _wanted: Rewind) -> JSONResponse:
    raise _refusal(of.has_sink(lane), "rewind")


def _refusal(is_known: bool, asked: str) -> ApiError:
    if is_known:
        return not_served(asked)
    return ApiError(
        HTTPStatus.NOT_FOUND, "there is no such lane", code="LANE_UNKNOWN", remedy="GET …/lanes lists them."
    )
