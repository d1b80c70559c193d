"""Asks lanes through Redis (tidegate.contracts.request), and tells what became of it. Only a lane moves its cursor.

Invariant: what nobody takes does not pile up: it would be done at some later time, by surprise.
"""

import uuid
from collections import Counter
from collections.abc import Sequence
from http import HTTPStatus

import redis

from tidegate.clock import unix_microseconds
from tidegate.contracts import names
from tidegate.contracts.request import Asked, LaneOutcome, LaneRequest, decode_request
from tidegate.errors import ConfigError, TransientError
from tidegate.failpoints import Failpoint, reach
from tidegate.position import Position
from tidegate_admin.access import PipelineAccess
from tidegate_admin.errors import ApiError
from tidegate_admin.store import answered, outcome_of, store_unavailable

MOST_WAITING = 16


def lane_unknown() -> ApiError:
    return ApiError(
        HTTPStatus.NOT_FOUND, "there is no such lane", code="LANE_UNKNOWN", remedy="GET …/lanes lists them."
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
    await put(of, [(lane, request)])
    return request


async def ask_all(of: PipelineAccess, lanes: Sequence[str], asked: Asked, by: str) -> list[tuple[str, LaneRequest]]:
    """All of them or none: they are written together."""
    made = [(lane, LaneRequest(uuid.uuid4().hex, asked, by, unix_microseconds())) for lane in lanes]
    await put(of, made)
    return made


async def put(
    of: PipelineAccess, made: Sequence[tuple[str, LaneRequest]], kept: tuple[str, bytes, int] | None = None
) -> None:
    """In one transaction of Redis. `kept`: a key with its value and how many seconds it is kept, written with them."""
    for lane, count in Counter(lane for lane, _ in made).items():
        await check_room(of, lane, count)
    reach(Failpoint.ADMIN_REQUEST_CHECKED)
    try:
        async with of.redis.pipeline(transaction=True) as together:
            if kept is not None:
                together.set(kept[0], kept[1], ex=kept[2])
            for lane, request in made:
                together.rpush(names.lane_requests_key(of.config.pipeline, lane), request.encode())
            await together.execute()
    except (redis.RedisError, OSError, ConfigError) as error:
        raise store_unavailable(error) from error


async def check_room(of: PipelineAccess, lane: str, count: int) -> None:
    try:
        waiting = await answered(of.redis.llen(names.lane_requests_key(of.config.pipeline, lane)))
    except (redis.RedisError, OSError, ConfigError) as error:
        raise store_unavailable(error) from error
    if waiting + count > MOST_WAITING:
        raise TransientError(
            "requests to this lane wait for a processor that takes them",
            code="LANE_REQUESTS_WAITING",
            remedy="Start the processor: it does them in order, and refuses those that are older than ten minutes.",
        )


async def outcome(of: PipelineAccess, lane: str, identity: str) -> LaneOutcome:
    """Of a request of the last day."""
    pipeline = of.config.pipeline
    unknown = ApiError(
        HTTPStatus.NOT_FOUND,
        "there is no such request to this lane",
        code="LANE_REQUEST_UNKNOWN",
        remedy="Outcomes are kept for a day; GET …/changes lists what was asked for.",
    )
    return await outcome_of(
        of.redis,
        identity,
        requests_key=names.lane_requests_key(pipeline, lane),
        outcome_key=names.lane_outcome_key(pipeline, lane, identity),
        decode=decode_request,
        unknown=unknown,
    )
