"""/api/v1/pipelines/{name}/configuration: in force, judged, compared, applied."""

import asyncio
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Header, Path, Response
from fastapi.responses import JSONResponse

from tidegate.config.epoch import config_epoch
from tidegate.errors import ConfigError, Problem
from tidegate_admin.configuration import applying, service
from tidegate_admin.configuration.schemas import (
    Applied,
    Apply,
    Candidate,
    ConfigurationModel,
    Difference,
    Restore,
    Verdict,
    VersionDetails,
    VersionList,
    VersionModel,
)
from tidegate_admin.configuration.versions import Version, Versions, digest_of
from tidegate_admin.deps import Asking, Deps, Given, Of
from tidegate_admin.errors import ApiError
from tidegate_admin.once import DoneOnce
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


Match = Annotated[str | None, Header(alias="If-Match", max_length=100, description="Epoch or digest of what is there.")]
Number = Annotated[int, Path(ge=1, le=999_999)]


@router.put("", summary="Apply a configuration", response_model=Applied)
@needs(Scope.DESTROY)
async def apply_configuration(
    deps: Given, of: Of, caller: Asking, once: DoneOnce, wanted: Apply, if_match: Match = None
) -> JSONResponse:
    """It is written to the file that services read; each change says whether they take it over at once, or which of
    them is to be restarted."""

    _check(of.config.pipeline, wanted.confirm)
    seen = _seen(if_match)

    async def action() -> Applied:
        candidate = Candidate(text=wanted.text, document=wanted.document)
        return await _apply(deps, of.config.pipeline, candidate, seen, caller.name)

    return await once.do(action)


@router.get("/versions", summary="What was applied, the newest first, and what the file says now")
@needs(Scope.READ)
async def list_configuration_versions(deps: Given, of: Of) -> VersionList:
    name = of.config.pipeline
    versions = _versions(deps, name)
    text, found = await asyncio.to_thread(lambda: (versions.text(), versions.listed()))
    try:
        now = await asyncio.to_thread(applying.written, text)
    except ApiError:
        now = None
    return VersionList(
        digest=digest_of(text),
        epoch=config_epoch(now) if now else None,
        in_force=config_epoch(of.config),
        lanes=applying.following(now, deps.watch.asked(name)) if now else {},
        items=[_model(version, text) for version in found],
    )


@router.get("/versions/{number}", summary="One version with its text, comments and all")
@needs(Scope.OPERATE)
async def show_configuration_version(deps: Given, of: Of, number: Number) -> VersionDetails:
    versions = _versions(deps, of.config.pipeline)
    version, text = await asyncio.to_thread(lambda: (applying.of_number(versions, number), versions.text()))
    return VersionDetails(**_model(version, text).model_dump(), text=version.text)


@router.post("/versions/{number}/restore", summary="Apply an older version again", response_model=Applied)
@needs(Scope.DESTROY)
async def restore_configuration(
    deps: Given, of: Of, caller: Asking, once: DoneOnce, number: Number, wanted: Restore, if_match: Match = None
) -> JSONResponse:
    _check(of.config.pipeline, wanted.confirm)
    seen = _seen(if_match)

    async def action() -> Applied:
        versions = _versions(deps, of.config.pipeline)
        version = await asyncio.to_thread(applying.of_number, versions, number)
        return await _apply(deps, of.config.pipeline, Candidate(text=version.text), seen, caller.name)

    return await once.do(action)


async def _apply(deps: Deps, name: str, candidate: Candidate, seen: str, by: str) -> Applied:
    wanted, verdict = await deps.judge.judge(candidate)
    if wanted is None:
        problems = tuple(Problem(each.pointer, each.code, each.reason, each.remedy) for each in verdict.problems)
        raise ConfigError("this configuration would be refused", code="CONFIG_INVALID", problems=problems)
    text, versions = applying.text_of(candidate), _versions(deps, name)
    view = deps.watch.asked(name)
    version, changes = await asyncio.to_thread(applying.apply, versions, wanted, text, seen, by, view)
    return Applied(version=_model(version, text), changes=changes)


def _versions(deps: Deps, name: str) -> Versions:
    file = deps.settings.files.get(name)
    if file is None:
        raise ApiError(
            HTTPStatus.CONFLICT,
            "this service was not given a file for this pipeline",
            code="CONFIGURATION_READ_ONLY",
            remedy="Start it with --config.",
        )
    return Versions(file)


def _seen(if_match: str | None) -> str:
    if if_match is None:
        raise ApiError(
            HTTPStatus.PRECONDITION_REQUIRED,
            "nothing says which configuration this one is to follow",
            code="IF_MATCH_MISSING",
            remedy="Give the ETag of GET …/configuration in If-Match, or the digest of …/configuration/versions.",
        )
    return if_match.strip().removeprefix("W/").strip('"')


def _check(pipeline: str, confirm: str) -> None:
    if confirm != pipeline:
        raise ApiError(
            HTTPStatus.UNPROCESSABLE_ENTITY,
            "confirm is not the pipeline's name",
            code="CONFIRM_MISMATCH",
            remedy="Type the pipeline's name into confirm, exactly.",
        )


def _model(version: Version, text: str) -> VersionModel:
    return VersionModel(
        number=version.number,
        digest=version.digest,
        epoch=version.epoch,
        by=version.by,
        time=version.time,
        raw_offset=version.raw_offset,
        is_in_file=version.digest == digest_of(text),
    )
