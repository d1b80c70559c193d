"""Acks in Redis: one hash a generation, compared and written by one script, so that no two writers can cross.

A value that can't be believed (foreign, broken seal) counts as missing, and a missing ack as not acked: acks only ever
come late. The connection is dropped when a call is cancelled, because a reply left in it would answer the next caller.
"""

from typing import Any

import redis
import redis.asyncio

from tidegate.checkpoint.store import AckOutcome
from tidegate.contracts.ack import Ack, decode_ack
from tidegate.contracts.lineage import Lineage, decode_lineage
from tidegate.contracts.names import ack_channel, ack_key, lineage_key
from tidegate.errors import DecodeError, TransientError

# Fixed-width hexadecimal text compares as the numbers do; Lua's own numbers would lose bits above 2^53. An epoch number
# counts starts of a reader and stays far below that.
# A script can't check a seal: a stored value that refuses us is shown to the client, which comes back with it as
# ARGV[3] if it is not to be believed, and then it does not count.
_WRITE = """
local stored = redis.call('HGET', KEYS[1], ARGV[1])
if stored and stored ~= ARGV[3] then
  local ok, old = pcall(cjson.decode, stored)
  local new = cjson.decode(ARGV[2])
  if ok and type(old) == 'table' and old.generation == new.generation and old.sink == new.sink
    and type(old.position) == 'string' and type(old.safe_lsn) == 'string' and type(old.epoch) == 'number' then
    if new.position < old.position or new.safe_lsn < old.safe_lsn then return {'lower', stored} end
    if new.topic_id == old.topic_id and new.epoch < old.epoch then
      if new.position == old.position and new.safe_lsn == old.safe_lsn then return {'lower', stored} end
      return {'foreign', stored}
    end
  end
end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
redis.call('PUBLISH', ARGV[4], ARGV[1])
return {'accepted', ARGV[2]}
"""


def write_ack(client: redis.Redis, pipeline: str, ack: Ack) -> AckOutcome:
    outcome, stored = _evaluate(client, pipeline, ack, disbelieved=b"")
    if outcome is not AckOutcome.ACCEPTED and believed_ack(stored, ack.sink, ack.generation) is None:
        outcome, _ = _evaluate(client, pipeline, ack, disbelieved=stored)
    return outcome


def _evaluate(client: redis.Redis, pipeline: str, ack: Ack, *, disbelieved: bytes) -> tuple[AckOutcome, bytes]:
    key, channel = ack_key(pipeline, ack.generation), ack_channel(pipeline, ack.generation)
    try:
        outcome, stored = client.eval(_WRITE, 1, key, ack.sink, ack.encode(), disbelieved, channel)
    except redis.RedisError as error:
        raise ack_not_taken(ack.sink, error) from error
    return AckOutcome(outcome.decode()), stored


def believed_ack(value: bytes, sink: str, generation: str) -> Ack | None:
    try:
        return decode_ack(value, sink=sink, generation=generation)
    except DecodeError:
        return None


def ack_not_taken(whose: str, error: redis.RedisError) -> TransientError:
    return TransientError(
        f"Redis did not take the ack of {whose}: {type(error).__name__}",
        code="ACK_STORE_UNAVAILABLE",
        remedy="Check that Redis is up, reachable and not full; acks are republished when it answers again.",
    )


async def read_acks(client: redis.asyncio.Redis, pipeline: str, generation: str) -> dict[str, Ack]:
    """The believable acks of this generation; sinks without one are absent."""
    try:
        values: Any = await client.hgetall(ack_key(pipeline, generation))
    except redis.RedisError as error:
        raise TransientError(
            f"Redis did not answer for the acks: {type(error).__name__}",
            code="ACK_STORE_UNAVAILABLE",
            remedy="Check that Redis is up and reachable; nothing is confirmed meanwhile.",
        ) from error
    named = ((field.decode(errors="replace"), value) for field, value in values.items())
    acks = ((sink, believed_ack(value, sink, generation)) for sink, value in named)
    return {sink: ack for sink, ack in acks if ack is not None}


def read_ack(client: redis.Redis, pipeline: str, generation: str, sink: str) -> Ack | None:
    """The believable ack of one sink. Raises when Redis does not answer: "none" would be a guess."""
    try:
        value = client.hget(ack_key(pipeline, generation), sink)
    except redis.RedisError as error:
        raise TransientError(
            f"Redis did not tell the sink's ack: {type(error).__name__}",
            code="ACK_STORE_UNAVAILABLE",
            remedy="Check that Redis is up and reachable; the lane starts again.",
        ) from error
    return believed_ack(value, sink, generation) if isinstance(value, bytes) else None


def read_lineage(client: redis.Redis, pipeline: str) -> Lineage | None:
    """Where the reader works; raises when Redis does not answer."""
    try:
        value = client.get(lineage_key(pipeline))
    except redis.RedisError as error:
        raise _silent(error) from error
    return _lineage(value)


async def read_lineage_async(client: redis.asyncio.Redis, pipeline: str) -> Lineage | None:
    try:
        value = await client.get(lineage_key(pipeline))
    except redis.RedisError as error:
        raise _silent(error) from error
    return _lineage(value)


async def write_lineage_async(client: redis.asyncio.Redis, pipeline: str, lineage: Lineage) -> None:
    try:
        await client.set(lineage_key(pipeline), lineage.encode())
    except redis.RedisError as error:
        raise _silent(error) from error


def _lineage(value: object) -> Lineage | None:
    try:
        return decode_lineage(value) if isinstance(value, bytes) else None
    except DecodeError:
        return None


def _silent(error: redis.RedisError) -> TransientError:
    return TransientError(
        f"Redis did not answer for where the reader works: {type(error).__name__}",
        code="ACK_STORE_UNAVAILABLE",
        remedy="Check that Redis is up and reachable; the service starts again.",
    )
