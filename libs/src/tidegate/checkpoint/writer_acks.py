"""The acks of a lane's writers, where it has several, and the sink's own: the least of them.

Invariant: the sink's ack never says more than any writer has made durable. Each writes its own and then looks at all,
so who is last sees the others'; what is missing, or about another raw topic, holds it back.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import redis

from tidegate.checkpoint.redis_store import write_ack
from tidegate.checkpoint.store import AckOutcome
from tidegate.contracts.ack import Ack, decode_ack
from tidegate.contracts.names import lane_acks_key
from tidegate.errors import DecodeError, TransientError


def write_writers_ack(
    client: redis.Redis, pipeline: str, ack: Ack, acks_for: Sequence[int], writers: int
) -> AckOutcome:
    """In the name of some writers. What becomes of the sink's own."""
    key = lane_acks_key(pipeline, ack.generation, ack.sink)
    own: Any = {_field(writer, writers): ack.encode() for writer in acks_for}
    try:
        client.hset(key, mapping=own)
        values: Any = client.hmget(key, [_field(writer, writers) for writer in range(writers)])
    except redis.RedisError as error:
        raise TransientError(
            f"Redis did not take the ack of a writer of {ack.sink}: {type(error).__name__}",
            code="ACK_STORE_UNAVAILABLE",
            remedy="Check that Redis is up, reachable and not full; acks are republished when it answers again.",
        ) from error
    least = least_ack(_believed(value, ack) for value in values)
    return AckOutcome.LOWER if least is None else write_ack(client, pipeline, least)


def least_ack(acks: Iterable[Ack | None]) -> Ack | None:
    """Of all writers; none while one has none, or they are about several topics, whose offsets do not compare."""
    all_acks = list(acks)
    there = [ack for ack in all_acks if ack is not None]
    if len(there) < len(all_acks) or len({ack.topic_id for ack in there}) != 1:
        return None
    least = min(there, key=lambda ack: (ack.position, ack.safe_lsn))
    return replace(
        least,
        epoch=min(ack.epoch for ack in there),
        offset=min(ack.offset for ack in there),
        safe_lsn=min(ack.safe_lsn for ack in there),
        time=max(ack.time for ack in there),
    )


def _field(writer: int, writers: int) -> str:
    """Of another number of writers each has other changes."""
    return f"{writer}/{writers}"


def _believed(value: bytes | None, own: Ack) -> Ack | None:
    try:
        return None if value is None else decode_ack(value, sink=own.sink, generation=own.generation)
    except DecodeError:
        return None
