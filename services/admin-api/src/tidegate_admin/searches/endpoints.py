"""/api/v1/pipelines/{name}/searches: where the changes of one row are, by its key."""

from enum import StrEnum
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Path, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field

from tidegate.lsn import parse_lsn
from tidegate_admin.deps import Deps, Given, Of, PipelineName
from tidegate_admin.errors import ApiError
from tidegate_admin.frames.raw import Bounds
from tidegate_admin.once import DoneOnce
from tidegate_admin.searches.service import Job, Wanted
from tidegate_admin.security.scopes import Scope, needs
from tidegate_admin.where_is.schemas import Stage
from tidegate_admin.where_is.service import Target, where_is

router = APIRouter(prefix="/api/v1/pipelines/{name}/searches", tags=["where-is"])

SearchId = Annotated[str, Path(pattern=r"^[0-9a-f]{32}$")]


class SearchState(StrEnum):
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    LOST = "lost"


class StartSearch(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    table: str = Field(pattern=r"^[^\x00]+\.[^\x00]+$", max_length=127, examples=["public.orders"])
    key: dict[str, str] = Field(
        min_length=1, max_length=32, description="Column to value, as PostgreSQL writes it.", examples=[{"id": "7"}]
    )
    from_offset: int | None = Field(None, ge=0, le=2**62, description="Default: where the topic begins.")
    to_offset: int | None = Field(None, ge=0, le=2**62, description="Default: where it ends now.")


class MatchModel(BaseModel):
    offset: int
    epoch: int
    commit_lsn: str
    ordinal: int
    operation: str
    xid: int
    stage: Stage = Field(description="Where this change is held.")
    held_by: str | None = None


class SearchModel(BaseModel):
    id: str
    state: SearchState
    from_offset: int
    to_offset: int
    at: int = Field(description="The offset that has been reached.")
    progress: float = Field(description="0 to 1.")
    failure: str = ""
    matches: list[MatchModel] = Field(description="The first hundred.")


@router.post("", summary="Search the log for a row's changes", status_code=202, response_model=SearchModel)
@needs(Scope.DATA)
async def start_search(deps: Given, of: Of, name: PipelineName, once: DoneOnce, wanted: StartSearch) -> JSONResponse:
    async def action() -> SearchModel:
        release = of.searches.room.take()
        if release is None:
            raise ApiError(
                HTTPStatus.TOO_MANY_REQUESTS,
                "as many searches as may run do run",
                code="SEARCHES_FULL",
                remedy="Wait for one to end, or cancel it.",
            )
        try:
            asked = _span(wanted, await of.raw.bounds())
            job = await of.searches.begin(of.redis, of.raw, asked, release)
        except BaseException:
            release()
            raise
        return _model(deps, name, job)

    return await once.do(action, HTTPStatus.ACCEPTED)


@router.get("/{search}", summary="How far a search is, and what it has found")
@needs(Scope.DATA)
async def get_search(deps: Given, of: Of, name: PipelineName, search: SearchId) -> SearchModel:
    job = await of.searches.look(of.redis, search)
    if job is None:
        raise ApiError(
            HTTPStatus.NOT_FOUND,
            "there is no such search",
            code="SEARCH_UNKNOWN",
            remedy="It was cancelled, or ended more than an hour ago.",
        )
    return _model(deps, name, job)


@router.delete("/{search}", summary="Cancel a search", status_code=204)
@needs(Scope.DATA)
async def cancel_search(of: Of, search: SearchId) -> Response:
    await of.searches.cancel(of.redis, search)
    return Response(status_code=HTTPStatus.NO_CONTENT)


def _span(wanted: StartSearch, bounds: Bounds) -> Wanted:
    start = max(bounds.beginning, wanted.from_offset or 0)
    end = bounds.end if wanted.to_offset is None else min(bounds.end, wanted.to_offset)
    return Wanted(wanted.table, wanted.key, start, max(start, end))


def _model(deps: Deps, name: str, job: Job) -> SearchModel:
    span = job.end - job.start
    return SearchModel(
        id=job.id,
        state=SearchState(job.state),
        from_offset=job.start,
        to_offset=job.end,
        at=job.at,
        progress=1.0 if job.state == "done" or not span else (job.at - job.start) / span,
        failure=job.failure,
        matches=[_match(deps, name, match) for match in job.matches],
    )


def _match(deps: Deps, name: str, match: dict[str, object]) -> MatchModel:
    view = deps.watch.asked(name)
    if view is None:
        return MatchModel.model_validate(match | {"stage": Stage.UNKNOWN})
    target = Target(parse_lsn(str(match["commit_lsn"])), is_commit=True)
    place = where_is(view, target, None)
    waiting = next((lane.sink for lane in place.lanes if lane.required and not lane.acked), None)
    if place.stage is Stage.CONFIRMED:
        return MatchModel.model_validate(match | {"stage": Stage.CONFIRMED})
    stage = Stage.LANE if waiting else Stage.SLOT  # it was found in the raw topic
    return MatchModel.model_validate(match | {"stage": stage, "held_by": waiting})
