"""Which lanes there are: one of each sink that the configuration in force names, and those that are about to leave.

| the configuration in force            | the lane                                                                     |
| ------------------------------------- | ---------------------------------------------------------------------------- |
| names a sink that has no lane         | is made; it begins as at a start of the service                              |
| delivers otherwise than the lane does | drains, and a new one goes on by it                                          |
| does not name its sink any more       | leaves: drains, ends, is forgotten; its cursor, ack and dead letters stay    |
| names it again before it has left     | leaves all the same; then a new one is made, by what the file says of it now |
| is another one beside it              | is not touched                                                               |

Invariant: no two lanes of one sink: a new one is made when the one before has drained, or is dead. While one leaves or
is to be made nobody says that all are lost.
"""

from collections.abc import Callable, Iterator

from tidegate.config.epoch import lane_epoch
from tidegate.config.pipeline import PipelineConfig
from tidegate.config.reloads import names
from tidegate.observability import logs
from tidegate_processor.lane import Lane
from tidegate_processor.table import LaneState

_log = logs.get("processor")


class Lanes:
    def __init__(self, config: PipelineConfig, make: Callable[[PipelineConfig, str], Lane]) -> None:
        self._make = make
        self._wanted = config
        self._outdated: set[str] = set()
        self._leaving: list[Lane] = []
        self._restarts: dict[str, int] = {}
        """Of the lanes that a sink has had."""
        self._lanes = {sink.name: make(config, sink.name) for sink in config.sinks}

    def __iter__(self) -> Iterator[Lane]:
        """Those of the configuration in force; not of a sink whose lane before has yet to leave."""
        return iter(list(self._lanes.values()))

    @property
    def everyone(self) -> list[Lane]:
        return [*self._leaving, *self._lanes.values()]

    @property
    def are_lost(self) -> bool:
        is_whole = not self._leaving and self._lanes.keys() == names(self._wanted)
        return is_whole and all(lane.state is LaneState.LOST for lane in self)

    def follow(self, config: PipelineConfig) -> None:
        """By this configuration from now on."""
        before, self._wanted = self._wanted, config
        for sink in self._lanes.keys() - names(config):
            self._leaving.append(self._lanes.pop(sink))
            self._outdated.discard(sink)
            _log.info("lane_leaves", sink=sink)
        kept = self._lanes.keys() & names(before)
        self._outdated |= {sink for sink in kept if lane_epoch(before, sink) != lane_epoch(config, sink)}

    def settle(self) -> None:
        """One step nearer to what is wanted; nothing of it waits."""
        self._leaving = [lane for lane in self._leaving if not self._has_left(lane)]
        still = {lane.sink for lane in self._leaving}
        for sink in [each.name for each in self._wanted.sinks]:
            if sink not in self._lanes and sink not in still:
                self._lanes[sink] = self._made(sink)
                _log.info("lane_made", sink=sink)

    def renew(self, lane: Lane) -> None:
        """By what it shall deliver now, if that is otherwise. What is lost or under way is left to end first."""
        if lane.sink not in self._outdated:
            return
        lane.begin_stop()
        if lane.state not in (LaneState.WAITING, LaneState.PAUSED):
            return
        lane.finish_stop()
        self._outdated.discard(lane.sink)
        self._restarts[lane.sink] = lane.restarts
        self._lanes[lane.sink] = self._made(lane.sink)
        _log.info("lane_reconfigured", sink=lane.sink)

    def _has_left(self, lane: Lane) -> bool:
        has_left = lane.leave()
        if has_left:
            self._restarts[lane.sink] = lane.restarts
            _log.info("lane_left", sink=lane.sink)
        return has_left

    def _made(self, sink: str) -> Lane:
        """It goes on counting: its metric is about the process, not about one lane."""
        lane = self._make(self._wanted, sink)
        lane.restarts = self._restarts.get(sink, 0)
        return lane
