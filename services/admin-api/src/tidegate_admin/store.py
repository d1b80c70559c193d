"""What Redis answers, what became of a request that waited there, and what it means when Redis does not answer."""

from collections.abc import Callable
from typing import Any, Protocol

import redis
import redis.asyncio

from tidegate.clock import unix_microseconds
from tidegate.contracts.request import LaneOutcome, Result, decode_outcome
from tidegate.errors import ConfigError, DecodeError, TransientError
from tidegate_admin.errors import ApiError


class Identified(Protocol):
    @property
    def id(self) -> str: ...


def store_unavailable(error: BaseException) -> TransientError:
    return TransientError(
        f"Redis did not answer: {type(error).__name__}",
        code="STORE_UNAVAILABLE",
        remedy="Check that Redis is up, reachable and not full; then ask again.",
    )


async def answered(answer: Any) -> Any:
    """The client's types say that some commands may answer at once; this one's never do."""
    return await answer


async def outcome_of(
    client: redis.asyncio.Redis,
    identity: str,
    *,
    requests_key: str,
    outcome_key: str,
    decode: Callable[[bytes], Identified],
    unknown: ApiError,
) -> LaneOutcome:
    """Of a request of the last day: what became of it, or that it waits; `unknown` is raised where it is neither."""
    try:
        waiting = await answered(client.lrange(requests_key, 0, -1))
        value = await client.get(outcome_key)
    except (redis.RedisError, OSError, ConfigError) as error:
        raise store_unavailable(error) from error
    try:
        if isinstance(value, bytes):
            return decode_outcome(value)
        if any(_is(each, identity, decode) for each in waiting):
            return LaneOutcome(identity, Result.WAITING, unix_microseconds())
    except DecodeError as error:
        raise TransientError(
            "Redis holds something that is no outcome", code="STORE_UNAVAILABLE", remedy="Ask again in a moment."
        ) from error
    raise unknown


def _is(value: bytes, identity: str, decode: Callable[[bytes], Identified]) -> bool:
    """Something that is no request stands in nobody's way."""
    try:
        return decode(value).id == identity
    except DecodeError:
        return False
