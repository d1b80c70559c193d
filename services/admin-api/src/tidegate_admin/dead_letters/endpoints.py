"""/api/v1/pipelines/{name}/dead-letters: what could not be delivered, until somebody gives it up."""

import asyncio
import base64
import hashlib
import json
from collections.abc import Iterable
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Path, Query
from fastapi.responses import JSONResponse

from tidegate.contracts.dead_letter import DeadLetter
from tidegate.contracts.resolution import Outcome, decode_record
from tidegate.errors import DecodeError
from tidegate.lsn import format_lsn
from tidegate_admin.dead_letters import replays
from tidegate_admin.dead_letters.entries import NEWEST, OLDEST, Chosen, Entry, Filter, key_hash
from tidegate_admin.dead_letters.index import Index
from tidegate_admin.dead_letters.schemas import (
    LetterCount,
    LetterCounts,
    LetterDetails,
    LetterList,
    LetterModel,
    Plain,
    Purge,
    Purged,
    Replay,
    ReplayProgress,
    ReplayStarted,
    Selection,
)
from tidegate_admin.deps import Asking, Of
from tidegate_admin.errors import ApiError
from tidegate_admin.frames.decoded import single_change
from tidegate_admin.lanes.requests import lane_unknown
from tidegate_admin.once import DoneOnce
from tidegate_admin.paging import Cursor, Limit, decode_cursor, encode_cursor
from tidegate_admin.security.scopes import Caller, Scope, needs

router = APIRouter(prefix="/api/v1/pipelines/{name}/dead-letters", tags=["dead-letters"])

MOST_PURGED = 100_000

Letter = Annotated[str, Path(pattern=r"^[0-9a-f]{32}$")]
Time = Annotated[int | None, Query(ge=0, lt=2**62, description="Unix microseconds.")]


@router.get("", summary="Open dead letters, newest first, without rows")
@needs(Scope.READ)
async def list_dead_letters(
    of: Of,
    caller: Asking,
    lane: Plain | None = None,
    code: Plain | None = None,
    table: Annotated[Plain | None, Query(description="`schema.table`.")] = None,
    key: Annotated[
        str | None, Query(max_length=4096, description='JSON of its key, with table: {"id": "7"}. Scope data.')
    ] = None,
    since: Time = None,
    until: Time = None,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> LetterList:
    wanted = Filter(lane, code, table, _key(caller, table, key), since, until)
    time, offset = decode_cursor(cursor, int, int) if cursor else NEWEST
    before = (int(time), int(offset))
    found = await asyncio.to_thread(of.letters.index.page, wanted, before, limit + 1)
    last = encode_cursor(found[limit - 1].time, found[limit - 1].offset) if len(found) > limit else None
    items = [LetterModel(**_fields(entry)) for entry in found[:limit]]
    return LetterList(items=items, next_cursor=last, is_complete=of.letters.is_complete)


@router.get("/counts", summary="How many are open, by lane, code and table")
@needs(Scope.READ)
async def count_dead_letters(of: Of) -> LetterCounts:
    index: Index = of.letters.index
    rows, total = await asyncio.to_thread(lambda: (index.counts(), index.total()))
    items = [LetterCount(lane=lane, code=code, table=table, letters=letters) for lane, code, table, letters in rows]
    return LetterCounts(total=total, items=items, is_complete=of.letters.is_complete)


@router.get("/{letter}", summary="One dead letter with its row")
@needs(Scope.DATA)
async def get_dead_letter(of: Of, letter: Letter) -> LetterDetails:
    entry = await asyncio.to_thread(of.letters.index.get, letter)
    if entry is None:
        raise _unknown()
    records = await of.letters.topic.read(entry.offset, 1)
    if not records or records[0].offset != entry.offset:
        raise _unknown()
    found = decode_record(records[0].value)
    if not isinstance(found, DeadLetter):
        raise _unknown()
    return LetterDetails(
        **_fields(entry),
        attempts=found.attempts,
        epoch=found.frame.epoch,
        generation=found.generation,
        change=_change(found),
        payload=base64.b64encode(found.payload).decode(),
    )


@router.post("/purge", summary="Give dead letters up, for ever", response_model=Purged)
@needs(Scope.DESTROY)
async def purge_dead_letters(of: Of, caller: Asking, once: DoneOnce, wanted: Purge) -> JSONResponse:
    async def action() -> Purged:
        found = await _selected(of.letters.index, wanted)
        ids, is_cut = found[:MOST_PURGED], len(found) > MOST_PURGED
        told = Purged(letters=len(ids), done=not wanted.dry_run, digest=digest_of(ids), is_cut=is_cut)
        if ids and not wanted.dry_run:
            _confirm(wanted, told)
            await of.letters.resolve(Outcome.PURGED, ids, caller.name)
        return told

    return await once.do(action)


@router.post("/replay", summary="Have lanes deliver dead letters again", status_code=202, response_model=ReplayStarted)
@needs(Scope.OPERATE)
async def replay_dead_letters(of: Of, caller: Asking, once: DoneOnce, wanted: Replay) -> JSONResponse:
    """Each lane does it in its own transaction, and refuses what something newer of its key has overtaken."""

    async def action() -> ReplayStarted:
        chosen, end = await _chosen(of.letters.index, wanted, replays.MOST_REPLAYED + 1)
        if not chosen:
            raise _unknown()
        taken = chosen[: replays.MOST_REPLAYED]
        terms = replays.Terms(caller.name, wanted.to, wanted.force, wanted.dry_run)
        made = replays.parts(taken, terms)
        for lane in {part.lane for part in made}:
            if not of.has_sink(lane):
                raise lane_unknown()
        identity = await replays.start(of, made, terms)
        is_cut = len(chosen) > len(taken)
        last = encode_cursor(taken[-1].time, taken[-1].offset, end) if is_cut else None
        return ReplayStarted(id=identity, letters=len(taken), is_cut=is_cut, next_cursor=last)

    return await once.do(action, HTTPStatus.ACCEPTED)


@router.get("/replays/{replay}", summary="How far a replay is")
@needs(Scope.READ)
async def show_replay(of: Of, replay: Letter) -> ReplayProgress:
    return await replays.progress(of, replay)


def digest_of(ids: Iterable[str]) -> str:
    return hashlib.blake2b("".join(sorted(ids)).encode(), digest_size=16).hexdigest()


def _confirm(wanted: Purge, found: Purged) -> None:
    """A filter may mean as many as before and yet others; ids say themselves which."""
    if wanted.confirm != found.letters:
        raise ApiError(
            HTTPStatus.CONFLICT,
            f"{found.letters} dead letters are meant, and confirm says otherwise",
            code="CONFIRM_MISMATCH",
            remedy="Do a dry run, and say in confirm how many it named.",
        )
    if wanted.digest != found.digest and not (wanted.ids is not None and wanted.digest is None):
        raise ApiError(
            HTTPStatus.CONFLICT,
            "the dead letters that are meant are not those of the dry run",
            code="DIGEST_MISMATCH",
            remedy="Do a dry run, look at what is meant now, and give back its digest.",
        )


async def _selected(index: Index, wanted: Selection) -> list[str]:
    if wanted.ids is not None:
        return await asyncio.to_thread(index.known, wanted.ids)
    return await asyncio.to_thread(index.ids, _filter(wanted), MOST_PURGED + 1)


async def _chosen(index: Index, wanted: Replay, limit: int) -> tuple[list[Chosen], int]:
    """And where the topic ended when the first part was asked for: one that fails again lies behind that, and would
    else be asked for in part after part."""
    if wanted.ids is not None:
        return await asyncio.to_thread(index.chosen_ids, wanted.ids), 0
    place = decode_cursor(wanted.cursor, int, int, int) if wanted.cursor else (*OLDEST, index.next_offset)
    time, offset, end = map(int, place)
    return await asyncio.to_thread(index.chosen, _filter(wanted), (time, offset), end, limit), end


def _filter(wanted: Selection) -> Filter:
    chosen = Filter(wanted.lane, wanted.code, wanted.table, since=wanted.since, until=wanted.until)
    if chosen == Filter():
        raise ApiError(
            HTTPStatus.UNPROCESSABLE_ENTITY,
            "nothing says which dead letters are meant",
            code="SELECTION_EMPTY",
            remedy="Give ids, or a lane, a code, a table or a time.",
        )
    return chosen


def _key(caller: Caller, table: str | None, key: str | None) -> bytes | None:
    """A key is row data: asking whether there is one tells it."""
    if key is None:
        return None
    if Scope.DATA not in caller.scopes:
        raise ApiError(
            HTTPStatus.FORBIDDEN, "this needs the scope data", code="SCOPE_MISSING", remedy="Filter without the key."
        )
    try:
        parsed = json.loads(key)
        if table is None or not isinstance(parsed, dict) or not parsed:
            raise ValueError("not a key")
        return key_hash(table, {str(name): None if value is None else str(value) for name, value in parsed.items()})
    except (ValueError, RecursionError):
        raise ApiError(
            HTTPStatus.UNPROCESSABLE_ENTITY,
            "key is not a JSON object beside a table",
            code="KEY_INVALID",
            remedy='Give table=public.orders and key={"id": "7"}, values as PostgreSQL writes them.',
        ) from None


def _change(found: DeadLetter) -> dict[str, object] | None:
    try:
        change = single_change(found.payload, found.schema, found.position)
    except DecodeError:
        return None
    return {name: value for name, value in change.to_json().items() if name not in ("xid", "commit_time", "lsn")}


def _fields(entry: Entry) -> dict[str, object]:
    return {
        "id": entry.id,
        "lane": entry.lane,
        "code": entry.code,
        "table": entry.channel,
        "operation": entry.operation,
        "commit_lsn": format_lsn(int(entry.commit_lsn, 16)),
        "ordinal": entry.ordinal,
        "time": entry.time,
        "found": entry.found,
        "message": entry.message,
        "remedy": entry.remedy,
        "frame_offset": entry.frame_offset,
    }


def _unknown() -> ApiError:
    return ApiError(
        HTTPStatus.NOT_FOUND,
        "no dead letter with this id is open",
        code="DEAD_LETTER_UNKNOWN",
        remedy="It was resolved, or is not in the index yet: GET …/dead-letters lists those that are.",
    )
