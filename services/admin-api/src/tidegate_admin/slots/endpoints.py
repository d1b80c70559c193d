"""/api/v1/pipelines/{name}/slots: what is there, and the three things that may be done to one."""

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Path
from fastapi.responses import JSONResponse

from tidegate_admin.deps import Given, Of
from tidegate_admin.once import DoneOnce
from tidegate_admin.paging import Cursor, Limit, encode_cursor, text_cursor
from tidegate_admin.security.scopes import Scope, needs
from tidegate_admin.slots import actions, listing
from tidegate_admin.slots.acked import lowest_acked
from tidegate_admin.slots.schemas import SLOT_PATTERN, AdvanceSlot, DropSlot, SlotChanged, SlotEntry, SlotList
from tidegate_admin.source.places import on_database_of

router = APIRouter(prefix="/api/v1/pipelines/{name}/slots", tags=["slots"])

Slot = Annotated[str, Path(pattern=SLOT_PATTERN, description="A slot of the source's server.")]


@router.get("", summary="All slots of the source's server: own, orphan, foreign")
@needs(Scope.READ)
async def list_slots(deps: Given, of: Of, cursor: Cursor = None, limit: Limit = 100) -> SlotList:
    async with of.sessions.reading() as session:
        after = text_cursor(cursor)
        found = await listing.list_slots(session, deps.settings.pipelines, of.config, after=after, limit=limit + 1)
    more = len(found) > limit
    return SlotList(items=found[:limit], next_cursor=encode_cursor(found[limit - 1].name) if more else None)


@router.get("/{slot}", summary="One slot")
@needs(Scope.READ)
async def get_slot(deps: Given, of: Of, slot: Slot) -> SlotEntry:
    async with of.sessions.reading() as session:
        found = await listing.find_slot(session, deps.settings.pipelines, of.config, slot)
    if found is None:
        raise actions.slot_unknown()
    return found


@router.post("", summary="Create the pipeline's own slot", status_code=201, response_model=SlotChanged)
@needs(Scope.OPERATE)
async def create_slot(of: Of, once: DoneOnce) -> JSONResponse:
    async def action() -> SlotChanged:
        async with of.sessions.changing() as session:
            return await actions.create(session, of.config)

    return await once.do(action, HTTPStatus.CREATED)


@router.post("/{slot}/drop", summary="Drop a slot that nobody holds", response_model=SlotChanged)
@needs(Scope.DESTROY)
async def drop_slot(deps: Given, of: Of, once: DoneOnce, slot: Slot, wanted: DropSlot) -> JSONResponse:
    async def action() -> SlotChanged:
        async with of.sessions.changing() as session:
            return await actions.drop(session, deps.settings.pipelines, of.config, slot, wanted.confirm)

    return await once.do(action)


@router.post("/{slot}/advance", summary="Let a slot that nobody holds forget WAL", response_model=SlotChanged)
@needs(Scope.DESTROY)
async def advance_slot(deps: Given, of: Of, once: DoneOnce, slot: Slot, wanted: AdvanceSlot) -> JSONResponse:
    async def action() -> SlotChanged:
        async with of.sessions.changing() as session:
            pipelines = deps.settings.pipelines
            acked = lowest_acked(deps.watch.views, on_database_of(of.config, pipelines), slot)
            return await actions.advance(session, pipelines, of.config, slot, wanted, acked)

    return await once.do(action)
