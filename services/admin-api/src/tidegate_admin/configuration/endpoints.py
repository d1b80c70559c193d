"""/api/v1/pipelines/{name}/configuration: in force, judged, compared."""

from typing import Annotated

from fastapi import APIRouter, Header, Response

from tidegate.config.epoch import config_epoch
from tidegate_admin.configuration import service
from tidegate_admin.configuration.schemas import Candidate, ConfigurationModel, Difference, Verdict
from tidegate_admin.deps import Given, Of
from tidegate_admin.security.scopes import Scope, needs

router = APIRouter(prefix="/api/v1/pipelines/{name}/configuration", tags=["configuration"])


@router.get(
    "", summary="The configuration in force, without secrets", response_model=ConfigurationModel,
    responses={304: {"description": "If-None-Match names what is in force.", "model": None}},
)  # fmt: skip
@needs(Scope.READ)
async def get_configuration(
    of: Of, response: Response, if_none_match: Annotated[str | None, Header(max_length=1000)] = None
) -> ConfigurationModel | Response:
    epoch = config_epoch(of.config)
    tag = f'"{epoch}"'
    if if_none_match is not None and tag in (each.strip().removeprefix("W/") for each in if_none_match.split(",")):
        return Response(status_code=304, headers={"ETag": tag})
    response.headers["ETag"] = tag
    return ConfigurationModel(pipeline=of.config.pipeline, epoch=epoch, document=service.shown(of.config))


@router.post("/validate", summary="Every mistake in a configuration, at once")
@needs(Scope.READ)
async def validate_configuration(deps: Given, _of: Of, candidate: Candidate) -> Verdict:
    _, verdict = await deps.judge.judge(candidate)
    return verdict


@router.post("/diff", summary="What would be different with another configuration, and what that takes")
@needs(Scope.READ)
async def diff_configuration(deps: Given, of: Of, candidate: Candidate) -> Difference:
    return await service.compare(of.config, candidate, deps.judge)
