"""A lane's line to its stage, from the driver's side: what it says of itself, what it is told, and its end by force.

Invariant: how long a stage has been silent is measured here, from when it said something new: on a cluster its clock is
another machine's. While Redis does not answer, or takes nothing, nobody can be heard, and silence does not count.
"""

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import redis

from tidegate.clock import unix_microseconds
from tidegate.contracts import names
from tidegate.contracts.control import Command, LaneControl, decode_control
from tidegate.contracts.status import LaneStatus, State
from tidegate.errors import DecodeError
from tidegate.observability import logs
from tidegate_processor.attendance import Attendance
from tidegate_processor.writer_statuses import put_together

_HEARTBEAT_SECONDS = 1.0


class Heartbeat:
    def __init__(self, client: redis.Redis, pipeline: str, sink: str) -> None:
        self.status: LaneStatus | None = None
        """Of the current incarnation, or what the driver has said for it."""
        self.incarnation = 0
        self.writers = 1
        """Of this incarnation. What several say is put together here, and told in the lane's name."""
        self._attendance = Attendance()
        self._writers_said: LaneStatus | None = None
        self._pids: tuple[int, ...] = ()
        self._heard = self._looked = time.monotonic()
        """When `status` was new, or the incarnation began, as much later as Redis has not answered since; and when it
        was looked for."""
        self._redis, self._pipeline, self._sink = client, pipeline, sink
        self._key = names.lane_status_key(pipeline, sink)
        self._control_key = names.lane_control_key(pipeline, sink)
        self._log = logs.get(f"lane.{sink}")

    def begin(self) -> int:
        """A new incarnation. Stages of older ones commit nothing more, also if this machine's clock was set back."""
        self.incarnation = max(self.incarnation + 1, unix_microseconds() // 1000, self._posted() + 1)
        self.status = self._writers_said = None
        self._attendance = Attendance()
        self._heard = self._looked = time.monotonic()
        self.post(Command.RUN)
        return self.incarnation

    def post(self, command: Command) -> None:
        control = LaneControl(self.incarnation, command)
        try:
            self._redis.set(self._control_key, control.encode())
        except redis.RedisError as error:
            self._log.failure("control_not_posted", error, command=command)

    def read(self) -> None:
        before = self._looked
        try:
            status = self._told() if self.writers == 1 else self._told_by_all()
        except redis.RedisError:
            status = None
            self._heard += time.monotonic() - before
        self._looked = time.monotonic()
        if status is not None and status.incarnation == self.incarnation and status != self.status:
            self.status, self._heard = status, self._looked

    @property
    def are_writers_forgotten(self) -> bool:
        return self._attendance.is_forgotten

    def silent_seconds(self) -> float:
        """Since its last word, or since the incarnation began."""
        return time.monotonic() - self._heard

    def speak(self, state: State) -> bool:
        """For a stage that does not run: the last figures, and a state. Whether there was anything to say."""
        last, now = self.status, time.monotonic()
        if last is None or (state is last.state and now - self._heard < _HEARTBEAT_SECONDS):
            return False
        self.status, self._heard = replace(last, state=state, time=unix_microseconds(), failure=None), now
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
            with contextlib.suppress(redis.RedisError):
                self.status = self._told()
            self.status = self.status or new
        return self.speak(state)

    def forget(self) -> None:
        """Of a lane that is no more. Which incarnation was the last stays: one that comes back begins above it."""
        with contextlib.suppress(redis.RedisError):
            self._redis.delete(self._key)
        self._redis.close()

    def kill(self) -> None:
        """Workers are descendants of this process; a pid that is not one of them is left alone. One on another machine
        of a cluster can't be reached: the sink fences it, and Spark ends its task."""
        pids = self._pids if self.writers > 1 else (self.status.pid,) if self.status else ()
        for pid in filter(_is_our_worker, pids):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                self._log.warning("lane_worker_killed", pid=pid)

    def may_hear(self) -> bool:
        """Whether Redis takes what a stage says. One that is full, or a replica, answers and takes nothing: silence
        does not count then. Of a lane that is to run, for that is what is said, where nothing has been said."""
        try:
            self._redis.set(self._control_key, LaneControl(self.incarnation, Command.RUN).encode(), nx=True)
        except redis.RedisError:
            self._heard = time.monotonic()
            return False
        return True

    def _posted(self) -> int:
        """By whoever drove this lane last."""
        try:
            value = self._redis.get(self._control_key)
            return decode_control(value).incarnation if isinstance(value, bytes) else 0
        except (redis.RedisError, DecodeError):
            return 0

    def _told(self) -> LaneStatus | None:
        return _status(self._redis.get(self._key))

    def _told_by_all(self) -> LaneStatus | None:
        """None while one of them has not spoken in this incarnation."""
        arrivals: Any = self._redis.hvals(names.lane_arrivals_key(self._pipeline, self._sink))
        self._attendance.look(arrivals, self.writers, self.incarnation)
        keys = [names.lane_writer_status_key(self._pipeline, self._sink, writer) for writer in range(self.writers)]
        statuses = [status for value in self._redis.mget(keys) if (status := _status(value)) is not None]
        statuses = [status for status in statuses if status.incarnation == self.incarnation]
        self._pids = tuple(status.pid for status in statuses)
        status = put_together(statuses, self.writers)
        if status is None or status == self._writers_said:
            return self.status  # what the driver has said since stands
        self._redis.set(self._key, status.encode())
        self._writers_said = status
        return status


def _status(value: object) -> LaneStatus | None:
    try:
        return LaneStatus.decode(value) if isinstance(value, bytes) else None
    except DecodeError:
        return None


def _is_our_worker(pid: int) -> bool:
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
        return b"pyspark" in command and os.getpid() in _ancestors(pid)
    except OSError:
        return False


def _ancestors(pid: int) -> Iterator[int]:
    while pid > 1:
        # The name stands in parentheses and may hold any; the parent is the second field behind it (proc(5)).
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
        pid = int(stat.rpartition(")")[2].split()[1])
        yield pid
