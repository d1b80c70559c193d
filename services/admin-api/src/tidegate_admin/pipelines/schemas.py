"""What the API says of a pipeline. Positions are LSNs as PostgreSQL writes them; lags are bytes and seconds.

Invariant: a field that cannot be known now is null and never a guess.
"""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field

from tidegate.contracts.status import Failure, LaneStatus
from tidegate.lag import Lag
from tidegate.lsn import format_lsn
from tidegate.observability.health import Component, State
from tidegate_admin.pipelines.observation import Unavailable
from tidegate_admin.pipelines.service import LaneView, PipelineView, ReaderView, Shown, forecast_seconds
from tidegate_admin.slots.service import SlotView

LSN = Field(None, examples=["0/16B3748"])


class LagModel(BaseModel):
    """0 in both when this stage has caught up."""

    bytes: int
    seconds: float

    @classmethod
    def of(cls, lag: Lag | None) -> Self | None:
        return None if lag is None else cls(bytes=lag.bytes, seconds=round(lag.seconds, 3))


class FailureModel(BaseModel):
    kind: str
    code: str
    message: str
    remedy: str

    @classmethod
    def of(cls, failure: Failure | None) -> Self | None:
        if failure is None:
            return None
        return cls(kind=failure.kind, code=failure.code, message=failure.message, remedy=failure.remedy)


class ComponentModel(BaseModel):
    state: State
    reason: str
    since: datetime

    @classmethod
    def of(cls, component: Component) -> Self:
        return cls(state=component.state, reason=component.reason, since=component.since)


class ReaderModel(BaseModel):
    state: Shown
    started: datetime | None = None
    reported: datetime | None = None
    failure: FailureModel | None = None
    server_lsn: str | None = LSN
    received_lsn: str | None = LSN
    produced_lsn: str | None = LSN
    confirmed_lsn: str | None = LSN
    raw_offset: int | None = Field(None, description="Last offset of the raw topic that the broker acknowledged.")
    frames: int = 0
    changes: int = 0
    bytes: int = 0
    in_flight_bytes: int = 0

    @classmethod
    def of(cls, reader: ReaderView) -> Self:
        status = reader.status
        if status is None:
            return cls(state=reader.state)
        return cls(
            state=reader.state,
            started=_time(status.started),
            reported=_time(status.time),
            failure=FailureModel.of(status.failure),
            server_lsn=format_lsn(status.server_lsn),
            received_lsn=format_lsn(status.received_lsn),
            produced_lsn=format_lsn(status.produced_lsn),
            confirmed_lsn=format_lsn(status.confirmed_lsn),
            raw_offset=status.raw_offset if status.raw_offset >= 0 else None,
            frames=status.frames,
            changes=status.changes,
            bytes=status.bytes,
            in_flight_bytes=status.in_flight_bytes,
        )


class LaneModel(BaseModel):
    sink: str
    type: str
    required: bool
    state: Shown
    started: datetime | None = None
    reported: datetime | None = None
    failure: FailureModel | None = None
    acked_lsn: str | None = LSN
    acked_offset: int | None = None
    acked_position: str | None = Field(None, examples=["0/16B3748#2"])
    last_commit: datetime | None = Field(None, description="Commit time of the newest change that was delivered.")
    lag: LagModel | None = None
    lag_frames: int | None = None
    events: int = 0
    dead_letters: int = 0
    bytes: int = 0
    latency_p50_seconds: float | None = Field(None, description="None where nothing was delivered for a minute.")
    latency_p99_seconds: float | None = None
    trigger: str = Field("", description="By which it runs now: `realtime` or `batch`.")
    spark_ui: str = Field("", description="Spark's page about the lane's query, if the processor has one.")

    @classmethod
    def of(cls, lane: LaneView) -> Self:
        ack, status = lane.ack, lane.status
        return cls(
            sink=lane.sink,
            type=lane.type,
            required=lane.required,
            state=lane.state,
            acked_lsn=format_lsn(ack.safe_lsn) if ack else None,
            acked_offset=ack.offset if ack else None,
            acked_position=str(ack.position) if ack else None,
            lag=LagModel.of(lane.lag),
            lag_frames=lane.lag_frames,
            **(_of_status(status, lane.has_recent_latency) if status else {}),
        )


def _of_status(status: LaneStatus, is_recent: bool) -> dict[str, Any]:
    """`Any`: fields of the model."""
    return {
        "started": _time(status.started),
        "reported": _time(status.time),
        "failure": FailureModel.of(status.failure),
        "last_commit": _time(status.last_commit_time) if status.last_commit_time else None,
        "events": status.events,
        "dead_letters": status.dead_letters,
        "bytes": status.bytes,
        "latency_p50_seconds": status.latency_p50_seconds if is_recent else None,
        "latency_p99_seconds": status.latency_p99_seconds if is_recent else None,
        "trigger": status.trigger,
        "spark_ui": status.spark_ui,
    }


class SlotModel(BaseModel):
    name: str
    exists: bool
    active: bool
    active_pid: int | None = None
    current_lsn: str = Field(description="End of the server's WAL.")
    confirmed_flush_lsn: str | None = LSN
    restart_lsn: str | None = LSN
    wal_status: str | None = None
    wal_held_bytes: int | None = Field(None, description="WAL that the server keeps for this slot.")
    safe_wal_bytes: int | None = Field(None, description="What may still be written before it is lost; null: no limit.")
    wal_bytes_a_second: float | None = Field(None, description="That the source writes, over the last ten minutes.")
    forecast_seconds: float | None = Field(
        None, description="Until it is lost, if nothing is confirmed any more; null: no limit, or nothing is written."
    )

    @classmethod
    def of(cls, slot: SlotView, view: PipelineView) -> Self:
        return cls(
            name=slot.name,
            exists=slot.exists,
            active=slot.active,
            active_pid=slot.active_pid,
            current_lsn=format_lsn(slot.current_lsn),
            confirmed_flush_lsn=_lsn(slot.confirmed_flush_lsn),
            restart_lsn=_lsn(slot.restart_lsn),
            wal_status=slot.wal_status,
            wal_held_bytes=slot.wal_held_bytes,
            safe_wal_bytes=slot.safe_wal_bytes,
            wal_bytes_a_second=view.wal_rate,
            forecast_seconds=forecast_seconds(view),
        )


class GateModel(BaseModel):
    is_open: bool = Field(description="Whether everything in the raw topic may be confirmed to the source.")
    holder: str | None = Field(None, description="The required sink that everybody waits for.")


class LagsModel(BaseModel):
    """By stage: read (source to raw topic), deliver (slowest required lane), confirm (acks to slot), and in all."""

    read: LagModel | None
    deliver: LagModel | None
    confirm: LagModel | None
    total: LagModel | None


class PipelineModel(BaseModel):
    name: str
    state: State
    observed: datetime
    generation: str | None = Field(None, description="The lineage in which positions compare.")
    epoch: int | None = None
    database: str
    raw_topic: str
    reader: ReaderModel
    lanes: list[LaneModel]
    gate: GateModel
    lag: LagsModel
    slot: SlotModel | None
    slot_unavailable: str | None = Field(None, description="Why there is no view of the slot.")
    components: dict[str, ComponentModel]

    @classmethod
    def of(cls, view: PipelineView, components: dict[str, Component]) -> Self:
        status = view.reader.status
        return cls(
            name=view.name,
            state=_worst(component.state for component in components.values()),
            observed=_time(view.time),
            generation=status.generation or None if status else None,
            epoch=status.epoch or None if status else None,
            database=view.database,
            raw_topic=view.raw_topic,
            reader=ReaderModel.of(view.reader),
            lanes=[LaneModel.of(lane) for lane in view.lanes],
            gate=GateModel(is_open=view.gate_holder is None and status is not None, holder=view.gate_holder),
            lag=LagsModel(
                read=LagModel.of(view.read),
                deliver=LagModel.of(slowest(view)),
                confirm=LagModel.of(view.confirm),
                total=LagModel.of(view.total),
            ),
            slot=None if isinstance(view.slot, Unavailable) else SlotModel.of(view.slot, view),
            slot_unavailable=view.slot.reason if isinstance(view.slot, Unavailable) else None,
            components={name: ComponentModel.of(component) for name, component in components.items()},
        )


class PipelineList(BaseModel):
    items: list[PipelineModel]
    next_cursor: str | None = Field(None, description="Give it as `cursor` for the next page; null: this is the last.")


class ForgetPipeline(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    confirm: str = Field(max_length=64, description="The pipeline's name, typed again.")
    accept_loss: bool = Field(
        False, description="Also where lanes have not delivered all that the raw topic holds: nobody delivers it then."
    )


class PipelineForgotten(BaseModel):
    name: str
    topics: list[str] = Field(description="Deleted now, the raw topic first. Empty: they were gone before.")
    keys: int = Field(description="Deleted now in Redis.")


def slowest(view: PipelineView) -> Lag | None:
    """Of the required lanes; none if one of them has never acked."""
    lags = [lane.lag for lane in view.lanes if lane.required]
    known = [each for each in lags if each is not None]
    return max(known, key=lambda each: (each.seconds, each.bytes)) if known and len(known) == len(lags) else None


def _worst(states: Iterable[State]) -> State:
    found = set(states)
    return next((state for state in (State.DOWN, State.DEGRADED) if state in found), State.UP)


def _lsn(lsn: int | None) -> str | None:
    return None if lsn is None else format_lsn(lsn)


def _time(microseconds: int) -> datetime:
    return datetime.fromtimestamp(microseconds / 1e6, UTC)
