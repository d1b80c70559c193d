"""/api/v1/pipelines/{name}/snapshots: asked of the reader, and how far they are."""

from dataclasses import asdict
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Path
from fastapi.responses import JSONResponse

from tidegate.clock import unix_microseconds
from tidegate.contracts import snapshot_request
from tidegate.contracts.snapshot_status import SnapshotStatus
from tidegate.contracts.status import STALE_SECONDS
from tidegate_admin.access import PipelineAccess
from tidegate_admin.deps import Asking, Of
from tidegate_admin.lanes.endpoints import LaneAnswer
from tidegate_admin.once import DoneOnce, Once
from tidegate_admin.paging import Cursor, Limit, decode_cursor, encode_cursor
from tidegate_admin.security.scopes import Caller, Scope, needs
from tidegate_admin.snapshots import service
from tidegate_admin.snapshots.schemas import (
    SnapshotAsked,
    SnapshotDetails,
    SnapshotList,
    SnapshotModel,
    Start,
    TableModel,
)

router = APIRouter(prefix="/api/v1/pipelines/{name}/snapshots", tags=["snapshots"])

Identity = Annotated[str, Path(pattern=r"^[0-9a-f]{32}$")]


@router.get("", summary="Snapshots, the newest first")
@needs(Scope.READ)
async def list_snapshots(of: Of, cursor: Cursor = None, limit: Limit = 50) -> SnapshotList:
    found = await service.listed(of)
    if cursor is not None:
        requested, identity = decode_cursor(cursor, int, str)
        found = [each for each in found if (each.requested, each.id) < (requested, identity)]
    last = encode_cursor(found[limit - 1].requested, found[limit - 1].id) if len(found) > limit else None
    return SnapshotList(items=[SnapshotModel(**_fields(each)) for each in found[:limit]], next_cursor=last)


@router.get("/requests/{identity}", summary="What became of a request about snapshots")
@needs(Scope.READ)
async def show_snapshot_request(of: Of, identity: Identity) -> LaneAnswer:
    found = await service.outcome(of, identity)
    return LaneAnswer(id=found.id, result=found.result, code=found.code, message=found.message, remedy=found.remedy)


@router.get("/{snapshot}", summary="One snapshot, table by table")
@needs(Scope.READ)
async def show_snapshot(of: Of, snapshot: Identity) -> SnapshotDetails:
    found = await service.show(of, snapshot)
    tables = [
        TableModel(**asdict(each) | {"table": f"{each.schema}.{each.table}"})
        for each in await service.tables(of, snapshot)
    ]
    return SnapshotDetails(**_fields(found), by_table=tables)


@router.post("", summary="Have the reader take a snapshot", status_code=202, response_model=SnapshotAsked)
@needs(Scope.OPERATE)
async def start_snapshot(of: Of, caller: Asking, once: DoneOnce, wanted: Start) -> JSONResponse:
    """The stream goes on meanwhile. Rows come as SNAPSHOT events, and none over a newer change of its key."""

    async def action() -> SnapshotAsked:
        return _told(await service.start(of, wanted, caller.name))

    return await once.do(action, HTTPStatus.ACCEPTED)


@router.post("/{snapshot}/pause", summary="Have a snapshot pause", status_code=202, response_model=SnapshotAsked)
@needs(Scope.OPERATE)
async def pause_snapshot(of: Of, caller: Asking, once: DoneOnce, snapshot: Identity) -> JSONResponse:
    return await _asked(of, caller, once, snapshot, snapshot_request.SnapshotAsked.PAUSE)


@router.post("/{snapshot}/resume", summary="Have a snapshot go on", status_code=202, response_model=SnapshotAsked)
@needs(Scope.OPERATE)
async def resume_snapshot(of: Of, caller: Asking, once: DoneOnce, snapshot: Identity) -> JSONResponse:
    """Also one that has failed, once the cause is mended."""
    return await _asked(of, caller, once, snapshot, snapshot_request.SnapshotAsked.RESUME)


@router.post("/{snapshot}/cancel", summary="End a snapshot", status_code=202, response_model=SnapshotAsked)
@needs(Scope.OPERATE)
async def cancel_snapshot(of: Of, caller: Asking, once: DoneOnce, snapshot: Identity) -> JSONResponse:
    """What has been read stays where it is; nothing more is read."""
    return await _asked(of, caller, once, snapshot, snapshot_request.SnapshotAsked.CANCEL)


async def _asked(
    of: PipelineAccess, caller: Caller, once: Once, snapshot: str, asked: snapshot_request.SnapshotAsked
) -> JSONResponse:
    async def action() -> SnapshotAsked:
        return _told(await service.ask(of, snapshot, asked, caller.name))

    return await once.do(action, HTTPStatus.ACCEPTED)


def _told(request: snapshot_request.SnapshotRequest) -> SnapshotAsked:
    return SnapshotAsked(id=request.id, asked=request.asked, snapshot=request.snapshot or request.id)


def _fields(status: SnapshotStatus) -> dict[str, object]:
    silent = unix_microseconds() - status.time > STALE_SECONDS * 1e6
    return asdict(status) | {"is_stale": silent and not status.state.is_over}
