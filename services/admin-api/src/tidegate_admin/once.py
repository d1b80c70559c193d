"""Idempotency-Key: an action that is asked for twice under one key is done once, by whichever instance.

| what Redis has under the key | answer |
| --- | --- |
| nothing | the action is done, its answer kept for a day |
| an answer to the same request | that answer |
| the same request, under way | 409 |
| another request | 422 |

Invariant: only a success is kept; a refusal has changed nothing, so that it may be tried again under the same key.
"""

import hashlib
import json
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Annotated

import redis
from fastapi import Depends, Header, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel

from tidegate.errors import ConfigError
from tidegate_admin.access import PipelineAccess
from tidegate_admin.deps import Asking, Of
from tidegate_admin.errors import ApiError
from tidegate_admin.security.scopes import Caller
from tidegate_admin.store import store_unavailable

KEPT_SECONDS = 86_400
UNDER_WAY_SECONDS = 60
"""No action takes longer; one whose instance died in the middle may be tried again after that."""

Key = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        pattern=r'^"?[A-Za-z0-9._~-]{1,128}"?$',
        description="Asked twice under one key within a day, this is done once.",
    ),
]
Action = Callable[[], Awaitable[BaseModel]]


class Once:
    def __init__(self, of: PipelineAccess, caller: Caller, key: str | None, fingerprint: str) -> None:
        self._of = of
        self._fingerprint = fingerprint
        self._name = f"{answers_key(of.config.pipeline)}{caller.id}:{key.strip(chr(34))}" if key else None

    async def do(self, action: Action, status: HTTPStatus = HTTPStatus.OK) -> JSONResponse:
        if self._name is None:
            return JSONResponse((await action()).model_dump(mode="json"), status)
        kept = await self._begin(self._name)
        if kept is not None:
            return kept
        try:
            body = (await action()).model_dump(mode="json")
        except BaseException:
            await self._forget(self._name)
            raise
        await self._keep(self._name, status, body)
        return JSONResponse(body, status)

    async def _begin(self, name: str) -> JSONResponse | None:
        under_way = json.dumps({"request": self._fingerprint})
        try:
            if await self._of.redis.set(name, under_way, nx=True, ex=UNDER_WAY_SECONDS):
                return None
            found = json.loads(await self._of.redis.get(name) or under_way)
        except (redis.RedisError, OSError, ConfigError) as error:
            raise store_unavailable(error) from error
        if found["request"] != self._fingerprint:
            raise ApiError(
                HTTPStatus.UNPROCESSABLE_ENTITY,
                "this Idempotency-Key was used for another request",
                code="IDEMPOTENCY_KEY_REUSED",
                remedy="Draw a new key for each request.",
            )
        if "status" not in found:
            raise ApiError(
                HTTPStatus.CONFLICT,
                "the same request is under way",
                code="IDEMPOTENCY_KEY_UNDER_WAY",
                remedy="Ask again in a moment under the same key; the answer will be its answer.",
            )
        return JSONResponse(found["body"], found["status"], {"Idempotency-Replayed": "true"})

    async def _keep(self, name: str, status: HTTPStatus, body: object) -> None:
        kept = json.dumps({"request": self._fingerprint, "status": status, "body": body})
        try:
            await self._of.redis.set(name, kept, ex=KEPT_SECONDS)
        except (redis.RedisError, OSError, ConfigError) as error:
            raise store_unavailable(error) from error

    async def _forget(self, name: str) -> None:
        try:
            await self._of.redis.delete(name)
        except (redis.RedisError, OSError, ConfigError) as error:
            raise store_unavailable(error) from error


async def _once(request: Request, of: Of, caller: Asking, key: Key = None) -> Once:
    """Over the body as it came: the guard has it whole."""
    asked = f"{request.method} {request.url.path}?{request.url.query}\n".encode() + await request.body()
    return Once(of, caller, key, hashlib.sha256(asked).hexdigest())


DoneOnce = Annotated[Once, Depends(_once)]


def answers_key(pipeline: str) -> str:
    """What all keys of kept answers begin with."""
    return f"tidegate:{pipeline}:once:"
