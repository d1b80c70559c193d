"""The driver's side of one lane: starts its query, watches its heartbeat, restarts it alone, stops it in order.

| state     | tick                                                                          | stop                 |
| --------- | ----------------------------------------------------------------------------- | -------------------- |
| waiting   | raw topic there and back-off over → new incarnation, query → running          | → stopped            |
| running   | failure recorded, query ended or drained unasked → waiting, with back-off;    | drain, end → stopped |
|           | StreamError → lost                                                            |                      |
|           | drained where its number of writers changes (writers.py) → waiting            |                      |
|           | the other trigger is better now (pace.py) → draining                          |                      |
|           | silent for too long, or its writers forgotten (attendance.py) → workers       |                      |
|           | killed, query ended → waiting, with back-off                                  |                      |
| draining  | drained, ended or too late → waiting, where the request is looked at again    | drain, end → stopped |
| rewinding | the cursor is set back, or will not be → where it came from, or waiting       | → stopped            |
| replaying | letters are delivered again, or are not → where it came from, or waiting      | → stopped            |
| paused    | says so                                                                       | → stopped            |
| lost      | nothing: a person decides                                                     | → stopped            |
| stopped   | nothing                                                                       | -                    |

A lane whose sink is left out of the configuration ends as at a stop, without holding up the others: it is told to leave
at each tick until it has, and starts nothing meanwhile. What it has begun is done first: it drains, or is set back, or
delivers letters again; what was asked of it and not begun is refused.

What a request does in each state stands in table.py. A lane does not start before Redis has said whether it is to
stand, so a paused one stays paused whatever is restarted.

`query.stop()` is no kill: the stage sees a plain end of input. So a lane is first told to drain and reports that it
has; one that does not in time is killed by pid. No new incarnation starts before the old one is drained, dead or
fenced.
"""

import contextlib
import time
from collections.abc import Callable
from dataclasses import asdict

import redis
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tidegate.backoff import Backoff
from tidegate.config.epoch import lane_epoch
from tidegate.config.pipeline import PipelineConfig
from tidegate.contracts.control import Command
from tidegate.contracts.request import LaneRequest
from tidegate.contracts.status import Failure, LaneStatus, State
from tidegate.errors import TidegateError
from tidegate.failpoints import Failpoint, reach
from tidegate.observability import logs
from tidegate_processor.desk import Desk, expired, not_served, removed
from tidegate_processor.errands import Errands
from tidegate_processor.heartbeat import Heartbeat
from tidegate_processor.pace import Pace
from tidegate_processor.rewind import Terms
from tidegate_processor.spark.lane_query import LaneQuery
from tidegate_processor.table import LaneState, Step, step

# A worker has to boot, import and warm up before it speaks the first time; without a cache it compiles for a minute.
_FIRST_WORD_SECONDS = 120.0
_SILENT_SECONDS = 15.0
_DRAIN_SECONDS = 8.0
_MOVES = frozenset({LaneState.RUNNING, LaneState.DRAINING, LaneState.REWINDING, LaneState.REPLAYING})


class Lane:
    def __init__(self, session: SparkSession, config: PipelineConfig, sink: str, client: redis.Redis) -> None:
        self.sink = sink
        self.state = LaneState.WAITING
        self.failure: Failure | None = None
        self.restarts = 0
        self._config = config
        self._heart = Heartbeat(client, config.pipeline, sink)
        self._desk = Desk(client, config.pipeline, sink)
        self._errands = Errands(config, sink, client)
        self._pace = Pace(config.sink(sink).trigger)
        self._log = logs.get(f"lane.{sink}")
        self._query = LaneQuery(session, config)
        self._until: int | None = None
        """Its writers' number changes behind that offset."""
        self._started = self._drain_until = self._next_try = 0.0
        self._backoff = Backoff(0.5, longest_seconds=30, healthy_seconds=60)
        self._errand: tuple[LaneRequest, LaneState] | None = None
        """What the lane stands for, and where it came from."""
        self._is_leaving = False

    @property
    def status(self) -> LaneStatus | None:
        return self._heart.status

    def tick(self, *, raw_topic_exists: Callable[[], bool]) -> None:
        request = self._desk.next() if self.state is not LaneState.STOPPED else None
        if self.state is LaneState.WAITING and self._desk.is_paused:
            self.state = LaneState.PAUSED
        if request is not None:
            self._serve(request)
        match self.state:
            case LaneState.WAITING if request is None and self._may_start() and raw_topic_exists():
                self._try_to_start()
            case LaneState.PAUSED:
                self._stand()
            case _:
                self._move()

    def _move(self) -> None:
        match self.state:
            case LaneState.RUNNING:
                self._watch()
            case LaneState.DRAINING if self._has_drained() or time.monotonic() > self._drain_until:
                self._end_drained()
                self.state = LaneState.WAITING
            case LaneState.REWINDING | LaneState.REPLAYING:
                self._look_at_errand()

    def begin_stop(self) -> None:
        if self.state is LaneState.RUNNING:
            self._begin_drain()

    def leave(self) -> bool:
        """Whether it has ended for good; else it is to be told again."""
        self._is_leaving = True
        if self._errand is None:
            self._errands.hurry()
        self.begin_stop()
        self._move()
        if self.state in _MOVES or not self._errands.is_idle:
            return False
        self._desk.refuse_all(removed())
        self.finish_stop()
        self._heart.forget()
        return True

    def finish_stop(self) -> None:
        if self.state is LaneState.DRAINING:
            with contextlib.suppress(PySparkException):  # a query that has failed is none to wait for
                while time.monotonic() < self._drain_until and not self._has_drained():
                    self._query.wait(0.05)
            self._end_drained()
        self._errands.close()
        self._query.end()
        self.state = LaneState.STOPPED

    def _serve(self, request: LaneRequest) -> None:
        if self._desk.is_expired(request) and self._errand is None:
            self._desk.refuse(request, expired())
            return
        match step(self.state, request.asked):
            case Step.NOTHING:
                self._desk.done(request)
            case Step.PAUSE if self._desk.done(request, pause=True):
                self.failure = None
                self.state = LaneState.PAUSED
            case Step.START if self._desk.done(request, pause=False):
                self._begin_anew()
            case Step.DRAIN:
                self._begin_drain()
            case Step.SET_BACK:
                self._errands.rewind(self._terms(request))
                self._begin_errand(request, LaneState.REWINDING)
            case Step.LOOK:
                self._errands.look(request)
                self._look_at_look(request)
            case Step.DELIVER:
                self._errands.deliver(request, self._heart.begin())
                self._begin_errand(request, LaneState.REPLAYING)
            case Step.REFUSE:
                self._desk.refuse(request, not_served(request, self.state))

    def _terms(self, request: LaneRequest) -> Terms:
        may_skip = self.state is LaneState.LOST or not self._config.sink(self.sink).required
        return Terms(request, self._heart.begin(), lane_epoch(self._config, self.sink), may_skip=may_skip)

    def _begin_errand(self, request: LaneRequest, state: LaneState) -> None:
        self._errand, self.state = (request, self.state), state

    def _look_at_look(self, request: LaneRequest) -> None:
        """The lane is drained only if there is something to deliver."""
        if not self._errands.has_ended or self._comes_again(request):
            return
        is_for_nothing = request.is_dry_run or self._errands.error or not self._errands.has_deliverable
        if not is_for_nothing:
            self._begin_drain()
        elif self._answer(request, self._errands.error):
            self._errands.forget()

    def _look_at_errand(self) -> None:
        """Redis away: the outcome is kept first, for a lane that starts would deliver what a second rewind then
        delivers again."""
        self._heart.speak_anyhow(State.DRAINED)
        if self._errand is None or not self._errands.has_ended:
            return
        request, before = self._errand
        error = self._errands.error
        if self._comes_again(request) or not self._answer(request, error):
            return
        self._errand = None
        self._errands.forget()
        if before is LaneState.PAUSED or (error is not None and before is LaneState.LOST):
            self.state = before
        else:
            self._begin_anew()

    def _comes_again(self, request: LaneRequest) -> bool:
        return self._errands.comes_again(is_over=self._is_leaving or self._desk.is_expired(request))

    def _answer(self, request: LaneRequest, error: TidegateError | None) -> bool:
        return self._desk.refuse(request, error) if error else self._desk.done(request, fates=self._errands.fates)

    def _begin_anew(self) -> None:
        self.failure = None
        self._next_try, self.state = 0.0, LaneState.WAITING
        self._backoff.forget()

    def _stand(self) -> None:
        if self._heart.speak_anyhow(State.PAUSED):
            with contextlib.suppress(redis.RedisError):
                self._desk.keep_pause()

    def _may_start(self) -> bool:
        return self._desk.pause is not None and time.monotonic() >= self._next_try

    def _try_to_start(self) -> None:
        try:
            self._start()
        except TidegateError as error:
            self._fail(Failure(type(error).__name__, error.code, error.message, error.remedy))
        except PySparkException as error:
            what = f"Spark did not start the lane's query: {type(error).__name__}"
            self._fail(Failure("TransientError", "LANE_NOT_STARTED", what, "Read Spark's own log; it is tried again."))

    def _start(self) -> None:
        self._started = time.monotonic()
        incarnation = self._heart.begin()
        reach(Failpoint.LANE_STARTING)
        start = self._query.start(self.sink, incarnation, self._pace.begin())
        self._heart.writers, self._until = start.writers, start.until
        self.failure = None
        self.state = LaneState.RUNNING
        self._log.info("lane_started", incarnation=incarnation, trigger=self._query.trigger, **asdict(start))

    def _watch(self) -> None:
        self._heart.read()
        if self.status and self.status.failure:
            self._fail(self.status.failure)
        elif self._until is not None and self.status and self.status.state is State.DRAINED:
            self._query.end()  # it has come as far as it was to go
            self._begin_anew()
        elif self.status and self.status.state is State.DRAINED:
            what = "the lane drained, and nobody had told it to"
            self._fail(Failure("TransientError", "LANE_DRAINED", what, "It is restarted."))
        elif not self._query.is_active:
            self._fail(Failure("TransientError", "LANE_ENDED", "the lane's query ended", "The lane is restarted."))
        elif self._query.is_idle:
            self._heart.speak(State.RUNNING)
        elif self._is_silent:
            self._heart.kill()
            self._fail(Failure("TransientError", "LANE_SILENT", "the lane's heartbeat stopped", "It is restarted."))
        elif self._heart.are_writers_forgotten:
            self._heart.kill()
            what = "Redis has lost where the lane's writers stand"
            self._fail(Failure("TransientError", "LANE_WRITERS_FORGOTTEN", what, "It is restarted."))
        if self.state is LaneState.RUNNING and self._pace.changes(self.status, is_idle=self._query.is_idle):
            self._log.info("lane_changes_trigger", trigger=self._pace.wanted)
            self._begin_drain()

    @property
    def _is_silent(self) -> bool:
        patience = _FIRST_WORD_SECONDS if self.status is None else _SILENT_SECONDS
        return self._heart.silent_seconds() > patience and self._heart.may_hear()

    def _fail(self, failure: Failure) -> None:
        self._query.end()
        self.failure = failure
        fields = {"code": failure.code, "message": failure.message, "remedy": failure.remedy}
        if failure.is_for_a_person:
            self.state = LaneState.LOST
            self._log.error("lane_lost", **fields)
            return
        self.restarts += 1
        seconds = self._backoff.after(time.monotonic() - self._started)
        self._next_try = time.monotonic() + seconds
        self._log.warning("lane_restarts", seconds=seconds, restarts=self.restarts, **fields)
        self.state = LaneState.WAITING

    def _begin_drain(self) -> None:
        self._heart.post(Command.STOP)
        self._drain_until = time.monotonic() + _DRAIN_SECONDS
        self.state = LaneState.DRAINING

    def _has_drained(self) -> bool:
        if not self._query.is_active:
            return True
        self._heart.read()
        if self._query.is_idle:
            self._heart.speak(State.DRAINED)
        return self.status is not None and self.status.state is State.DRAINED

    def _end_drained(self) -> None:
        if not self._has_drained():
            self._log.warning("lane_not_drained", seconds=_DRAIN_SECONDS)
            self._heart.kill()
        self._query.end()
