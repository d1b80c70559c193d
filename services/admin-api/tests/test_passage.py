"""What comes through decides whether a pipeline is ready, not what runs."""

from dataclasses import replace
from datetime import timedelta

import pytest
from kit.admin import NOW, make_ack, make_config, make_lane, make_reader, make_slot

from tidegate.contracts.status import State as ServiceState
from tidegate.lsn import Lsn
from tidegate.observability.health import State
from tidegate_admin.health.service import Condition
from tidegate_admin.pipelines.observation import Observation, Statuses
from tidegate_admin.pipelines.service import Levels, pipeline_view


class Watched:
    """Looks at a pipeline whose services all say that they run."""

    def __init__(self, **source: object) -> None:
        self.config = make_config()
        if source:
            heartbeat = self.config.source.heartbeat.model_copy(update=source)
            changed = self.config.source.model_copy(update={"heartbeat": heartbeat})
            self.config = self.config.model_copy(update={"source": changed})
        self._levels = Levels()

    def look(self, second: float, acked: int, *, server: int, sink: str = "events", **lane: object) -> Condition:
        now = NOW + int(second * 1e6)
        acks = {name: replace(make_ack(name), safe_lsn=Lsn(acked if name == sink else server)) for name in _SINKS}
        lanes = {name: make_lane(name, time=now, **(lane if name == sink else {})) for name in _SINKS}
        reader = make_reader(time=now, server_lsn=server, produced_lsn=server)
        seen = Observation(now, Statuses(reader, lanes, acks), make_slot(current_lsn=Lsn(server)))
        return pipeline_view(self.config, seen, self._levels).conditions[f"lane/{sink}"]


_SINKS = ("events", "extra")


def test_a_lane_whose_ack_moves_is_up_and_an_idle_one_too() -> None:
    watched = Watched()
    busy = [watched.look(second, 1000 + second, server=1001 + second).state for second in range(100)]
    idle = [watched.look(second, 5000, server=5000).state for second in range(100, 300, 10)]
    assert set(busy + idle) == {State.UP}


@pytest.mark.parametrize(("sink", "expected"), [("events", State.DOWN), ("extra", State.DEGRADED)])
def test_a_lane_through_which_no_heartbeat_comes_is_not_ready_though_it_runs(sink: str, expected: State) -> None:
    watched = Watched()
    states = [watched.look(second, 1000, server=2000 + second, sink=sink).state for second in range(29)]
    later = watched.look(31, 1000, server=3000, sink=sink)
    again = watched.look(32, 3000, server=3000, sink=sink)
    assert set(states) == {State.UP}
    assert (later.state, "no heartbeat" in later.reason) == (expected, True)
    assert again.state is State.UP


def test_the_servers_own_word_counts_where_the_reader_hangs() -> None:
    watched = Watched()
    watched.look(0, 1000, server=1000)
    now = NOW + 40_000_000
    acks = {name: replace(make_ack(name), safe_lsn=Lsn(1000)) for name in _SINKS}
    lanes = {name: make_lane(name, time=now) for name in _SINKS}
    statuses = Statuses(make_reader(time=now, server_lsn=1000), lanes, acks)
    seen = Observation(now, statuses, make_slot(current_lsn=Lsn(9000)))
    assert pipeline_view(watched.config, seen, watched._levels).conditions["lane/events"].state is State.DOWN


def test_one_that_delivers_but_is_far_behind_is_degraded() -> None:
    watched = Watched()
    found = [watched.look(second, second + 1, server=100_000 if second else 1) for second in range(120)]
    assert found[20].state is State.UP
    assert (found[119].state, "old" in found[119].reason) == (State.DEGRADED, True)


def test_a_slow_heartbeat_takes_longer_to_be_missed() -> None:
    watched = Watched(interval=timedelta(seconds=60))
    assert watched.look(0, 1000, server=2000).state is State.UP
    assert watched.look(170, 1000, server=2000).state is not State.DOWN
    assert watched.look(181, 1000, server=2000).state is State.DOWN


def test_a_paused_lane_stands_by_somebodys_will() -> None:
    watched = Watched()
    for second in (0, 100):
        found = watched.look(second, 1000, server=2000, state=ServiceState.PAUSED)
    assert (found.state, "paused" in found.reason) == (State.DEGRADED, True)
