"""Where a lane's driver takes requests from Redis, and where it keeps what became of them.

Invariant: a request is taken away in the same transaction of Redis that keeps its outcome and whether the lane stands.
So it is done once, whoever dies in between; and while Redis has not said whether the lane is to stand, nobody knows.
"""

from collections.abc import Mapping

import redis

from tidegate.clock import unix_microseconds
from tidegate.contracts import names
from tidegate.contracts.request import (
    Fate,
    LaneOutcome,
    LanePause,
    LaneRequest,
    Result,
    by_fate,
    decode_pause,
    decode_request,
)
from tidegate.errors import ConfigError, DecodeError, TidegateError
from tidegate.observability import logs
from tidegate_processor.table import LaneState

KEPT_SECONDS = 86_400
OLDEST_SECONDS = 600
"""One that waited longer would be done by surprise."""


class Desk:
    def __init__(self, client: redis.Redis, pipeline: str, sink: str) -> None:
        self.pause: LanePause | None = None
        """None: not known yet."""
        self._redis, self._pipeline, self._sink = client, pipeline, sink
        self._requests = names.lane_requests_key(pipeline, sink)
        self._pause_key = names.lane_pause_key(pipeline, sink)
        self._taken = b""
        self._log = logs.get(f"lane.{sink}")

    @property
    def is_paused(self) -> bool:
        return self.pause is not None and self.pause.is_paused

    def next(self) -> LaneRequest | None:
        """The oldest that is to be done; none also while Redis does not answer."""
        try:
            self.pause = self.pause or self._kept_pause()
            while isinstance(value := self._redis.lindex(self._requests, 0), bytes):
                self._taken = value
                request = self._believed(value)
                if request is not None:
                    return request
        except redis.RedisError as error:
            self._log.failure("requests_unreadable", error)
        return None

    def done(self, request: LaneRequest, *, pause: bool | None = None, fates: Mapping[str, Fate] | None = None) -> bool:
        told = by_fate(fates, request.ids) if fates else {}
        return self._answer(LaneOutcome(request.id, Result.DONE, unix_microseconds(), fates=told), request, pause)

    def refuse(self, request: LaneRequest, error: TidegateError) -> bool:
        now = unix_microseconds()
        outcome = LaneOutcome(request.id, Result.REFUSED, now, error.code, error.message, error.remedy)
        return self._answer(outcome, request, None)

    def refuse_all(self, error: TidegateError) -> None:
        """Whoever waits is told; while Redis does not answer nobody can be, and what waits grows too old."""
        while (request := self.next()) is not None and self.refuse(request, error):
            pass

    def keep_pause(self) -> None:
        """Once more: a Redis that was emptied has to learn it anew."""
        if self.pause is not None:
            self._redis.set(self._pause_key, self.pause.encode())

    def is_expired(self, request: LaneRequest) -> bool:
        return unix_microseconds() - request.time > OLDEST_SECONDS * 1e6

    def _answer(self, outcome: LaneOutcome, request: LaneRequest, pause: bool | None) -> bool:
        """Whether Redis has it; else the caller comes again."""
        wanted = self.pause if pause is None else LanePause(pause, request.by, outcome.time)
        try:
            with self._redis.pipeline(transaction=True) as together:
                key = names.lane_outcome_key(self._pipeline, self._sink, request.id)
                together.set(key, outcome.encode(), ex=KEPT_SECONDS)
                if wanted is not None:
                    together.set(self._pause_key, wanted.encode())
                together.lrem(self._requests, 1, self._taken.decode())
                together.execute()
        except redis.RedisError as error:
            self._log.failure("outcome_late", error)
            return False
        self.pause = wanted
        fields = {"asked": request.asked, "by": request.by, "request": request.id, "result": outcome.result}
        self._log.info("lane_request", **fields, code=outcome.code)
        return True

    def _kept_pause(self) -> LanePause | None:
        """One that cannot be believed says nothing: the lane waits until somebody pauses or resumes it."""
        value = self._redis.get(self._pause_key)
        try:
            return decode_pause(value) if isinstance(value, bytes) else LanePause(False, "", 0)
        except DecodeError as error:
            self._log.failure("pause_unreadable", error)
            return None

    def _believed(self, value: bytes) -> LaneRequest | None:
        """None: it was taken away, because it is none or has been done."""
        try:
            request = decode_request(value)
        except DecodeError as error:
            self._log.failure("request_malformed", error)
            self._redis.lrem(self._requests, 1, value)  # type: ignore[arg-type]  # bytes are taken as they are
            return None
        if self._redis.exists(names.lane_outcome_key(self._pipeline, self._sink, request.id)):
            self._redis.lrem(self._requests, 1, value.decode())
            return None
        return request


def expired() -> ConfigError:
    return ConfigError(
        "no processor took the request in time", code="LANE_REQUEST_EXPIRED", remedy="Ask again, if it is still wanted."
    )


def removed() -> ConfigError:
    return ConfigError(
        "the sink has been taken out of the configuration",
        code="LANE_REMOVED",
        remedy="Nothing: its lane has ended. Put the sink back into the file first, if it is still wanted.",
    )


def not_served(request: LaneRequest, state: LaneState) -> ConfigError:
    return ConfigError(
        f"a lane that is {state} does not take {request.asked}",
        code="LANE_REQUEST_NOT_SERVED",
        remedy="A lane that is lost is rewound, or resumed once the cause is mended.",
    )
