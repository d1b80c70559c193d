"""Every answer that is no success is a problem document (RFC 9457) with our `code` and `remedy`.

Invariant: no answer repeats what a client sent beyond its own path, and none shows what stands behind a failure of
ours: that is in the log, under the request's number.
"""

import uuid
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

from tidegate.errors import ConfigError, TidegateError
from tidegate.observability import logs

MEDIA_TYPE = "application/problem+json"
LONGEST_INSTANCE = 200

_log = logs.get("http")


class FieldProblem(BaseModel):
    pointer: str = Field(description="Where, as a JSON pointer.")
    code: str
    reason: str
    remedy: str = ""


class ProblemDocument(BaseModel):
    """RFC 9457."""

    type: str = Field(description="Names the kind of problem; stable.", examples=["urn:tidegate:problem:not-found"])
    title: str
    status: int
    detail: str
    instance: str = Field(description="The path, or the number under which the log tells more.")
    code: str = Field(description="Stable, for programs.", examples=["NOT_FOUND"])
    remedy: str = Field(description="What to do about it, for people.")
    errors: list[FieldProblem] = Field(default_factory=list)


class ApiError(TidegateError):
    """A refusal of this API itself."""

    def __init__(self, status: HTTPStatus, message: str, *, code: str, remedy: str) -> None:
        super().__init__(message, code=code, remedy=remedy)
        self.http_status = status


def pipeline_unknown(name: str) -> ApiError:
    return ApiError(
        HTTPStatus.NOT_FOUND,
        f"no pipeline is called {name[:64]}",
        code="PIPELINE_UNKNOWN",
        remedy="GET /api/v1/pipelines lists the pipelines of this service.",
    )


def pipeline_not_seen(name: str) -> ApiError:
    return ApiError(
        HTTPStatus.SERVICE_UNAVAILABLE,
        f"{name} has not been looked at yet",
        code="PIPELINE_NOT_SEEN",
        remedy="Ask again in a second: the service has just started.",
    )


_PLAIN: Mapping[int, tuple[str, str, str]] = {
    400: ("BAD_REQUEST", "the request cannot be understood", "Compare it with /openapi.json."),
    404: ("NOT_FOUND", "there is nothing at this path", "See /openapi.json for what there is."),
    405: ("METHOD_NOT_ALLOWED", "this path does not take this method", "The Allow header lists what it takes."),
}


def install(app: FastAPI) -> None:
    app.add_exception_handler(TidegateError, _ours)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _plain)
    app.add_exception_handler(Exception, _unexpected)


def problem(
    status: int,
    *,
    code: str,
    detail: str,
    remedy: str,
    instance: str,
    errors: list[FieldProblem] | None = None,
    headers: Mapping[str, str] | None = None,
) -> JSONResponse:
    document = ProblemDocument(
        type=f"urn:tidegate:problem:{code.lower().replace('_', '-')}",
        title=HTTPStatus(status).phrase,
        status=status,
        detail=detail,
        instance=instance[:LONGEST_INSTANCE],
        code=code,
        remedy=remedy,
        errors=errors or [],
    )
    return JSONResponse(document.model_dump(), status, dict(headers or {}), MEDIA_TYPE)


async def _ours(request: Request, error: Exception) -> JSONResponse:
    if not isinstance(error, TidegateError):
        raise error
    found = error.problems if isinstance(error, ConfigError) else ()
    return problem(
        error.http_status,
        code=error.code,
        detail=error.message,
        remedy=error.remedy,
        instance=request.url.path,
        errors=[FieldProblem(pointer=_pointer(p.path.split(".")), code=p.code, reason=p.reason) for p in found],
    )


async def _invalid(request: Request, error: Exception) -> JSONResponse:
    if not isinstance(error, RequestValidationError):
        raise error
    return problem(
        HTTPStatus.UNPROCESSABLE_ENTITY,
        code="REQUEST_INVALID",
        detail="the request has fields that are refused",
        remedy="Mend what is listed in errors; /openapi.json describes every field.",
        instance=request.url.path,
        errors=[_field(details) for details in error.errors()],
    )


async def _plain(request: Request, error: Exception) -> JSONResponse:
    if not isinstance(error, HTTPException):
        raise error
    code, detail, remedy = _PLAIN.get(error.status_code, ("REQUEST_REFUSED", "the request is refused", ""))
    return problem(
        error.status_code,
        code=code,
        detail=detail,
        remedy=remedy,
        instance=request.url.path,
        headers=error.headers,
    )


async def _unexpected(_request: Request, error: Exception) -> JSONResponse:
    number = uuid.uuid4().urn
    _log.failure("request_failed", error, request=number)
    return problem(
        HTTPStatus.INTERNAL_SERVER_ERROR,
        code="INTERNAL",
        detail="the service failed at this request",
        remedy="Look for this instance in the service's log and report it.",
        instance=number,
    )


def _field(details: Mapping[str, Any]) -> FieldProblem:
    """Without the input, which may be a secret in the wrong place."""
    return FieldProblem(pointer=_pointer(details["loc"]), code=str(details["type"]).upper(), reason=str(details["msg"]))


def _pointer(location: Any) -> str:  # a validator's location: names and numbers
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in location)
