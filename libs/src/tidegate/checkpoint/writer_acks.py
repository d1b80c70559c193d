"""The acks of a lane's writers, where it has several, and the sink's own: the least of them.

Invariant: the sink's ack never says more than any writer has made durable. Each writes its own and then looks at all,
so who is last sees the others'; what is missing, or about another raw topic, holds it back.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

import redis

from tidegate.checkpoint.redis_store import ack_not_taken, believed_ack, write_ack
from tidegate.checkpoint.store import AckOutcome
from tidegate.contracts.ack import Ack
from tidegate.contracts.missed import NONE
from tidegate.contracts.names import lane_acks_key


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
        raise ack_not_taken(f"a writer of {ack.sink}", error) from error
    known = (None if value is None else believed_ack(value, ack.sink, ack.generation) for value in values)
    least = least_ack(known)
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
        missed=reduce(lambda missed, ack: missed.and_from(*ack.missed), there, NONE),
    )


def _field(writer: int, writers: int) -> str:
    """Of another number of writers each has other changes."""
    return f"{writer}/{writers}"
