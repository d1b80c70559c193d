"""Where each writer of a lane stands, as it says in Redis: so that one may wait until all others are there.

| it says that it stands at an offset | when |
| --- | --- |
| that of its cursor | it has opened, fenced |
| that of a frame which is for all | it has committed all that it had before |

Invariant: what it says is true when it is said, and stays so: what was durable before that offset stays durable, in the
incarnation that says it. What another incarnation or another topic is about does not count. Redis away: nobody is seen,
and who waits goes on waiting. Redis emptied: whoever has said something says it again (`remind`).
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import redis

from tidegate.contracts import names
from tidegate.contracts.document import build
from tidegate.contracts.fixed_width import decode_position, encode_position
from tidegate.contracts.sealed import seal, unseal
from tidegate.errors import DecodeError, TransientError
from tidegate.observability import logs
from tidegate.position import Position

_PATIENCE_SECONDS = 120.0
"""As long as a worker may take for its first word. One that is slow is waited for; one that stands fails by itself."""
_REMIND_SECONDS = 1.0
_LOOK_SECONDS = 0.005
"""Short: all others stand while one is waited for. They look, for a message that gets lost would be waited for."""

_log = logs.get("lane.meeting")


@dataclass(frozen=True, slots=True)
class Arrival:
    incarnation: int
    topic_id: str
    offset: int
    position: Position

    def encode(self) -> bytes:
        position = encode_position(self.position)
        fields = {"incarnation": self.incarnation, "topic_id": self.topic_id, "offset": self.offset}
        return seal({**fields, "position": position})


def decode_arrival(value: bytes) -> Arrival:
    document = unseal(value)
    try:
        return build(Arrival, document | {"position": decode_position(document["position"])})
    except (KeyError, ValueError):
        raise DecodeError("this arrival lacks what an arrival must say", code="ARRIVAL_MALFORMED") from None


class Meeting:
    def __init__(
        self,
        client: redis.Redis,
        pipeline: str,
        sink: str,
        incarnation: int,
        between: Callable[[], None],
        is_stopping: Callable[[], bool],
    ) -> None:
        """`between` is called while somebody is waited for, `is_stopping` tells whether that is for nothing."""
        self._redis, self._key, self._incarnation = client, names.lane_arrivals_key(pipeline, sink), incarnation
        self._between, self._is_stopping = between, is_stopping
        self._is_answered = True
        self._newest: tuple[int, bytes] | None = None
        self._remind_at = 0.0

    def arrive(self, writer: int, topic_id: str, offset: int, position: Position) -> None:
        """Redis away, it is said when it answers again: nobody gets past this one until then."""
        value = Arrival(self._incarnation, topic_id, offset, position).encode()

        def is_said() -> bool:
            self._redis.hset(self._key, str(writer), value)
            return True

        self._until(is_said, "Redis")
        self._newest = writer, value
        self._remind_at = time.monotonic() + _REMIND_SECONDS

    def remind(self) -> None:
        """Of the newest arrival, now and then: where Redis has lost it, nobody else would get past this one."""
        if self._newest is None or time.monotonic() < self._remind_at:
            return
        self._remind_at = time.monotonic() + _REMIND_SECONDS
        writer, value = self._newest

        def is_there() -> bool:
            # One of a later incarnation stays: it is nobody's business any more where this one stands.
            if (found := self._redis.hget(self._key, str(writer))) is None or self._is_older(found):
                self._redis.hset(self._key, str(writer), value)
            return True

        self._answers(is_there)

    def _is_older(self, value: Any) -> bool:
        try:
            return decode_arrival(value).incarnation < self._incarnation
        except DecodeError:
            return True

    def await_first(self) -> None:
        """Until writer 0 of this incarnation has fenced the one before, which moved everybody's cursor."""
        self._until(lambda: 0 in self._said(), "writer 0")

    def await_all(self, writers: int, topic_id: str, offset: int) -> Mapping[int, Position]:
        """Their positions, once all of them stand at this offset or behind it."""
        found: dict[int, Position] = {}

        def are_there() -> bool:
            there = {
                writer: arrival.position
                for writer, arrival in self._said().items()
                if arrival.topic_id == topic_id and arrival.offset >= offset
            }
            found.update(there)
            return there.keys() >= set(range(writers))

        self._until(are_there, "all other writers")
        return found

    def _said(self) -> dict[int, Arrival]:
        """By the writers of this incarnation."""
        said: dict[int, Arrival] = {}
        values: Any = self._redis.hgetall(self._key)
        for writer, value in values.items():
            try:
                arrival = decode_arrival(value)
            except DecodeError as error:
                _log.failure("arrival_unreadable", error)
                continue
            if arrival.incarnation == self._incarnation and writer.isdigit():
                said[int(writer)] = arrival
        return said

    def _until(self, is_so: Callable[[], bool], whom: str) -> None:
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while not self._answers(is_so):
            if self._is_stopping():
                raise TransientError("the lane is told to stop", code="LANE_STOPS", remedy="Nothing: it was asked to.")
            if time.monotonic() > deadline:
                raise TransientError(
                    f"a writer of the lane has waited {_PATIENCE_SECONDS:.0f} s for {whom}",
                    code="LANE_WRITERS_APART",
                    remedy="Nothing, if it comes once: the lane starts anew. Else look whether Redis answers, and on a "
                    "cluster whether there is a free slot for each of the lane's writers: they run at once.",
                )
            self.remind()
            self._between()
            time.sleep(_LOOK_SECONDS)

    def _answers(self, is_so: Callable[[], bool]) -> bool:
        try:
            answer = is_so()
        except redis.RedisError as error:
            if self._is_answered:
                _log.failure("arrivals_unreadable", error)
            self._is_answered = False
            return False
        self._is_answered = True
        return answer
