"""Every metric of the processor, declared once. Lane figures come from the lanes' heartbeats, Spark's from its JVM.

Invariant: what a lane that stands still shows can't be read as one that is well: its lag grows, its latency is NaN.
"""

import math
from collections.abc import Iterable, Sequence

from tidegate.clock import unix_microseconds
from tidegate.config.sinks import Trigger
from tidegate.observability.metrics import Metrics
from tidegate_processor.behind import Behind
from tidegate_processor.lane import Lane
from tidegate_processor.spark.figures import Figures, Part
from tidegate_processor.table import LaneState

_RECENT = "; NaN where nothing was delivered for a minute."


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
        self._batch = self.all.gauge("lane", "batch_trigger", "1 while the lane runs in micro-batches.", **lane)
        self._offset = self.all.gauge("lane", "raw_offset", "Raw offset of the last durable frame.", **lane)
        self._safe_lsn = self.all.gauge("lane_safe_lsn", "bytes", "WAL position up to which the sink has all.", **lane)
        self._events = self.all.gauge("lane", "events", "Events delivered by this incarnation of the lane.", **lane)
        self._letters = self.all.gauge("lane", "dead_letters", "Dead letters of this incarnation.", **lane)
        self._gaps = self.all.gauge(
            "lane",
            "gaps",
            "Gaps passed by this incarnation: what lay there came by a snapshot, or not at all.",
            **lane,
        )
        self._bytes = self.all.gauge("lane_delivered", "bytes", "Bytes delivered by this incarnation.", **lane)
        self._frames = self.all.gauge("lane", "frames", "Frames taken by this incarnation of the lane.", **lane)
        self._write = self.all.gauge(
            "lane_write", "seconds", "Time this incarnation has spent on making and handing over events.", **lane
        )
        self._commit = self.all.gauge(
            "lane_commit", "seconds", "Time it has spent on waiting until they were durable.", **lane
        )
        self._lag = self.all.gauge(
            "lane_lag", "seconds", "Age in the raw topic of the oldest that the sink lacks, else 0.", **lane
        )
        self._p50 = self.all.gauge("lane_latency_p50", "seconds", f"Commit to durable in it, median{_RECENT}", **lane)
        self._p99 = self.all.gauge(
            "lane_latency_p99", "seconds", f"Commit to durable in it, 99 of 100{_RECENT}", **lane
        )
        self._spans = self.all.gauge(
            "lane", "dropped_spans", "Spans of this incarnation that no collector has taken.", **lane
        )
        self._heap = self.all.gauge("spark_heap", "bytes", "Heap that Spark's JVM uses.")
        self._heap_limit = self.all.gauge("spark_heap_limit", "bytes", "Heap that it may use: processor.heap.")
        self._collecting = self.all.gauge(
            "spark_collecting", "seconds", "Time that the JVM has spent collecting garbage."
        )
        self._executors = self.all.gauge(
            "spark_executors", "number", "Executors that lanes run on; 0 where they run in the processor."
        )
        part = {"part": tuple(Part)}
        self._resident = self.all.gauge(
            "part_resident", "bytes", "Memory of the processor's driver, Spark's JVM and the Python workers.", **part
        )
        self._cpu = self.all.gauge("part_cpu", "seconds", "CPU time of the same; it only grows.", **part)

    def follow(self, sinks: Sequence[str]) -> None:
        """Series of these alone from now on."""
        self.all.relabel("sink", sinks)

    def observe_spark(self, figures: Figures) -> None:
        self._heap.set(figures.heap_bytes)
        self._heap_limit.set(figures.heap_limit_bytes)
        self._collecting.set(figures.collecting_seconds)
        self._executors.set(figures.executors)
        for part in Part:
            self._resident.set(figures.resident_bytes[part], part=part)
            self._cpu.set(figures.cpu_seconds[part], part=part)

    def observe(self, lanes: Iterable[Lane], behind: Behind, *, is_refused: bool) -> None:
        self._refused.set(float(is_refused))
        now = unix_microseconds()
        for lane in lanes:
            status = lane.status
            self._up.set(float(status is not None and not status.is_stale(now)), sink=lane.sink)
            self._lost.set(float(lane.state is LaneState.LOST), sink=lane.sink)
            self._paused.set(float(lane.state is LaneState.PAUSED), sink=lane.sink)
            self._restarts.set(lane.restarts, sink=lane.sink)
            self._lag.set(behind.seconds(lane.sink, status), sink=lane.sink)
            has_latency = status is not None and status.has_recent_latency(now)
            self._p50.set(status.latency_p50_seconds if status and has_latency else math.nan, sink=lane.sink)
            self._p99.set(status.latency_p99_seconds if status and has_latency else math.nan, sink=lane.sink)
            if status is None:
                continue
            self._batch.set(float(status.trigger == Trigger.BATCH), sink=lane.sink)
            self._offset.set(status.raw_offset, sink=lane.sink)
            self._safe_lsn.set(status.safe_lsn, sink=lane.sink)
            self._events.set(status.events, sink=lane.sink)
            self._letters.set(status.dead_letters, sink=lane.sink)
            self._gaps.set(status.gaps, sink=lane.sink)
            self._bytes.set(status.bytes, sink=lane.sink)
            self._frames.set(status.frames, sink=lane.sink)
            self._write.set(status.write_seconds, sink=lane.sink)
            self._commit.set(status.commit_seconds, sink=lane.sink)
            self._spans.set(status.dropped_spans, sink=lane.sink)
