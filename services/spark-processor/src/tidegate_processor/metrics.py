"""Every metric of the processor, declared once. Lane figures come from the lanes' heartbeats."""

from collections.abc import Iterable, Sequence

from tidegate.clock import unix_microseconds
from tidegate.observability.metrics import Metrics
from tidegate_processor.lane import Lane
from tidegate_processor.table import LaneState


class ProcessorMetrics:
    def __init__(self, sinks: Sequence[str]) -> None:
        self.all = Metrics("processor")
        self._refused = self.all.gauge(
            "config", "refused", "1 while the file on disk is refused and the one before is in force."
        )
        lane = {"sink": sinks}
        self._up = self.all.gauge("lane", "up", "1 while the lane's heartbeat is fresh, else 0.", **lane)
        self._lost = self.all.gauge("lane", "lost", "1 when the lane has stopped for a person to decide.", **lane)
        self._paused = self.all.gauge("lane", "paused", "1 while somebody has asked the lane to stand.", **lane)
        self._restarts = self.all.gauge("lane", "restarts", "Restarts of the lane since the process began.", **lane)
        self._offset = self.all.gauge("lane", "raw_offset", "Raw offset of the last durable frame.", **lane)
        self._safe_lsn = self.all.gauge("lane_safe_lsn", "bytes", "WAL position up to which the sink has all.", **lane)
        self._events = self.all.gauge("lane", "events", "Events delivered by this incarnation of the lane.", **lane)
        self._letters = self.all.gauge("lane", "dead_letters", "Dead letters of this incarnation.", **lane)
        self._bytes = self.all.gauge("lane_delivered", "bytes", "Bytes delivered by this incarnation.", **lane)
        self._p50 = self.all.gauge("lane_latency_p50", "seconds", "Commit to durable in the sink, median.", **lane)
        self._p99 = self.all.gauge("lane_latency_p99", "seconds", "Commit to durable in the sink, 99 of 100.", **lane)

    def observe(self, lanes: Iterable[Lane], *, is_refused: bool) -> None:
        self._refused.set(float(is_refused))
        now = unix_microseconds()
        for lane in lanes:
            status = lane.status
            self._up.set(float(status is not None and not status.is_stale(now)), sink=lane.sink)
            self._lost.set(float(lane.state is LaneState.LOST), sink=lane.sink)
            self._paused.set(float(lane.state is LaneState.PAUSED), sink=lane.sink)
            self._restarts.set(lane.restarts, sink=lane.sink)
            if status is None:
                continue
            self._offset.set(status.raw_offset, sink=lane.sink)
            self._safe_lsn.set(status.safe_lsn, sink=lane.sink)
            self._events.set(status.events, sink=lane.sink)
            self._letters.set(status.dead_letters, sink=lane.sink)
            self._bytes.set(status.bytes, sink=lane.sink)
            self._p50.set(status.latency_p50_seconds, sink=lane.sink)
            self._p99.set(status.latency_p99_seconds, sink=lane.sink)
