"""/api/v1/pipelines/{name}/where-is: at which stage a change is held, by LSN or transaction, at once."""

from http import HTTPStatus

from fastapi import APIRouter

from tidegate.lsn import parse_lsn
from tidegate_admin.deps import Given, Of, PipelineName
from tidegate_admin.errors import ApiError, pipeline_not_seen
from tidegate_admin.frames.endpoints import LsnQuery, XidQuery
from tidegate_admin.frames.search import find_lsn, find_xid, transaction_unknown
from tidegate_admin.security.scopes import Scope, needs
from tidegate_admin.where_is.schemas import WhereIs
from tidegate_admin.where_is.service import Target, where_is

router = APIRouter(prefix="/api/v1/pipelines/{name}/where-is", tags=["where-is"])


@router.get("", summary="Where a change is held: WAL, raw topic, lanes, slot")
@needs(Scope.READ)
async def get_where_is(deps: Given, of: Of, name: PipelineName, lsn: LsnQuery = None, xid: XidQuery = None) -> WhereIs:
    if (lsn is None) == (xid is None):
        raise ApiError(
            HTTPStatus.UNPROCESSABLE_ENTITY,
            "lsn or xid is given, and not both",
            code="TARGET_AMBIGUOUS",
            remedy="Ask with one of the two; by key, POST …/searches.",
        )
    bounds = await of.raw.bounds()
    if lsn is not None:
        target = Target(parse_lsn(lsn))
        found = await find_lsn(of.raw, bounds, target.lsn, of.known)
    else:
        found = await find_xid(of.raw, bounds, xid or 0, of.known)
        if found is None or found.commit_lsn is None:
            raise transaction_unknown()
        target = Target(found.commit_lsn, is_commit=True, xid=xid)
    view = deps.watch.asked(name)
    if view is None:
        raise pipeline_not_seen(name)
    return where_is(view, target, found)
