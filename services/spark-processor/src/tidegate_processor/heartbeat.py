"""A lane's line to its stage, from the driver's side: what it says of itself, what it is told, and its end by force."""

import contextlib
import os
import signal
from dataclasses import replace
from pathlib import Path

import redis

from tidegate.clock import unix_microseconds
from tidegate.contracts import names
from tidegate.contracts.control import Command, LaneControl
from tidegate.contracts.status import LaneStatus, State
from tidegate.errors import DecodeError
from tidegate.observability import logs

_HEARTBEAT_SECONDS = 1.0


class Heartbeat:
    def __init__(self, client: redis.Redis, pipeline: str, sink: str) -> None:
        self.status: LaneStatus | None = None
        """Of the current incarnation, or what the driver has said for it."""
        self.incarnation = 0
        self._redis, self._pipeline, self._sink = client, pipeline, sink
        self._key = names.lane_status_key(pipeline, sink)
        self._log = logs.get(f"lane.{sink}")

    def begin(self) -> int:
        """A new incarnation. Stages of older ones commit nothing more."""
        self.incarnation = max(self.incarnation + 1, unix_microseconds() // 1000)
        self.status = None
        self.post(Command.RUN)
        return self.incarnation

    def post(self, command: Command) -> None:
        control = LaneControl(self.incarnation, command)
        try:
            self._redis.set(names.lane_control_key(self._pipeline, self._sink), control.encode())
        except redis.RedisError as error:
            self._log.failure("control_not_posted", error, command=command)

    def read(self) -> None:
        status = self._told()
        if status is not None and status.incarnation == self.incarnation:
            self.status = status

    def age_seconds(self) -> float | None:
        """None: the incarnation has not spoken yet."""
        return None if self.status is None else (unix_microseconds() - self.status.time) / 1e6

    def speak(self, state: State) -> bool:
        """For a stage that does not run: the last figures, and a state. Whether there was anything to say."""
        now = unix_microseconds()
        last = self.status
        if last is None or (state is last.state and now - last.time < _HEARTBEAT_SECONDS * 1e6):
            return False
        self.status = replace(last, state=state, time=now, failure=None)
        with contextlib.suppress(redis.RedisError):
            self._redis.set(self._key, self.status.encode())
        return True

    def speak_anyhow(self, state: State) -> bool:
        """Also if the lane has not run in this process: then with the figures of the one before, or none."""
        if self.status is None:
            now = unix_microseconds()
            new = LaneStatus(
                pipeline=self._pipeline,
                sink=self._sink,
                incarnation=self.incarnation,
                state=State.STARTING,
                pid=os.getpid(),
                time=now,
                started=now,
            )
            self.status = self._told() or new
        return self.speak(state)

    def kill(self) -> None:
        """Workers are children of this application; a pid that is not one of them is left alone."""
        if self.status is None or not _is_our_worker(self.status.pid):
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.status.pid, signal.SIGKILL)
            self._log.warning("lane_worker_killed", pid=self.status.pid)

    def redis_answers(self) -> bool:
        try:
            return bool(self._redis.ping())
        except redis.RedisError:
            return False

    def _told(self) -> LaneStatus | None:
        try:
            value = self._redis.get(self._key)
            return LaneStatus.decode(value) if isinstance(value, bytes) else None
        except (redis.RedisError, DecodeError):
            return None


def _is_our_worker(pid: int) -> bool:
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
    return b"pyspark" in command
