"""/api/v1/pipelines/{name}/frames: the raw topic, looked into."""

from typing import Annotated

from fastapi import APIRouter, Path, Query

from tidegate_admin.deps import Of
from tidegate_admin.frames import service
from tidegate_admin.frames.schemas import FrameDetails, FrameList
from tidegate_admin.paging import Cursor, decode_cursor
from tidegate_admin.security.scopes import Scope, needs
from tidegate_admin.slots.schemas import LSN_PATTERN

router = APIRouter(prefix="/api/v1/pipelines/{name}/frames", tags=["frames"])

OFFSET_LIMIT = 2**62
Offset = Annotated[int, Path(ge=0, le=OFFSET_LIMIT)]
LsnQuery = Annotated[str | None, Query(pattern=LSN_PATTERN, description="An LSN, as in 0/16B3748.")]
XidQuery = Annotated[int | None, Query(ge=1, lt=2**32, description="A transaction id of 32 bits.")]


@router.get("", summary="Frames from an offset, an LSN or a transaction on; else the newest")
@needs(Scope.READ)
async def list_frames(
    of: Of,
    offset: Annotated[int | None, Query(ge=0, le=OFFSET_LIMIT)] = None,
    lsn: LsnQuery = None,
    xid: XidQuery = None,
    cursor: Cursor = None,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
) -> FrameList:
    start = int(decode_cursor(cursor, int)[0]) if cursor else offset
    return await service.list_frames(of, offset=start, lsn=lsn, xid=xid, limit=limit)


@router.get("/{offset}", summary="One frame decoded, with its rows")
@needs(Scope.DATA)
async def get_frame(
    of: Of, offset: Offset, rows: Annotated[int, Query(ge=0, le=1000, description="Changes, at most.")] = 100
) -> FrameDetails:
    return await service.show_frame(of, offset, rows)
