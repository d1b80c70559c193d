"""/healthz and /readyz for probes, /metrics for Prometheus.

Invariant: /healthz says only that this process answers; restarting it never mends a pipeline.
"""

from http import HTTPStatus

from fastapi import APIRouter
from fastapi.responses import Response

from tidegate.observability.metrics import CONTENT_TYPE
from tidegate_admin.deps import Given
from tidegate_admin.health.schemas import Alive, Readiness
from tidegate_admin.security.scopes import Open, Scope, needs

router = APIRouter(tags=["health"])


@router.get("/healthz", summary="This process answers")
@needs(Open.OPEN)
async def healthz() -> Alive:
    return Alive()


@router.get(
    "/readyz",
    summary="Every part of every pipeline, with reason and since",
    responses={HTTPStatus.SERVICE_UNAVAILABLE: {"model": Readiness, "description": "A part is down."}},
    response_model=Readiness,
)
@needs(Open.OPEN)
async def readyz(deps: Given) -> Response:
    status = HTTPStatus.OK if deps.watch.health.is_ready else HTTPStatus.SERVICE_UNAVAILABLE
    return Response(deps.report.text(), status, media_type="application/json")


@router.get("/metrics", summary="Figures for Prometheus", response_class=Response)
@needs(Scope.READ)
async def metrics(deps: Given) -> Response:
    return Response(await deps.metrics.exposition(), media_type=CONTENT_TYPE)
