"""/api/v1/pipelines/{name}/lanes: their states, and what may be asked of one, or of all of a pipeline."""

from http import HTTPStatus
from typing import Annotated, Any, Self

from fastapi import APIRouter, Path
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field, model_validator

from tidegate.contracts.request import Asked, Result
from tidegate.lsn import parse_lsn
from tidegate.position import before
from tidegate_admin.access import PipelineAccess
from tidegate_admin.deps import Asking, Given, Of, PipelineName
from tidegate_admin.errors import ApiError, pipeline_not_seen
from tidegate_admin.lanes import requests
from tidegate_admin.once import DoneOnce, Once
from tidegate_admin.pipelines.schemas import LaneModel
from tidegate_admin.security.scopes import Caller, Scope, needs
from tidegate_admin.slots.schemas import LsnText

router = APIRouter(prefix="/api/v1/pipelines/{name}", tags=["lanes"])

Lane = Annotated[str, Path(min_length=1, max_length=64, description="The sink's name.")]
Identity = Annotated[str, Path(pattern=r"^[0-9a-f]{32}$", description="As the request was answered.")]


class LaneList(BaseModel):
    items: list[LaneModel]
    next_cursor: str | None = None


class Rewind(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    commit_lsn: LsnText | None = Field(None, description="Every transaction that commits at it or later comes again.")
    offset: int | None = Field(None, ge=0, lt=2**62, description="Everything from this frame of the raw topic on.")
    since: int | None = Field(
        None, ge=0, lt=2**62, description="Everything written to the raw topic since, in unix microseconds."
    )
    beginning: bool = Field(False, description="Everything that the raw topic still holds.")
    confirm: str = Field(max_length=64, description="The lane's name, typed again.")

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        places = (self.commit_lsn, self.offset, self.since, self.beginning or None)
        if sum(place is not None for place in places) != 1:
            raise ValueError("give one of commit_lsn, offset, since and beginning")
        return self


class LaneAsked(BaseModel):
    id: str
    asked: str


class LaneRequested(LaneAsked):
    lane: str


class AllAsked(BaseModel):
    items: list[LaneRequested] = Field(description="One request a lane; each says itself what became of it.")


class LaneAnswer(BaseModel):
    id: str
    result: Result = Field(description="`waiting` also while it is under way.")
    code: str = Field("", description="Of a refusal; then nothing has changed.")
    message: str = ""
    remedy: str = ""


@router.get("/lanes", summary="The lanes of a pipeline")
@needs(Scope.READ)
async def list_lanes(deps: Given, _of: Of, name: PipelineName) -> LaneList:
    view = deps.watch.asked(name)
    if view is None:
        raise pipeline_not_seen(name)
    return LaneList(items=[LaneModel.of(lane) for lane in view.lanes])


@router.post("/pause", summary="Have every lane pause", status_code=202, response_model=AllAsked)
@needs(Scope.OPERATE)
async def pause_pipeline(of: Of, caller: Asking, once: DoneOnce) -> JSONResponse:
    """Nothing is delivered until it is resumed, whatever is restarted. The reader goes on into the raw topic; what
    required sinks have not acked, the source keeps."""
    return await _all_asked(of, caller, once, Asked.PAUSE)


@router.post("/resume", summary="Have every lane go on", status_code=202, response_model=AllAsked)
@needs(Scope.OPERATE)
async def resume_pipeline(of: Of, caller: Asking, once: DoneOnce) -> JSONResponse:
    """Also those that are LOST, once the cause is mended."""
    return await _all_asked(of, caller, once, Asked.RESUME)


@router.post("/lanes/{lane}/pause", summary="Have a lane pause", status_code=202, response_model=LaneAsked)
@needs(Scope.OPERATE)
async def pause_lane(of: Of, caller: Asking, once: DoneOnce, lane: Lane) -> JSONResponse:
    """It stands until it is resumed, whatever is restarted. If its sink is required, the source keeps its WAL."""
    return await _asked(of, caller, once, lane, Asked.PAUSE)


@router.post("/lanes/{lane}/resume", summary="Have a lane go on", status_code=202, response_model=LaneAsked)
@needs(Scope.OPERATE)
async def resume_lane(of: Of, caller: Asking, once: DoneOnce, lane: Lane) -> JSONResponse:
    """Also one that is LOST, once the cause is mended."""
    return await _asked(of, caller, once, lane, Asked.RESUME)


@router.post("/lanes/{lane}/rewind", summary="Have a lane deliver again", status_code=202, response_model=LaneAsked)
@needs(Scope.OPERATE)
async def rewind_lane(of: Of, caller: Asking, once: DoneOnce, lane: Lane, wanted: Rewind) -> JSONResponse:
    """Its sink gets the same events with the same ids once more; what is confirmed to the source stays."""
    _check_known(of, lane)
    if wanted.confirm != lane:
        raise ApiError(
            HTTPStatus.UNPROCESSABLE_ENTITY,
            "confirm is not the lane's name",
            code="CONFIRM_MISMATCH",
            remedy="Type the lane's name into confirm, exactly.",
        )
    position = before(parse_lsn(wanted.commit_lsn)) if wanted.commit_lsn else None
    place = {"position": position, "offset": wanted.offset, "since": wanted.since}
    return await _asked(of, caller, once, lane, Asked.REWIND, **place)


@router.get("/lanes/{lane}/requests/{identity}", summary="What became of a request")
@needs(Scope.READ)
async def show_request(of: Of, lane: Lane, identity: Identity) -> LaneAnswer:
    _check_known(of, lane)
    found = await requests.outcome(of, lane, identity)
    return LaneAnswer(id=found.id, result=found.result, code=found.code, message=found.message, remedy=found.remedy)


async def _asked(of: PipelineAccess, caller: Caller, once: Once, lane: str, asked: Asked, **place: Any) -> JSONResponse:
    _check_known(of, lane)

    async def action() -> LaneAsked:
        request = await requests.ask(of, lane, asked, caller.name, **place)
        return LaneAsked(id=request.id, asked=request.asked)

    return await once.do(action, HTTPStatus.ACCEPTED)


async def _all_asked(of: PipelineAccess, caller: Caller, once: Once, asked: Asked) -> JSONResponse:
    async def action() -> AllAsked:
        made = await requests.ask_all(of, [sink.name for sink in of.config.sinks], asked, caller.name)
        items = [LaneRequested(lane=lane, id=request.id, asked=request.asked) for lane, request in made]
        return AllAsked(items=items)

    return await once.do(action, HTTPStatus.ACCEPTED)


def _check_known(of: PipelineAccess, lane: str) -> None:
    if not of.has_sink(lane):
        raise requests.lane_unknown()
