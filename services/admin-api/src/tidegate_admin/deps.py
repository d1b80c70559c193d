"""What endpoints are given: the watch, the settings, the way to each pipeline's servers, and who asks.

Each is given by an async function: FastAPI calls any other in a thread, which takes longer than all it does.
"""

from dataclasses import dataclass, field
from typing import Annotated

from fastapi import Depends, Path, Request

from tidegate_admin.access import Access, PipelineAccess
from tidegate_admin.config import AdminSettings
from tidegate_admin.configuration.service import Judge
from tidegate_admin.errors import pipeline_unknown
from tidegate_admin.events.stream import STREAMS
from tidegate_admin.health.report import Report
from tidegate_admin.metrics import AdminMetrics
from tidegate_admin.pipelines.watch import Watch
from tidegate_admin.room import Room
from tidegate_admin.security.guard import CALLER
from tidegate_admin.security.scopes import Caller


@dataclass(frozen=True, slots=True)
class Deps:
    settings: AdminSettings
    watch: Watch
    metrics: AdminMetrics
    report: Report
    access: Access
    judge: Judge
    streams: Room = field(default_factory=lambda: Room(STREAMS))


async def _deps(request: Request) -> Deps:
    deps: Deps = request.app.state.deps
    return deps


Given = Annotated[Deps, Depends(_deps)]
PipelineName = Annotated[str, Path(max_length=64, description="A pipeline of this service.")]


async def _pipeline(name: PipelineName, deps: Given) -> PipelineAccess:
    if name not in deps.watch.names:
        raise pipeline_unknown(name)
    return deps.access.of(name)


Of = Annotated[PipelineAccess, Depends(_pipeline)]
"""The pipeline in the path."""


async def _caller(request: Request) -> Caller:
    caller: Caller = request.scope[CALLER]
    return caller


Asking = Annotated[Caller, Depends(_caller)]
