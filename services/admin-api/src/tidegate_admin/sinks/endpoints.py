"""/api/v1/sinks: the kinds that there are, with their options; and whether one of a pipeline answers its lane."""

import json
from functools import lru_cache
from http import HTTPStatus
from importlib.resources import files
from typing import Any

from fastapi import APIRouter
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field

from tidegate.contracts.request import Asked
from tidegate_admin.access import PipelineAccess
from tidegate_admin.deps import Asking, Of
from tidegate_admin.lanes import requests
from tidegate_admin.lanes.endpoints import Lane, LaneAsked
from tidegate_admin.once import DoneOnce, Once
from tidegate_admin.security.scopes import Caller, Scope, needs

router = APIRouter(prefix="/api/v1", tags=["sinks"])


class SinkKind(BaseModel):
    type: str
    options: dict[str, Any] = Field(description="JSON schema of what may stand under `options`.")


class SinkKinds(BaseModel):
    items: list[SinkKind]
    next_cursor: str | None = None


@router.get("/sinks", summary="The kinds of sinks, with their options")
@needs(Scope.READ)
async def list_sinks() -> SinkKinds:
    return SinkKinds(items=[SinkKind(type=kind, options=schema) for kind, schema in _schemas().items()])


@router.post(
    "/pipelines/{name}/sinks/{lane}/ping",
    summary="Have a lane ask its sink whether it answers",
    status_code=202,
    response_model=LaneAsked,
)
@needs(Scope.OPERATE)
async def ping_sink(of: Of, caller: Asking, once: DoneOnce, lane: Lane) -> JSONResponse:
    """With the lane's own configuration and rights, beside what it does; answered as any request to a lane."""

    return await _asked(of, caller, once, lane, Asked.PING)


@router.post(
    "/pipelines/{name}/sinks/{lane}/trial",
    summary="Have a lane write the newest rows once more and drop them uncommitted",
    status_code=202,
    response_model=LaneAsked,
)
@needs(Scope.OPERATE)
async def try_sink(of: Of, caller: Asking, once: DoneOnce, lane: Lane) -> JSONResponse:
    """The lane stands for a moment. Refused with the error's code if one of the rows would be a dead letter."""
    return await _asked(of, caller, once, lane, Asked.TRIAL)


async def _asked(of: PipelineAccess, caller: Caller, once: Once, lane: str, asked: Asked) -> JSONResponse:
    async def action() -> LaneAsked:
        if not of.has_sink(lane):
            raise requests.lane_unknown()
        request = await requests.ask(of, lane, asked, caller.name)
        return LaneAsked(id=request.id, asked=request.asked)

    return await once.do(action, HTTPStatus.ACCEPTED)


@lru_cache(maxsize=1)
def _schemas() -> dict[str, Any]:  # JSON schema
    """Generated from the processor's registry."""
    text = files("tidegate_admin.sinks").joinpath("options.json").read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text)
    return found
