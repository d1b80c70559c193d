"""Sets a lane's cursor back beside the driver's loop, which watches other lanes meanwhile."""

from concurrent.futures import Future, ThreadPoolExecutor

import redis

from tidegate.checkpoint.redis_store import read_ack
from tidegate.config.pipeline import PipelineConfig
from tidegate.contracts.ack import Ack
from tidegate.contracts.cursor import Cursor
from tidegate.errors import TidegateError, classify
from tidegate.observability import logs
from tidegate_processor.raw_log import KafkaRawLog
from tidegate_processor.rewind import Terms, set_back
from tidegate_processor.sinks.registry import make_sink


class Rewinder:
    def __init__(self, config: PipelineConfig, sink: str, client: redis.Redis) -> None:
        self._config, self._sink, self._redis = config, sink, client
        self._pool: ThreadPoolExecutor | None = None
        self._future: Future[Cursor] | None = None
        self._terms: Terms | None = None
        self._log = logs.get(f"lane.{sink}")

    def start(self, terms: Terms) -> None:
        self._pool = self._pool or ThreadPoolExecutor(1, thread_name_prefix=f"rewind {self._sink}")
        self._terms = terms
        self._future = self._pool.submit(self._set_back, terms)

    def again(self) -> None:
        if self._terms is not None:
            self.start(self._terms)

    @property
    def has_ended(self) -> bool:
        return self._future is not None and self._future.done()

    @property
    def error(self) -> TidegateError | None:
        """Why it was not set back; to be asked for when it has ended."""
        error = self._future.exception() if self._future is not None else None
        return classify(error) if error is not None else None

    def close(self) -> None:
        """What is under way is awaited: its calls have deadlines."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def _set_back(self, terms: Terms) -> Cursor:
        config = self._config
        sink = make_sink(config, config.sink(self._sink))
        with KafkaRawLog(config) as log:
            cursor = set_back(sink, log, terms, self._acked)
        self._log.info("lane_rewound", position=cursor.position, offset=cursor.next_offset)
        return cursor

    def _acked(self, generation: str) -> Ack | None:
        return read_ack(self._redis, self._config.pipeline, generation, self._sink)
