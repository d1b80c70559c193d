"""/api/v1/pipelines/{name}/changes: who changed what through this API, newest first."""

import json
from typing import Any

import redis
from fastapi import APIRouter
from pydantic import BaseModel, Field

from tidegate.contracts import names
from tidegate.errors import ConfigError
from tidegate_admin.deps import Of
from tidegate_admin.paging import Cursor, Limit, decode_cursor, encode_cursor
from tidegate_admin.security.scopes import Scope, needs
from tidegate_admin.store import store_unavailable

router = APIRouter(prefix="/api/v1/pipelines/{name}/changes", tags=["changes"])


class ChangeModel(BaseModel):
    time: int = Field(description="Unix microseconds.")
    operation: str = Field(examples=["dropSlot"])
    path: str
    pipeline: str | None
    caller: str
    caller_id: str
    address: str
    status: int = Field(description="What was answered.")
    acked: str | None = Field(
        None,
        description="Of a sink that is not required any more: up to where it had everything.",
        examples=["0/16B3748"],
    )
    position: str | None = Field(None, description="And the newest change that it had.", examples=["0/16B3748#2"])
    generation: str | None = Field(None, description="In which generation.")


class ChangeList(BaseModel):
    items: list[ChangeModel]
    next_cursor: str | None = None


@router.get("", summary="Who changed what through this API, newest first")
@needs(Scope.READ)
async def list_changes(of: Of, cursor: Cursor = None, limit: Limit = 50) -> ChangeList:
    end = "+"
    if cursor is not None:
        time, number = decode_cursor(cursor, int, int)
        end = f"({max(0, int(time))}-{max(0, int(number))}"
    try:
        found: Any = await of.redis.xrevrange(names.audit_key(of.config.pipeline), end, "-", limit)
    except (redis.RedisError, OSError, ConfigError) as error:
        raise store_unavailable(error) from error
    items = [ChangeModel.model_validate(json.loads(fields[b"entry"])) for _, fields in found]
    last = found[-1][0].decode().split("-") if len(found) == limit else None
    return ChangeList(items=items, next_cursor=encode_cursor(int(last[0]), int(last[1])) if last else None)
