"""How long what a lane has not delivered has been in the raw topic, as the driver sees it.

The reader says in Redis how far it has come, the lane's ack how far the sink has: a stage need not speak for this, so
the figure grows while one is stuck, dead or being started again, and within a long batch. It is reckoned as the admin
service reckons it, from the same values.
"""

import time
from collections.abc import Callable, Iterable

import redis

from tidegate.checkpoint.redis_store import read_ack
from tidegate.contracts import names
from tidegate.contracts.status import LaneStatus, ReaderStatus
from tidegate.errors import DecodeError, TransientError
from tidegate.lag import LsnHistory, lag

_LOOK_SECONDS = 1.0


class Behind:
    def __init__(
        self, client: redis.Redis, pipeline: str, sinks: Iterable[str], clock: Callable[[], float] = time.time
    ) -> None:
        self._redis, self._pipeline, self._clock = client, pipeline, clock
        self._acked = dict.fromkeys(sinks, 0)
        self._produced = LsnHistory()
        self._ahead = 0
        self._generation = ""
        self._looked: float | None = None

    def follow(self, sinks: Iterable[str]) -> None:
        """These alone from now on."""
        self._acked = {sink: self._acked.get(sink, 0) for sink in sinks}

    def look(self) -> None:
        """Once a second. While Redis does not answer, what it said last goes on ageing."""
        now = self._clock()
        if self._looked is not None and 0 <= now - self._looked < _LOOK_SECONDS:
            return
        self._looked = now
        try:
            value = self._redis.get(names.reader_status_key(self._pipeline))
            reader = ReaderStatus.decode(value) if isinstance(value, bytes) else None
            if reader is not None and reader.generation:
                self._take(reader, now)
        except (redis.RedisError, TransientError, DecodeError):
            return

    def seconds(self, sink: str, status: LaneStatus | None) -> float:
        """0 for a lane that has all; one that has never acked is late since the raw topic was first looked at."""
        now = self._clock()
        newest = now - status.last_commit_time / 1e6 if status and status.last_commit_time else None
        return lag(self._ahead, self._acked[sink], self._produced, now, newest).seconds

    def _take(self, reader: ReaderStatus, now: float) -> None:
        if reader.generation != self._generation:
            self._acked = dict.fromkeys(self._acked, 0)
            self._generation = reader.generation
        for sink in self._acked:
            ack = read_ack(self._redis, self._pipeline, reader.generation, sink)
            self._acked[sink] = ack.safe_lsn if ack else 0
        self._ahead = reader.produced_lsn
        self._produced.record(now, reader.produced_lsn)
