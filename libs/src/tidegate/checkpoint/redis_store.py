"""Acks in Redis: one hash a generation, compared and written by one script, so that no two writers can cross.

A value that can't be believed (foreign, broken seal) counts as missing, and a missing ack as not acked: acks only ever
come late. The connection is dropped when a call is cancelled, because a reply left in it would answer the next caller.
"""

from typing import Any

import redis
import redis.asyncio

from tidegate.checkpoint.store import AckOutcome
from tidegate.contracts.ack import Ack, decode_ack
from tidegate.contracts.names import ack_channel, ack_key
from tidegate.errors import DecodeError, TransientError

# Fixed-width hexadecimal text compares as the numbers do; Lua's own numbers would lose bits above 2^53.
_WRITE = """
local stored = redis.call('HGET', KEYS[1], ARGV[1])
if stored then
  local ok, old = pcall(cjson.decode, stored)
  local new = cjson.decode(ARGV[2])
  if ok and type(old) == 'table' and old.generation == new.generation and old.sink == new.sink then
    if new.position < old.position or new.safe_lsn < old.safe_lsn then return 'lower' end
    if new.epoch < old.epoch then
      if new.position == old.position and new.safe_lsn == old.safe_lsn then return 'lower' end
      return 'foreign'
    end
  end
end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
redis.call('PUBLISH', KEYS[2], ARGV[1])
return 'accepted'
"""


def write_ack(client: redis.Redis, pipeline: str, ack: Ack) -> AckOutcome:
    keys = (ack_key(pipeline, ack.generation), ack_channel(pipeline, ack.generation))
    try:
        outcome = client.eval(_WRITE, len(keys), *keys, ack.sink, ack.encode())
    except redis.RedisError as error:
        raise TransientError(
            f"Redis did not take the ack of {ack.sink}: {type(error).__name__}",
            code="ACK_STORE_UNAVAILABLE",
            remedy="Check that Redis is up, reachable and not full; acks are republished when it answers again.",
        ) from error
    return AckOutcome(outcome.decode())


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
    acks = {}
    for field, value in values.items():
        sink = field.decode(errors="replace")
        try:
            acks[sink] = decode_ack(value, sink=sink, generation=generation)
        except DecodeError:
            continue
    return acks
