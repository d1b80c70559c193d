"""Judges one look at a pipeline: which parts are up, degraded or down, and why.

| part | down | degraded |
| --- | --- | --- |
| redis | does not answer | - |
| reader | absent, stale, failed, not running | - |
| lane of a required sink | absent, stale, failed, not running | - |
| lane of a best-effort sink | - | absent, stale, failed, not running |
| lane that was paused | stale | paused, by somebody's will: the gate waits for it |
| lane that runs | nothing comes through, not even heartbeats | it is far behind; best effort: nothing comes |
| slot | gone or lost | its WAL is about to be given up; PostgreSQL does not answer |

What comes through decides, not what runs: see pipelines/passage.py.

Invariant: only what stops delivery is down; a part that cannot be seen is never called up.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from tidegate.config.pipeline import PipelineConfig
from tidegate.config.sinks import SinkConfig
from tidegate.contracts.status import STALE_SECONDS, LaneStatus, ReaderStatus
from tidegate.contracts.status import State as ServiceState
from tidegate.observability.health import Health, State
from tidegate_admin.pipelines.observation import Observation, Statuses, Unavailable
from tidegate_admin.pipelines.passage import Flow
from tidegate_admin.slots.service import SlotView

REDIS, READER, SLOT = "redis", "reader", "slot"


@dataclass(frozen=True, slots=True)
class Condition:
    state: State
    reason: str = ""


UP = Condition(State.UP)


def lane_part(sink: str) -> str:
    return f"lane/{sink}"


def component_names(config: PipelineConfig) -> Iterator[str]:
    for part in (REDIS, READER, SLOT, *(lane_part(sink.name) for sink in config.sinks)):
        yield f"{config.pipeline}/{part}"


def conditions(
    config: PipelineConfig, seen: Observation, flows: Mapping[str, Flow] = MappingProxyType({})
) -> dict[str, Condition]:
    found = {REDIS: UP, SLOT: _slot(seen.slot)}
    if isinstance(seen.statuses, Unavailable):
        unseen = Condition(State.DOWN, "unknown: Redis does not answer")
        found[REDIS] = Condition(State.DOWN, seen.statuses.reason)
        return found | {READER: unseen} | {lane_part(sink.name): unseen for sink in config.sinks}
    found[READER] = _service(seen.statuses.reader, seen.time)
    return found | {
        lane_part(sink.name): _lane(seen.statuses, sink, seen.time, flows.get(sink.name, Flow()))
        for sink in config.sinks
    }


def tell(health: Health, pipeline: str, found: Mapping[str, Condition]) -> Iterator[tuple[str, State, State]]:
    """Writes into `health` and yields (component, before, after) for what has changed."""
    before = health.components
    for part, condition in found.items():
        name = f"{pipeline}/{part}"
        match condition.state:
            case State.UP:
                health.up(name, condition.reason)
            case State.DEGRADED:
                health.degraded(name, condition.reason)
            case State.DOWN:
                health.down(name, condition.reason)
        if before[name].state is not condition.state:
            yield name, before[name].state, condition.state


def _lane(statuses: Statuses, sink: SinkConfig, now: int, flow: Flow) -> Condition:
    condition = _service(statuses.lanes.get(sink.name), now)
    if condition is UP:
        condition = _flow(flow)
    if condition.state is State.DOWN and not sink.required:
        return Condition(State.DEGRADED, f"best effort: {condition.reason}")
    return condition


def _flow(flow: Flow) -> Condition:
    if flow.still_seconds > flow.limit_seconds:
        return Condition(State.DOWN, f"nothing has come through for {flow.still_seconds:.0f} s, no heartbeat either")
    if flow.behind_seconds > flow.limit_seconds:
        return Condition(State.DEGRADED, f"delivers what is {flow.behind_seconds:.0f} s old")
    return UP


def _service(status: ReaderStatus | LaneStatus | None, now: int) -> Condition:
    if status is None:
        return Condition(State.DOWN, "has never reported")
    if status.failure is not None:
        return Condition(State.DOWN, f"{status.failure.code}: {status.failure.message}")
    if status.is_stale(now):
        return Condition(State.DOWN, f"has not reported for more than {STALE_SECONDS:.0f} s")
    if status.state is ServiceState.PAUSED:
        return Condition(State.DEGRADED, "paused: the source keeps its WAL until it is resumed")
    if status.state is not ServiceState.RUNNING:
        return Condition(State.DOWN, status.state)
    return UP


def _slot(slot: SlotView | Unavailable) -> Condition:
    if isinstance(slot, Unavailable):
        return Condition(State.DEGRADED, slot.reason)
    if not slot.exists:
        return Condition(State.DOWN, f"there is no slot {slot.name}")
    match slot.wal_status:
        case "lost":
            return Condition(State.DOWN, "PostgreSQL has given the slot's WAL up: changes are lost to it")
        case "unreserved":
            return Condition(State.DEGRADED, "the slot's WAL is removed at the next checkpoint unless it is read")
        case _:
            return UP
