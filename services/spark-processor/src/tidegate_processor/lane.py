"""The driver's side of one lane: starts its query, watches its heartbeat, restarts it alone, stops it in order.

| state    | tick                                                                          | stop                 |
| -------- | ----------------------------------------------------------------------------- | -------------------- |
| waiting  | raw topic there and back-off over → new incarnation, query → running          | → stopped            |
| running  | failure recorded or query ended → waiting, with back-off; StreamError → lost  | drain, end → stopped |
|          | silent for too long → worker killed, query ended → waiting, with back-off     |                      |
| lost     | nothing: a person decides                                                     | → stopped            |
| stopped  | nothing                                                                       | -                    |

`query.stop()` is no kill: the stage sees a plain end of input. So a lane is first told to drain and reports that it
has; one that does not in time is killed by pid. No new incarnation starts before the old one is drained, dead or
fenced.
"""

import contextlib
import json
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from enum import StrEnum
from pathlib import Path

import redis
from confluent_kafka import Consumer
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from tidegate.clock import unix_microseconds
from tidegate.config.epoch import lane_epoch
from tidegate.config.pipeline import PipelineConfig
from tidegate.config.sinks import StartFrom, Trigger
from tidegate.contracts import names
from tidegate.contracts.control import Command, LaneControl
from tidegate.contracts.status import Failure, LaneStatus, State
from tidegate.errors import DecodeError, StreamError, TidegateError
from tidegate.observability import logs
from tidegate_processor.kafka_clients import client, librdkafka_settings, look_at, read_cursor
from tidegate_processor.spark.query import start_query
from tidegate_processor.stage import StageSettings

# A worker has to boot, import and warm up before it can speak the first time.
_FIRST_WORD_SECONDS = 60.0
_SILENT_SECONDS = 15.0
_DRAIN_SECONDS = 8.0
_HEARTBEAT_SECONDS = 1.0
_BACKOFF_FIRST_SECONDS = 0.5
_BACKOFF_LAST_SECONDS = 30.0
# A lane that lived this long has recovered; its next failure is a new one.
_HEALTHY_SECONDS = 60.0


class LaneState(StrEnum):
    WAITING = "waiting"
    RUNNING = "running"
    LOST = "lost"
    STOPPED = "stopped"


class Lane:
    def __init__(self, session: SparkSession, config: PipelineConfig, sink: str, client: redis.Redis) -> None:
        self.sink = sink
        self.state = LaneState.WAITING
        self.failure: Failure | None = None
        self.status: LaneStatus | None = None
        self.restarts = 0
        self._session, self._config, self._redis = session, config, client
        self._log = logs.get(f"lane.{sink}")
        self._incarnation = 0
        self._query: StreamingQuery | None = None
        self._checkpoint: Path | None = None
        self._started = 0.0
        self._next_try = 0.0
        self._backoff = _BACKOFF_FIRST_SECONDS

    def tick(self, *, raw_topic_exists: Callable[[], bool]) -> None:
        if self.state is LaneState.WAITING and time.monotonic() >= self._next_try and raw_topic_exists():
            self._try_to_start()
        elif self.state is LaneState.RUNNING:
            self._watch()

    def begin_stop(self) -> None:
        if self.state is LaneState.RUNNING:
            self._post(Command.STOP)

    def finish_stop(self) -> None:
        if self.state is LaneState.RUNNING and not self._drained():
            self._log.warning("lane_not_drained", seconds=_DRAIN_SECONDS)
            self._kill_worker()
        self._end_query()
        self.state = LaneState.STOPPED

    def _try_to_start(self) -> None:
        try:
            self._start()
        except TidegateError as error:
            self._fail(Failure(type(error).__name__, error.code, error.message, error.remedy))
        except PySparkException as error:
            what = f"Spark did not start the lane's query: {type(error).__name__}"
            self._fail(Failure("TransientError", "LANE_NOT_STARTED", what, "Read Spark's own log; it is tried again."))

    def _start(self) -> None:
        self._incarnation = max(self._incarnation + 1, unix_microseconds() // 1000)
        self._post(Command.RUN)
        settings = StageSettings(
            config=self._config,
            sink=self.sink,
            config_epoch=lane_epoch(self._config, self.sink),
            incarnation=self._incarnation,
        )
        self._checkpoint = Path(tempfile.mkdtemp(prefix="tidegate-lane-"))
        starting = self._starting_offsets()
        self._query = start_query(self._session, self._config, settings, starting=starting, checkpoint=self._checkpoint)
        self.status, self.failure = None, None
        self.state, self._started = LaneState.RUNNING, time.monotonic()
        self._log.info("lane_started", incarnation=self._incarnation, starting=starting)

    def _watch(self) -> None:
        self._read_status()
        age = time.monotonic() - self._started
        if age > _HEALTHY_SECONDS:
            self._backoff = _BACKOFF_FIRST_SECONDS
        if self.status and self.status.failure:
            self._fail(self.status.failure)
        elif self._query is None or not self._query.isActive:
            self._fail(Failure("TransientError", "LANE_ENDED", "the lane's query ended", "The lane is restarted."))
        elif self._is_idle:
            self._speak_for_the_stage(State.RUNNING)
        elif self._is_silent(age):
            self._kill_worker()
            self._fail(Failure("TransientError", "LANE_SILENT", "the lane's heartbeat stopped", "It is restarted."))

    @property
    def _is_idle(self) -> bool:
        """Between two micro-batches no stage runs: all it took is committed, and nobody beats the heart but we."""
        if self._config.sink(self.sink).trigger is Trigger.REALTIME or self._query is None:
            return False
        return not self._query.status["isTriggerActive"]

    def _is_silent(self, age: float) -> bool:
        if self.status is None:
            return age > _FIRST_WORD_SECONDS
        return unix_microseconds() - self.status.time > _SILENT_SECONDS * 1e6 and self._redis_answers()

    def _fail(self, failure: Failure) -> None:
        self._end_query()
        self.failure = failure
        fields = {"code": failure.code, "message": failure.message, "remedy": failure.remedy}
        if failure.kind in (StreamError.__name__, DecodeError.__name__):
            self.state = LaneState.LOST
            self._log.error("lane_lost", **fields)
            return
        self.restarts += 1
        self._next_try = time.monotonic() + self._backoff
        self._log.warning("lane_restarts", seconds=self._backoff, restarts=self.restarts, **fields)
        self._backoff = min(self._backoff * 2, _BACKOFF_LAST_SECONDS)
        self.state = LaneState.WAITING

    def _end_query(self) -> None:
        query, self._query = self._query, None
        if query is not None:
            with contextlib.suppress(PySparkException):
                query.stop()
        if self._checkpoint is not None:
            shutil.rmtree(self._checkpoint, ignore_errors=True)
            self._checkpoint = None

    def _drained(self) -> bool:
        deadline = time.monotonic() + _DRAIN_SECONDS
        while time.monotonic() < deadline and self._query is not None and self._query.isActive:
            self._read_status()
            if self.status and self.status.state is State.DRAINED:
                return True
            if self._is_idle:
                self._speak_for_the_stage(State.DRAINED)
                return True
            self._query.awaitTermination(0.05)
        return self._query is None or not self._query.isActive

    def _read_status(self) -> None:
        try:
            value = self._redis.get(names.lane_status_key(self._config.pipeline, self.sink))
            status = LaneStatus.decode(value) if isinstance(value, bytes) else None
        except (redis.RedisError, DecodeError):
            return
        if status is not None and status.incarnation == self._incarnation:
            self.status = status

    def _speak_for_the_stage(self, state: State) -> None:
        now = unix_microseconds()
        if self.status is None or (state is self.status.state and now - self.status.time < _HEARTBEAT_SECONDS * 1e6):
            return
        self.status = replace(self.status, state=state, time=now)
        with contextlib.suppress(redis.RedisError):
            self._redis.set(names.lane_status_key(self._config.pipeline, self.sink), self.status.encode())

    def _redis_answers(self) -> bool:
        try:
            return bool(self._redis.ping())
        except redis.RedisError:
            return False

    def _post(self, command: Command) -> None:
        control = LaneControl(self._incarnation, command)
        try:
            self._redis.set(names.lane_control_key(self._config.pipeline, self.sink), control.encode())
        except redis.RedisError as error:
            self._log.failure("control_not_posted", error, command=command)

    def _kill_worker(self) -> None:
        """Workers are children of this application; a pid that is not one of them is left alone."""
        if self.status is None or not _is_our_worker(self.status.pid):
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.status.pid, signal.SIGKILL)
            self._log.warning("lane_worker_killed", pid=self.status.pid)

    def _starting_offsets(self) -> str:
        """In Spark's words. A hint, so that it need not read the log from its beginning; the stage goes by the cursor
        it reads after fencing. A lane that begins now has begun when its first cursor is committed."""
        settings = librdkafka_settings(self._config.kafka)
        topic, group = self._config.raw_topic.name, names.lane_group(self._config.pipeline, self.sink)
        consumer = client(Consumer, settings | {"group.id": group, "enable.auto.commit": False})
        try:
            cursor = read_cursor(consumer, topic)
        finally:
            consumer.close()
        if cursor is not None:
            raw = look_at(self._config.kafka, topic)
            there = cursor.topic_id == raw.id and raw.beginning <= cursor.next_offset <= raw.end
            return json.dumps({topic: {"0": cursor.next_offset}}) if there else "earliest"
        return "latest" if self._config.sink(self.sink).start_from is StartFrom.NOW else "earliest"


def _is_our_worker(pid: int) -> bool:
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
    return b"pyspark" in command
