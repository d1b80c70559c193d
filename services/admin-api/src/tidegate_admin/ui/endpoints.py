"""The page, its two files, and the description of the API as a page.

Invariant: everything is rendered by the server and escaped in one place; the script only fetches and replaces.
"""

import asyncio
from importlib.resources import files

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, JSONResponse, Response

from tidegate_admin.dead_letters.entries import NEWEST, Filter
from tidegate_admin.deps import Given, Of
from tidegate_admin.pipelines.endpoints import pictures
from tidegate_admin.security.scopes import Scope, needs
from tidegate_admin.snapshots import service
from tidegate_admin.ui.panels import letters_list
from tidegate_admin.ui.reference import render_reference
from tidegate_admin.ui.render import draw_pipeline, render_live, render_page, render_pipelines
from tidegate_admin.ui.snapshots import snapshots_list

router = APIRouter(include_in_schema=False)

_FILES = files("tidegate_admin.ui")
_SNAPSHOTS = 5
_LETTERS = 20
_GROUPS = 8
"""Shown on the page; the command and the API have all of them."""


@router.get("/")
@router.get("/ui")
@needs(Scope.READ)
async def page(deps: Given) -> HTMLResponse:
    drawn = await pictures(deps, deps.watch.names, draw_pipeline)
    return HTMLResponse(render_page("Tidegate", render_pipelines(drawn, deps.watch.names), is_live=True))


@router.get("/ui/live")
@needs(Scope.READ)
async def live(deps: Given) -> HTMLResponse:
    return HTMLResponse(render_live(await pictures(deps, deps.watch.names, draw_pipeline), deps.watch.names))


@router.get("/ui/pipelines/{name}/dead-letters")
@needs(Scope.READ)
async def letters(of: Of) -> HTMLResponse:
    index = of.letters.index
    total, newest, counts = await asyncio.to_thread(
        lambda: (index.total(), index.page(Filter(), NEWEST, _LETTERS), index.counts())
    )
    several = [group for group in counts if group[-1] > 1][:_GROUPS]
    return HTMLResponse(letters_list(total, newest, several, is_complete=of.letters.is_complete))


@router.get("/ui/pipelines/{name}/snapshots")
@needs(Scope.READ)
async def snapshots(of: Of) -> HTMLResponse:
    return HTMLResponse(snapshots_list((await service.listed(of))[:_SNAPSHOTS]))


@router.get("/docs")
@needs(Scope.READ)
async def docs(request: Request) -> HTMLResponse:
    return HTMLResponse(render_page("Tidegate API", render_reference(request.app.openapi())))


@router.get("/openapi.json")
@needs(Scope.READ)
async def openapi(request: Request) -> JSONResponse:
    return JSONResponse(request.app.openapi())


@router.get("/ui/page.css")
@needs(Scope.READ)
async def style() -> Response:
    return Response(_FILES.joinpath("page.css").read_bytes(), media_type="text/css")


@router.get("/ui/page.js")
@needs(Scope.READ)
async def script() -> Response:
    return Response(_FILES.joinpath("page.js").read_bytes(), media_type="text/javascript")


@router.get("/ui/letters.js")
@needs(Scope.READ)
async def letters_script() -> Response:
    return Response(_FILES.joinpath("letters.js").read_bytes(), media_type="text/javascript")


@router.get("/ui/icon.svg")
@needs(Scope.READ)
async def icon() -> Response:
    return Response(_FILES.joinpath("icon.svg").read_bytes(), media_type="image/svg+xml")
