"""The application: routes, the guard before them, errors, headers.

Invariant: what is not listed here by its router is refused by the guard, every refusal is a problem document, and no
page loads anything from elsewhere.
"""

from importlib.metadata import version

from fastapi import FastAPI
from fastapi.routing import APIRoute
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tidegate_admin import errors, openapi
from tidegate_admin.access import Access
from tidegate_admin.changes.endpoints import router as changes
from tidegate_admin.config import AdminSettings
from tidegate_admin.configuration.endpoints import router as configuration
from tidegate_admin.configuration.service import Judge
from tidegate_admin.dead_letters.endpoints import router as dead_letters
from tidegate_admin.deps import Deps
from tidegate_admin.events.endpoints import router as events
from tidegate_admin.frames.endpoints import router as frames
from tidegate_admin.health.endpoints import router as health
from tidegate_admin.health.report import Report
from tidegate_admin.lanes.endpoints import router as lanes
from tidegate_admin.metrics import AdminMetrics
from tidegate_admin.pipelines.endpoints import router as pipelines
from tidegate_admin.pipelines.watch import Watch
from tidegate_admin.publications.endpoints import router as publications
from tidegate_admin.searches.endpoints import router as searches
from tidegate_admin.security.guard import Guard
from tidegate_admin.security.scopes import operation_id
from tidegate_admin.security.tokens import TokenFile
from tidegate_admin.sinks.endpoints import router as sinks
from tidegate_admin.slots.endpoints import router as slots
from tidegate_admin.snapshots.endpoints import router as snapshots
from tidegate_admin.source.endpoints import router as source
from tidegate_admin.ui.endpoints import router as ui
from tidegate_admin.where_is.endpoints import router as where_is

ROUTERS = (
    health, pipelines, lanes, sinks, configuration, slots, publications, source, snapshots, frames, events, where_is,
    searches, dead_letters, changes, ui,
)  # fmt: skip

_HEADERS = {
    "Content-Security-Policy": "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_PROBLEM = {"model": errors.ProblemDocument, "description": "A problem document (RFC 9457)."}


def create_app(settings: AdminSettings, watch: Watch, access: Access) -> FastAPI:
    app = FastAPI(
        title="Tidegate admin API",
        version=version("tidegate-admin"),
        description="What an operator sees of pipelines: the gate, its lags, the slot.",
        # Their pages load scripts from a CDN, and /openapi.json would ask for no token: both are in ui.
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        generate_unique_id_function=lambda route: operation_id(route.name),
        responses={"default": _PROBLEM},
    )
    app.state.deps = Deps(settings, watch, AdminMetrics(watch), Report(watch.health), access, Judge(settings.egress))
    app.add_middleware(
        Guard,
        routes=routes(),
        tokens=TokenFile(settings.tokens) if settings.tokens else None,
        sink=access,
        limits=settings.limits,
    )
    app.add_middleware(SafeHeaders)
    errors.install(app)
    for router in ROUTERS:
        app.include_router(router)
    app.openapi = lambda: openapi.document(app, routes())  # type: ignore[method-assign]  # FastAPI's way to extend it
    return app


def routes() -> tuple[APIRoute, ...]:
    return tuple(route for router in ROUTERS for route in router.routes if isinstance(route, APIRoute))


class SafeHeaders:
    """On every answer, also on refusals."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(_HEADERS)
            await send(message)

        await self._app(scope, receive, send_with_headers if scope["type"] == "http" else send)
