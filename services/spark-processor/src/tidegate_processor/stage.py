"""The stage in Spark's Python worker: a reading thread hands records on, a writing thread delivers and acks them.

Spark ──records──▶ reading thread ──bounded queue──▶ writing thread ──▶ sink, then ack

The end of input is no end of the lane: at a batch's seam Spark calls again, perhaps in another worker. What a lane
needs between two calls is kept in one holder a worker, the only state of this module. A failure can't be raised to
Spark, which would notice it when the batch ends, in an hour: it is recorded in the lane's status, then the worker
exits.
"""

import gc
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import redis

from tidegate.checkpoint.connect import connect
from tidegate.config.pipeline import PipelineConfig
from tidegate.config.sinks import Trigger
from tidegate.contracts.status import State
from tidegate.errors import TidegateError, TransientError, classify
from tidegate.failpoints import Failpoint, reach
from tidegate.observability import logs
from tidegate_processor.commit import Delivery
from tidegate_processor.epoch_walk import Seen
from tidegate_processor.frame_queue import FrameQueue, Record
from tidegate_processor.kafka_clients import look_at
from tidegate_processor.meeting import Meeting
from tidegate_processor.raw_log import KafkaRawLog
from tidegate_processor.read_back import read_back
from tidegate_processor.sinks.base import Sink
from tidegate_processor.sinks.registry import make_sink
from tidegate_processor.speaking import Paced, speaking
from tidegate_processor.trail import open_trail
from tidegate_processor.writer_delivery import WriterDelivery

if TYPE_CHECKING:
    import pyarrow

_CONTROL_SECONDS = 0.25
_REPORT_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class StageSettings:
    """Everything the worker is given. Secrets are references in the configuration, read where they are needed."""

    config: PipelineConfig
    sink: str
    config_epoch: str
    incarnation: int
    trigger: Trigger = Trigger.REALTIME
    log_style: str = "json"
    spark_ui: str = ""
    writer: int = 0
    writers: int = 1
    until: int | None = None
    """The raw offset before which it ends, once its cursor stands there."""


def run_stage(settings: StageSettings, batches: "Iterator[pyarrow.RecordBatch]") -> "Iterator[pyarrow.RecordBatch]":
    stage = _held(settings)
    stage.run(batches)
    return iter(())


def warm_up() -> None:
    """Everything a lane imports late, and its kernels; takes a moment only where it has been called before."""
    import tidegate_processor.sinks.kafka_topics.writer  # noqa: F401
    from tidegate.columns import warm

    warm()
    # What has been imported lives as long as the worker: looking through all of it took 100 ms each time.
    gc.collect()
    gc.freeze()


class Stage:
    def __init__(self, settings: StageSettings) -> None:
        self.settings = settings
        config = settings.config
        logs.configure("processor", config.pipeline, level=config.log.level, style=settings.log_style)
        self._log = logs.get(f"lane.{settings.sink}")
        self._redis = connect(config.redis)
        self._trail = open_trail(settings)
        self._link = self._trail.link(self._redis)
        self._queue = FrameQueue()
        self._state = State.STARTING
        self._delivery: Delivery | None = None
        warm_up()  # not every worker was there when the session was opened

    def run(self, batches: "Iterator[pyarrow.RecordBatch]") -> None:
        writer = threading.Thread(target=self._write_or_die, name=f"lane {self.settings.sink}")
        writer.start()
        try:
            for batch in batches:
                for offset, value in zip(batch["offset"].to_pylist(), batch["value"], strict=True):
                    self._queue.put((offset, value.as_py()))
        finally:
            self._queue.put(None)
            writer.join()

    def close(self) -> None:
        if self._delivery is not None:
            self._delivery.close()
            self._delivery = None

    def end(self) -> None:
        """Nothing of it is needed any more."""
        self.close()
        self._trail.end()

    def _write_or_die(self) -> None:
        try:
            self._write()
        except BaseException as error:  # noqa: BLE001 - the edge of the worker: everything ends here, recorded
            self._die(classify(error), error)

    def _write(self) -> None:
        is_kept = self._delivery is not None
        delivery = self._opened()
        report_at = control_at = 0.0
        waiting: deque[Record] = deque()
        has_ended = False
        while waiting or not has_ended:
            if not waiting:
                waiting, has_ended = self._queue.take(_CONTROL_SECONDS)
                waiting = self._wanted(waiting)
            if self._state is not State.RUNNING:
                waiting.clear()
            if waiting:
                if is_kept and _is_old(delivery, waiting[0][0]):
                    self.close()
                    delivery = self._opened()
                is_kept = False
                delivery.feed(_portion(waiting))
            ended = has_ended and not waiting
            now = time.monotonic()
            if now >= control_at or ended:
                self._obey()
                control_at = now + _CONTROL_SECONDS
            if self._state is not State.DRAINED:
                is_ending = ended or self._state is State.DRAINING
                more_waits = bool(waiting) or not self._queue.empty()
                if delivery.commit(at_the_end=is_ending, more_waits=more_waits):
                    self._link.acknowledge(delivery.ack())
                    reach(Failpoint.LANE_ACKED)
            if self._state is State.DRAINING or self._is_far_enough(delivery):
                self._state = State.DRAINED
                report_at = 0.0
            if now >= report_at or ended:
                self._link.report(self._state, delivery)
                report_at = now + _REPORT_SECONDS

    def _opened(self) -> Delivery:
        if self._delivery is None:
            settings = self.settings
            config = settings.config.lane(settings.sink)
            self._delivery = self._kind_of_delivery()(
                settings.config.pipeline,
                config,
                self._sink(),
                look=lambda: look_at(settings.config.kafka, settings.config.raw_topic.name),
                acked=self._link.acked,
                lineage=self._link.lineage,
                config_epoch=settings.config_epoch,
                incarnation=settings.incarnation,
                read_back=self._read_back,
                head=self._head,
            )
            self._state = State.RUNNING
            self._log.info("lane_opened", position=self._delivery.position, incarnation=settings.incarnation)
        return self._delivery

    def _kind_of_delivery(self) -> Callable[..., Delivery]:
        seat, settings = self._link.seat, self.settings
        if seat.writers == 1:
            return Delivery
        meeting = Meeting(
            self._redis,
            settings.config.pipeline,
            settings.sink,
            settings.incarnation,
            between=Paced(self._speak),
            is_stopping=lambda: self._state is State.DRAINING,
        )
        return partial(WriterDelivery, seat=seat, meeting=meeting)

    def _sink(self) -> Sink:
        seat, settings = self._link.seat, self.settings
        sink = settings.config.sink(settings.sink)
        made = make_sink(settings.config, sink, Paced(self._speak), seat=seat if seat.writers > 1 else None)
        return self._trail.sink(made)

    def _wanted(self, waiting: deque[Record]) -> deque[Record]:
        until = self.settings.until
        return deque(record for record in waiting if record[0] < until) if until else waiting

    def _is_far_enough(self, delivery: Delivery) -> bool:
        until = self.settings.until
        return until is not None and self._state is State.RUNNING and delivery.has_come_to(until)

    def _read_back(self, start: int, stop: int) -> Iterator[Record]:
        return speaking(read_back(self.settings.config, start, stop), self._speak)

    def _head(self) -> Seen | None:
        with KafkaRawLog(self.settings.config) as log:
            return log.at(log.beginning)

    def _speak(self) -> None:
        self._obey()
        self._link.report(self._state, self._delivery)

    def _obey(self) -> None:
        control = self._link.control()
        if control is None:
            return
        if control.supersedes(self.settings.incarnation):
            raise TransientError(
                f"incarnation {self.settings.incarnation} was superseded by {control.incarnation}",
                code="LANE_SUPERSEDED",
                remedy="Nothing: the newer one goes on from the committed cursor.",
            )
        if control.stops(self.settings.incarnation) and self._state is State.RUNNING:
            self._state = State.DRAINING

    def _die(self, error: TidegateError, cause: BaseException) -> None:
        self._log.failure("lane_failed", cause)
        try:
            self._link.fail(error, self._delivery)
            self.close()
        except (TidegateError, redis.RedisError) as secondary:
            self._log.failure("lane_failure_not_recorded", secondary)
        finally:
            os._exit(error.exit_code)


def _portion(waiting: deque[Record]) -> Iterator[Record]:
    """A record at least, and more until it is time to look up: rows that are refused cost a hundred times as much as
    those that are delivered, and a stage that is silent meanwhile is killed."""
    until = time.monotonic() + _CONTROL_SECONDS
    while waiting:
        yield waiting.popleft()
        if time.monotonic() >= until:
            return


def _is_old(delivery: Delivery, offset: int) -> bool:
    """Kept from an earlier batch, and another worker has served batches since; or may have, where nothing was read."""
    expected = delivery.ingest.next_offset
    return not delivery.has_cursor or expected is None or offset > expected


_held_stages: list[Stage] = []


def _held(settings: StageSettings) -> Stage:
    """The stage of this lane and incarnation, kept from the last batch; a worker holds one lane at a time."""
    if _held_stages and _held_stages[0].settings == settings:
        return _held_stages[0]
    while _held_stages:
        _held_stages.pop().end()
    _held_stages.append(Stage(settings))
    return _held_stages[0]
