"""Asks lanes through Redis (tidegate.contracts.request), and tells what became of it. Only a lane moves its cursor.

Invariant: what no lane serves is refused here and never written: it would be done at some later time, by surprise.
"""

import uuid
from http import HTTPStatus
from typing import Any

import redis

from tidegate.clock import unix_microseconds
from tidegate.contracts import names
from tidegate.contracts.request import Asked, LaneOutcome, LaneRequest, Result, decode_outcome, decode_request
from tidegate.errors import ConfigError, DecodeError, TransientError
from tidegate.failpoints import Failpoint, reach
from tidegate.position import Position
from tidegate_admin.access import PipelineAccess
from tidegate_admin.errors import ApiError
from tidegate_admin.store import store_unavailable

MOST_WAITING = 16


def not_served(asked: str) -> ApiError:
    return ApiError(
        HTTPStatus.NOT_IMPLEMENTED,
        f"no lane of this version serves {asked}",
        code="LANE_REQUEST_NOT_SERVED",
        remedy="Wait for a processor that can.",
    )


async def ask(
    of: PipelineAccess,
    lane: str,
    asked: Asked,
    by: str,
    *,
    position: Position | None = None,
    offset: int | None = None,
    since: int | None = None,
) -> LaneRequest:
    request = LaneRequest(uuid.uuid4().hex, asked, by, unix_microseconds(), position, offset, since)
    key = names.lane_requests_key(of.config.pipeline, lane)
    try:
        if await _listed(of.redis.llen(key)) >= MOST_WAITING:
            raise TransientError(
                "requests to this lane wait for a processor that takes them",
                code="LANE_REQUESTS_WAITING",
                remedy="Start the processor: it does them in order, and refuses those that are older than ten minutes.",
            )
        reach(Failpoint.ADMIN_REQUEST_CHECKED)
        await _listed(of.redis.rpush(key, request.encode()))
    except (redis.RedisError, OSError, ConfigError) as error:
        raise store_unavailable(error) from error
    return request


async def outcome(of: PipelineAccess, lane: str, identity: str) -> LaneOutcome:
    """Of a request of the last day."""
    pipeline = of.config.pipeline
    try:
        waiting = await _listed(of.redis.lrange(names.lane_requests_key(pipeline, lane), 0, -1))
        value = await of.redis.get(names.lane_outcome_key(pipeline, lane, identity))
    except (redis.RedisError, OSError, ConfigError) as error:
        raise store_unavailable(error) from error
    try:
        if isinstance(value, bytes):
            return decode_outcome(value)
        if any(decode_request(each).id == identity for each in waiting):
            return LaneOutcome(identity, Result.WAITING, unix_microseconds())
    except DecodeError as error:
        raise TransientError(
            "Redis holds something that is no outcome", code="STORE_UNAVAILABLE", remedy="Ask again in a moment."
        ) from error
    raise ApiError(
        HTTPStatus.NOT_FOUND,
        "there is no such request to this lane",
        code="LANE_REQUEST_UNKNOWN",
        remedy="Outcomes are kept for a day; GET …/changes lists what was asked for.",
    )


async def _listed(answer: Any) -> Any:
    """The client's types say that a list's commands may answer at once; this one's never do."""
    return await answer
