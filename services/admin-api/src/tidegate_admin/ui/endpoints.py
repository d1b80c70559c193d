"""The page, its two files, and the description of the API as a page.

Invariant: everything is rendered by the server and escaped in one place; the script only fetches and replaces.
"""

from importlib.resources import files

from fastapi import APIRouter, Depends, Request
from fastapi.responses import HTMLResponse, JSONResponse, Response

from tidegate_admin.deps import Given, allowed
from tidegate_admin.pipelines.endpoints import pipelines
from tidegate_admin.ui.reference import render_reference
from tidegate_admin.ui.render import render_live, render_page

router = APIRouter(include_in_schema=False, dependencies=[Depends(allowed)])

_FILES = files("tidegate_admin.ui")


@router.get("/")
def page(deps: Given) -> HTMLResponse:
    return HTMLResponse(render_page("Tidegate", render_live(pipelines(deps), deps.watch.names), is_live=True))


@router.get("/ui/live")
def live(deps: Given) -> HTMLResponse:
    return HTMLResponse(render_live(pipelines(deps), deps.watch.names))


@router.get("/docs")
def docs(request: Request) -> HTMLResponse:
    return HTMLResponse(render_page("Tidegate API", render_reference(request.app.openapi())))


@router.get("/openapi.json")
def openapi(request: Request) -> JSONResponse:
    return JSONResponse(request.app.openapi())


@router.get("/ui/page.css")
def style() -> Response:
    return Response(_FILES.joinpath("page.css").read_bytes(), media_type="text/css")


@router.get("/ui/page.js")
def script() -> Response:
    return Response(_FILES.joinpath("page.js").read_bytes(), media_type="text/javascript")


@router.get("/ui/icon.svg")
def icon() -> Response:
    return Response(_FILES.joinpath("icon.svg").read_bytes(), media_type="image/svg+xml")
