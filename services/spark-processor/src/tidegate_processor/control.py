"""A lane's line to Redis: its ack, its status, what the driver asks of it.

Redis away is no reason to stop delivering: acks and statuses then come late, and the newest says everything. Only an
ack that is refused as foreign stops the lane, because then it has read frames that are void.
"""

import os
from typing import TYPE_CHECKING, Any

import redis

from tidegate.checkpoint.redis_store import read_ack, read_lineage, write_ack
from tidegate.checkpoint.store import AckOutcome
from tidegate.checkpoint.writer_acks import write_writers_ack
from tidegate.clock import unix_microseconds
from tidegate.contracts import names
from tidegate.contracts.ack import Ack
from tidegate.contracts.control import LaneControl, decode_control
from tidegate.contracts.fixed_width import encode_position
from tidegate.contracts.lineage import Lineage
from tidegate.contracts.status import Failure, LaneStatus, State
from tidegate.errors import DecodeError, StreamError, TidegateError, TransientError
from tidegate.observability import logs
from tidegate_processor.seat import Seat

if TYPE_CHECKING:
    from tidegate_processor.commit import Delivery
    from tidegate_processor.stage import StageSettings

_REPUBLISH_SECONDS = 5.0

_log = logs.get("lane.control")


class LaneLink:
    def __init__(self, client: redis.Redis, pipeline: str, settings: "StageSettings") -> None:
        self._client = client
        self._pipeline = pipeline
        self._settings = settings
        self._started = unix_microseconds()
        self._acked: Ack | None = None
        self.seat = Seat(settings.writer, settings.writers)
        self._last = self._status(State.STARTING)

    def acked(self, generation: str) -> Ack | None:
        return read_ack(self._client, self._pipeline, generation, self._settings.sink)

    def lineage(self) -> Lineage | None:
        return read_lineage(self._client, self._pipeline)

    def acknowledge(self, ack: Ack | None) -> None:
        """Once a place, and again now and then: a Redis that was emptied has to learn it anew."""
        known = self._acked
        if ack is None:
            return
        if known and _place(ack) == _place(known) and ack.time - known.time < _REPUBLISH_SECONDS * 1e6:
            return
        try:
            outcome = self._written(ack)
        except TransientError as error:
            _log.failure("ack_late", error, sink=ack.sink)
            return
        if outcome is AckOutcome.FOREIGN:
            raise StreamError(
                f"{ack.sink} claims more than a newer epoch has acked",
                code="ACK_REFUSED",
                remedy="The lane has read frames that are void. Restart it; report this with the log lines before it.",
            )
        self._acked = ack

    def _written(self, ack: Ack) -> AckOutcome:
        if self.seat.writers == 1:
            return write_ack(self._client, self._pipeline, ack)
        return write_writers_ack(self._client, self._pipeline, ack, self.seat.acks_for, self.seat.writers)

    def report(self, state: State, delivery: "Delivery | None", failure: Failure | None = None) -> None:
        self._last = self._status(state, failure=failure, **(self._figures(delivery) if delivery else {}))
        self._publish()

    def fail(self, error: TidegateError, delivery: "Delivery | None") -> None:
        failure = Failure(type(error).__name__, error.code, error.message, error.remedy)
        self.report(State.FAILED, delivery, failure)

    def _figures(self, delivery: "Delivery") -> dict[str, Any]:
        counters = delivery.counters
        latencies = sorted(counters.latencies)
        counters.latencies.clear()
        return {
            "generation": delivery.ingest.generation or "",
            "epoch": delivery.ingest.epoch,
            "waits_for": delivery.waits_for,
            "raw_offset": delivery.raw_offset,
            "position": encode_position(delivery.position),
            "safe_lsn": delivery.safe_lsn,
            "frames": counters.frames,
            "events": counters.events,
            "dead_letters": counters.dead_letters,
            "gaps": counters.gaps,
            "bytes": counters.bytes,
            "write_seconds": counters.write_seconds,
            "commit_seconds": counters.commit_seconds,
            "last_commit_time": counters.last_commit_time,
            **self._latency(latencies),
        }

    def _latency(self, latencies: list[float]) -> dict[str, Any]:
        last = self._last
        return {
            "latency_p50_seconds": _quantile(latencies, 0.5) if latencies else last.latency_p50_seconds,
            "latency_p99_seconds": _quantile(latencies, 0.99) if latencies else last.latency_p99_seconds,
            "latency_time": unix_microseconds() if latencies else last.latency_time,
        }

    def control(self) -> LaneControl | None:
        try:
            value = self._client.get(names.lane_control_key(self._pipeline, self._settings.sink))
            return decode_control(value) if isinstance(value, bytes) else None
        except (redis.RedisError, DecodeError) as error:
            _log.failure("control_unreadable", error, sink=self._settings.sink)
            return None

    def _publish(self) -> None:
        try:
            self._client.set(self._status_key, self._last.encode())
        except redis.RedisError as error:
            _log.failure("status_late", error, sink=self._settings.sink)

    @property
    def _status_key(self) -> str:
        if self.seat.writers == 1:
            return names.lane_status_key(self._pipeline, self._settings.sink)
        return names.lane_writer_status_key(self._pipeline, self._settings.sink, self.seat.writer)

    def _status(self, state: State, **fields: Any) -> LaneStatus:
        return LaneStatus(
            pipeline=self._pipeline,
            sink=self._settings.sink,
            incarnation=self._settings.incarnation,
            config_epoch=self._settings.config_epoch,
            trigger=self._settings.trigger,
            spark_ui=self._settings.spark_ui,
            is_alone=self.seat.is_alone,
            state=state,
            pid=os.getpid(),
            time=unix_microseconds(),
            started=self._started,
            **fields,
        )


def _place(ack: Ack) -> tuple[object, ...]:
    return (ack.position, ack.safe_lsn, ack.offset)


def _quantile(ordered: list[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
