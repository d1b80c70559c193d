"""What a lane's driver does beside its loop, which watches other lanes meanwhile: one thing at a time.

A lane is set back, or letters are delivered again: for these the lane stands, and the sink is opened here, which fences
whatever stage may be left. A look at what a replay would do needs no sink, and the lane goes on.
"""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

import redis

from tidegate.checkpoint.redis_store import read_ack
from tidegate.config.pipeline import PipelineConfig
from tidegate.contracts.ack import Ack
from tidegate.contracts.request import Asked, Fate, LaneRequest
from tidegate.errors import TidegateError, TransientError, classify
from tidegate.observability import logs
from tidegate_processor.raw_log import KafkaRawLog
from tidegate_processor.replayer import Replayer
from tidegate_processor.rewind import Terms, set_back
from tidegate_processor.sinks.registry import make_sink, make_whole_sink
from tidegate_processor.trial import try_out

Fates = dict[str, Fate]

_AGAIN_SECONDS = 5.0


class Errands:
    def __init__(self, config: PipelineConfig, sink: str, client: redis.Redis) -> None:
        self._config, self._sink, self._redis = config, sink, client
        self._pool: ThreadPoolExecutor | None = None
        self._future: Future[Fates] | None = None
        self._work: Callable[[], Fates] | None = None
        self._next_try = 0.0
        self._replayer: Replayer | None = None
        self._looked_for: LaneRequest | None = None
        self._stop = threading.Event()
        self._log = logs.get(f"lane.{sink}")

    def rewind(self, terms: Terms) -> None:
        self._start(lambda: self._set_back(terms))

    def look(self, request: LaneRequest) -> None:
        """Whether the sink answers, or what a replay would do; once, however often it is asked for."""
        if self._looked_for != request:
            self._looked_for = request
            self._start(self._ping if request.asked is Asked.PING else self._replayer_of(request).look)

    def deliver(self, request: LaneRequest, incarnation: int) -> None:
        if request.asked is Asked.TRIAL:
            self._start(self._try)
            return
        replayer = self._replayer_of(request)
        self._start(replayer.look if request.is_dry_run else lambda: replayer.deliver(incarnation))

    def comes_again(self, *, is_over: bool) -> bool:
        """Kafka away: what has failed is tried again, until it is over."""
        if is_over or not isinstance(self.error, TransientError):
            return False
        if self._work is not None and time.monotonic() >= self._next_try:
            self._start(self._work)
        return True

    def forget(self) -> None:
        """What was asked for has been answered."""
        self._replayer = self._looked_for = self._future = self._work = None

    @property
    def has_ended(self) -> bool:
        return self._future is not None and self._future.done()

    @property
    def is_idle(self) -> bool:
        return self._future is None or self._future.done()

    def hurry(self) -> None:
        """Long looks end themselves."""
        self._stop.set()

    @property
    def error(self) -> TidegateError | None:
        """Why it was not done; to be asked for when it has ended."""
        error = self._future.exception() if self._future is not None else None
        return classify(error) if error is not None else None

    @property
    def fates(self) -> Fates:
        """Of letters; to be asked for when it has ended without an error."""
        return self._future.result() if self._future is not None else {}

    @property
    def has_deliverable(self) -> bool:
        return Fate.DELIVERABLE in self.fates.values()

    def close(self) -> None:
        """What is under way is awaited: its calls have deadlines, and long looks end themselves."""
        self.hurry()
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def _start(self, work: Callable[[], Fates]) -> None:
        self._pool = self._pool or ThreadPoolExecutor(1, thread_name_prefix=f"errand {self._sink}")
        self._work, self._next_try = work, time.monotonic() + _AGAIN_SECONDS
        self._future = self._pool.submit(work)

    def _replayer_of(self, request: LaneRequest) -> Replayer:
        if self._replayer is None or self._replayer.request != request:
            self._replayer = Replayer(self._config, self._sink, self._redis, request, self._check)
        return self._replayer

    def _check(self) -> None:
        if self._stop.is_set():
            raise TransientError("the processor ends", code="LANE_STOPS", remedy="Nothing: the next one does it.")

    def _ping(self) -> Fates:
        make_sink(self._config, self._config.sink(self._sink)).ping()
        return {}

    def _try(self) -> Fates:
        with KafkaRawLog(self._config) as log:
            try_out(make_whole_sink(self._config, self._config.sink(self._sink)), log)
        return {}

    def _set_back(self, terms: Terms) -> Fates:
        config = self._config
        sink = make_whole_sink(config, config.sink(self._sink))
        with KafkaRawLog(config) as log:
            cursor = set_back(sink, log, terms, self._acked)
        self._log.info("lane_rewound", position=cursor.position, offset=cursor.next_offset)
        return {}

    def _acked(self, generation: str) -> Ack | None:
        return read_ack(self._redis, self._config.pipeline, generation, self._sink)
