"""The processor, top to bottom: one Spark session, one lane a sink, a watch over all of them.

Spark's Kafka source ─▶ stage.py: ingest → decode → route → encode → write → commit ─▶ ack
                                   (in the Python worker, one a lane; see stage.py and commit.py)
"""

import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic
from confluent_kafka.error import KafkaError

from tidegate.checkpoint.connect import connect
from tidegate.clock import BROKERS_TIME
from tidegate.config.pipeline import PipelineConfig
from tidegate.config.reloads import Reloads
from tidegate.contracts import names
from tidegate.contracts.status import State
from tidegate.copies import BROKERS_OWN
from tidegate.errors import ExitCode, TransientError
from tidegate.observability import logs
from tidegate.observability.health import Health
from tidegate.observability.http import serving_in_thread
from tidegate_processor.behind import Behind
from tidegate_processor.cursor_keeping import CursorKeeper
from tidegate_processor.kafka_clients import client, librdkafka_settings
from tidegate_processor.kafka_refusals import is_for_a_person
from tidegate_processor.lane import Lane
from tidegate_processor.lanes import Lanes
from tidegate_processor.metrics import ProcessorMetrics
from tidegate_processor.spark import failures
from tidegate_processor.spark.executors import are_elsewhere, await_executors
from tidegate_processor.spark.figures import SparkWatch
from tidegate_processor.spark.session import open_session, warm_up
from tidegate_processor.table import LaneState

_TICK_SECONDS = 0.2
_CALL_SECONDS = 5.0
_CONFIGURATION = "(configuration)"
"""A component beside the lanes, which no sink is named like."""

_log = logs.get("processor")


def run(reloads: Reloads, stop: threading.Event) -> ExitCode:
    with failures.mapped():
        return _run(reloads, stop)


def _run(reloads: Reloads, stop: threading.Event) -> ExitCode:
    config = reloads.in_force
    sinks = [sink.name for sink in config.sinks]
    health, metrics = Health([*sinks, _CONFIGURATION]), ProcessorMetrics(sinks)
    for sink in sinks:
        health.down(sink, "starting")
    http = config.processor.http
    with serving_in_thread(http.host, http.port, health, metrics.all.exposition):
        session = open_session(config)
        _log.info("session_open", spark=session.version)
        for sink in sinks if are_elsewhere(session) else ():
            health.down(sink, "waits for an executor")
        if not await_executors(session, stop):
            session.stop()
            return ExitCode.CLEAN
        topics = _Topics(config)
        if are_elsewhere(session) or not topics.are_ready():
            warm_up(session)
            _log.info("session_warm")

        def lane(config: PipelineConfig, sink: str) -> Lane:
            return Lane(session, config, sink, connect(config.redis))

        lanes = Lanes(reloads.in_force, lane)
        cursors = CursorKeeper()
        try:
            behind = Behind(connect(config.redis), config.pipeline, sinks)
            watches = _Watches(health, metrics, SparkWatch(session), behind, cursors, topics)
            return _watch(reloads, lanes, stop, watches)
        finally:
            with ExitStack() as ended:
                ended.callback(session.stop)
                ended.callback(cursors.close)
                _stop(lanes.everyone)


def _watch(reloads: Reloads, lanes: Lanes, stop: threading.Event, watches: "_Watches") -> ExitCode:
    """Until it is told to stop, or until no lane is left that could go on."""
    while not stop.wait(_TICK_SECONDS):
        if reloads.look() is not None:
            lanes.follow(reloads.in_force)
            watches.follow([sink.name for sink in reloads.in_force.sinks])
        lanes.settle()
        for lane in lanes:
            if stop.is_set():  # a lane that starts may wait for servers that are away
                break
            lane.tick(raw_topic_exists=watches.topics.are_ready)
            lanes.renew(lane)
        watches.look(reloads, lanes)
        if lanes.are_lost:
            return ExitCode.LOST
    return ExitCode.CLEAN


def _stop(lanes: Sequence[Lane]) -> None:
    """In their order, and whatever becomes of one of them, the others drain."""
    with ExitStack() as steps:  # from the last to the first
        for lane in reversed(lanes):
            steps.callback(lane.finish_stop)
        for lane in reversed(lanes):
            steps.callback(lane.begin_stop)
    _log.info("lanes_stopped")


def _tell_configuration(reloads: Reloads, health: Health) -> None:
    complaint = reloads.complaint
    if complaint is None:
        health.up(_CONFIGURATION)
    else:
        health.degraded(_CONFIGURATION, complaint)


def _tell(lane: Lane, health: Health, complaint: str = "") -> None:
    status = lane.status
    if lane.failure is not None:
        health.down(lane.sink, f"{lane.failure.code}: {lane.failure.message}")
    elif lane.state is LaneState.PAUSED:
        health.degraded(lane.sink, "paused: the source keeps its WAL until it is resumed")
    elif status is not None and status.state is State.RUNNING and status.waits_for:
        health.degraded(lane.sink, f"waits for {status.waits_for}")
    elif status is not None and status.state is State.RUNNING:
        health.up(lane.sink)
    else:
        health.down(lane.sink, complaint or "starting")


@dataclass(frozen=True, slots=True)
class _Watches:
    """What is looked at beside the lanes, and told of them."""

    health: Health
    metrics: ProcessorMetrics
    spark: SparkWatch
    behind: Behind
    cursors: CursorKeeper
    topics: "_Topics"

    def follow(self, sinks: Sequence[str]) -> None:
        self.health.know([*sinks, _CONFIGURATION])
        self.metrics.follow(sinks)
        self.behind.follow(sinks)

    def look(self, reloads: Reloads, lanes: Lanes) -> None:
        for lane in lanes:
            _tell(lane, self.health, self.topics.complaint)
        _tell_configuration(reloads, self.health)
        self.cursors.look(reloads.in_force, {lane.sink: lane.state for lane in lanes})
        self.behind.look()
        self.metrics.observe(lanes, self.behind, is_refused=reloads.refusal is not None)
        self.metrics.observe_spark(self.spark.look())


class _Topics:
    """The raw topic is the reader's to create; lanes wait for it. The scratch topic is ours."""

    def __init__(self, config: PipelineConfig) -> None:
        self._settings = librdkafka_settings(config.kafka)
        self._admin: AdminClient | None = None
        self._raw = config.raw_topic.name
        self._scratch = names.scratch_topic(config.pipeline)
        self._ready = False
        self._look_again = 0.0
        self.complaint = ""
        """Why no lane starts that could."""

    def are_ready(self) -> bool:
        if self._ready or time.monotonic() < self._look_again:
            return self._ready
        try:
            admin = self._admin = self._admin or client(AdminClient, self._settings)
            there = admin.list_topics(timeout=_CALL_SECONDS).topics
            self._ready = self._raw in there and (self._scratch in there or self._create_scratch(admin))
            self.complaint = ""
        except TransientError as error:
            self._fail("topics_not_ready", error, str(error))
        except KafkaException as error:
            self._fail("brokers_unreachable", error, "the brokers do not answer")
        return self._ready

    def _fail(self, event: str, error: Exception, complaint: str) -> None:
        _log.failure(event, error)
        self.complaint = complaint
        self._look_again = time.monotonic() + _CALL_SECONDS

    def _create_scratch(self, admin: AdminClient) -> bool:
        """It is there then."""
        new = NewTopic(self._scratch, 1, BROKERS_OWN, config=dict(BROKERS_TIME))
        try:
            admin.create_topics([new], request_timeout=_CALL_SECONDS)[self._scratch].result()
        except KafkaException as error:
            if is_for_a_person(error.args[0]):
                raise _not_made(self._scratch, error.args[0]) from error
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise
        return True


def _not_made(topic: str, error: KafkaError) -> TransientError:
    return TransientError(
        f"Kafka does not let the processor make the topic {topic}: {error.name()}",
        code="SCRATCH_TOPIC_REFUSED",
        remedy="Make it, with one partition, or give the user the right to. Spark wants one, and nothing is ever "
        "written to it. Lanes start by themselves once it is there.",
    )
