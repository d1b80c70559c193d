"""/healthz and /readyz for probes, /metrics for Prometheus.

Invariant: /healthz says only that this process answers; restarting it never mends a pipeline.
"""

from http import HTTPStatus

from fastapi import APIRouter
from fastapi.responses import JSONResponse, Response

from tidegate.observability.metrics import CONTENT_TYPE
from tidegate_admin.deps import Given
from tidegate_admin.health.schemas import Alive, Readiness
from tidegate_admin.pipelines.schemas import ComponentModel
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
async def readyz(deps: Given) -> JSONResponse:
    health = deps.watch.health
    report = Readiness(
        state=health.state,
        components={name: ComponentModel.of(component) for name, component in health.components.items()},
    )
    status = HTTPStatus.OK if health.is_ready else HTTPStatus.SERVICE_UNAVAILABLE
    return JSONResponse(report.model_dump(mode="json"), status)


@router.get("/metrics", summary="Figures for Prometheus", response_class=Response)
@needs(Scope.READ)
def metrics(deps: Given) -> Response:
    return Response(deps.metrics.exposition(), media_type=CONTENT_TYPE)
