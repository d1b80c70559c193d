"""From one look to the picture of a pipeline: the gate and the lag at each stage. Pure but for its histories.

Invariant: nothing is made up. What was not seen is none; what is caught up is 0.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from tidegate.config.pipeline import PipelineConfig
from tidegate.config.sinks import SinkConfig
from tidegate.contracts.ack import Ack
from tidegate.contracts.status import LaneStatus, ReaderStatus, State
from tidegate.lag import IDLE, Lag, LsnHistory, lag
from tidegate_admin.health.service import Condition, conditions
from tidegate_admin.pipelines.observation import Observation, Statuses, Unavailable
from tidegate_admin.pipelines.passage import Flow, Passages
from tidegate_admin.slots.service import SlotView


class Shown(StrEnum):
    """The state of a service as it says itself, and the two that it cannot say."""

    STARTING = "starting"
    RUNNING = "running"
    DRAINING = "draining"
    DRAINED = "drained"
    PAUSED = "paused"
    FAILED = "failed"
    STALE = "stale"
    """Has not spoken for five seconds: gone or stuck."""
    ABSENT = "absent"
    """Has never spoken."""


@dataclass(frozen=True, slots=True)
class ReaderView:
    state: Shown
    status: ReaderStatus | None = None


@dataclass(frozen=True, slots=True)
class LaneView:
    sink: str
    type: str
    required: bool
    state: Shown
    status: LaneStatus | None = None
    ack: Ack | None = None
    lag: Lag | None = None
    """From the raw topic into the sink; none while the lane has never acked."""
    lag_frames: int | None = None
    has_recent_latency: bool = False


@dataclass(frozen=True, slots=True)
class PipelineView:
    name: str
    time: int
    database: str
    raw_topic: str
    reader: ReaderView
    lanes: tuple[LaneView, ...]
    slot: SlotView | Unavailable
    read: Lag | None
    confirm: Lag | None
    total: Lag | None
    gate_holder: str | None
    wal_rate: float | None = None
    """Bytes of WAL that the source writes in a second, of late."""
    conditions: Mapping[str, Condition] = field(default_factory=dict)
    wrong_settings: int | None = None
    """Of the raw topic."""


class Levels:
    """The levels whose age becomes a lag in seconds, each with its history."""

    def __init__(self) -> None:
        self.server = LsnHistory()
        self.produced = LsnHistory()
        self.acked = LsnHistory()
        self.passages = Passages()


def pipeline_view(config: PipelineConfig, seen: Observation, levels: Levels) -> PipelineView:
    statuses = seen.statuses if isinstance(seen.statuses, Statuses) else Statuses()
    reader, now = statuses.reader, seen.time / 1e6
    server_lsn, acked = _server_lsn(seen, reader), _lowest_ack(config, statuses)
    levels.server.record(now, server_lsn)
    levels.produced.record(now, reader.produced_lsn if reader else 0)
    levels.acked.record(now, acked or 0)
    confirmed = _confirmed_lsn(seen, reader)
    lanes = tuple(_lane_view(sink, statuses, seen.time, levels) for sink in config.sinks)
    return PipelineView(
        name=config.pipeline,
        time=seen.time,
        database=config.source.database,
        raw_topic=config.raw_topic.name,
        reader=ReaderView(_state(reader, seen.time), reader),
        lanes=lanes,
        slot=seen.slot,
        read=lag(server_lsn, reader.produced_lsn, levels.server, now) if reader else None,
        confirm=lag(acked, confirmed, levels.acked, now) if acked is not None and confirmed else None,
        total=lag(server_lsn, confirmed, levels.server, now) if server_lsn and confirmed else None,
        gate_holder=reader.gate_holder if reader else None,
        wal_rate=levels.server.rate(now),
        conditions=conditions(config, seen, _flows(config, seen, lanes, server_lsn, levels)),
        wrong_settings=seen.wrong_settings,
    )


def _flows(
    config: PipelineConfig, seen: Observation, lanes: Sequence[LaneView], server_lsn: int, levels: Levels
) -> Mapping[str, Flow]:
    """The server's own word counts too: a reader that hangs says nothing new."""
    if not isinstance(seen.statuses, Statuses):
        return {}
    told = seen.slot.current_lsn if isinstance(seen.slot, SlotView) else 0
    acked = {lane.sink: lane.ack.safe_lsn for lane in lanes if lane.ack is not None}
    behind = {lane.sink: lane.lag.seconds for lane in lanes if lane.lag is not None}
    beat = config.source.heartbeat.interval
    return levels.passages.flows(acked, behind, max(server_lsn, told or 0), seen.time / 1e6, beat)


def forecast_seconds(view: PipelineView) -> float | None:
    """Until the slot is lost, if nothing is confirmed any more and the source writes on as of late; none: no end."""
    safe = view.slot.safe_wal_bytes if isinstance(view.slot, SlotView) else None
    return safe / view.wal_rate if safe is not None and view.wal_rate else None


def _lane_view(sink: SinkConfig, statuses: Statuses, time: int, levels: Levels) -> LaneView:
    lane, ack, reader = statuses.lanes.get(sink.name), statuses.acks.get(sink.name), statuses.reader
    behind, frames = None, None
    if reader is not None and reader.generation and ack is not None:
        newest_commit = (time - lane.last_commit_time) / 1e6 if lane and lane.last_commit_time else None
        behind = lag(reader.produced_lsn, ack.safe_lsn, levels.produced, time / 1e6, newest_commit)
        frames = max(0, reader.raw_offset - ack.offset) if behind is not IDLE else 0
    is_recent = lane is not None and lane.has_recent_latency(time)
    return LaneView(sink.name, sink.type, sink.required, _state(lane, time), lane, ack, behind, frames, is_recent)


def _state(status: ReaderStatus | LaneStatus | None, now: int) -> Shown:
    if status is None:
        return Shown.ABSENT
    is_stale = status.is_stale(now) and status.state is not State.FAILED
    return Shown.STALE if is_stale else Shown(status.state.value)


def _server_lsn(seen: Observation, reader: ReaderStatus | None) -> int:
    """What the running reader was told last: beyond it lies only WAL that is not of this pipeline.

    Without a running reader, what the server says itself.
    """
    if reader is not None and not reader.is_stale(seen.time):
        return reader.server_lsn
    told = seen.slot.current_lsn if isinstance(seen.slot, SlotView) else 0
    return max(reader.server_lsn if reader else 0, told)


def _lowest_ack(config: PipelineConfig, statuses: Statuses) -> int | None:
    """None while a required sink has never acked; without required sinks what is in the raw topic counts."""
    required = config.required_sinks
    if not required:
        return statuses.reader.produced_lsn if statuses.reader else None
    acks = [statuses.acks.get(sink) for sink in required]
    return min(ack.safe_lsn for ack in acks if ack) if all(acks) else None


def _confirmed_lsn(seen: Observation, reader: ReaderStatus | None) -> int:
    """The slot's own word goes before the reader's."""
    if isinstance(seen.slot, SlotView) and seen.slot.confirmed_flush_lsn is not None:
        return max(seen.slot.confirmed_flush_lsn, reader.confirmed_lsn if reader else 0)
    return reader.confirmed_lsn if reader else 0
