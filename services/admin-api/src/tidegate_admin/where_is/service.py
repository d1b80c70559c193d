"""Names the stage at which a change is held: WAL → raw offset → each required lane's ack → slot. Pure.

Invariant: a stage is passed only by what was seen of it, and an ack only in the frame's generation. What was not
seen is unknown, never passed.
"""

from dataclasses import dataclass

from tidegate.lsn import Lsn, format_lsn
from tidegate_admin.frames.search import Found
from tidegate_admin.health.service import READER, REDIS, lane_part
from tidegate_admin.pipelines.service import LaneView, PipelineView
from tidegate_admin.slots.service import SlotView
from tidegate_admin.where_is.schemas import LanePlace, RawPlace, Stage, WhereIs


@dataclass(frozen=True, slots=True)
class Target:
    """`lsn`: everything up to it has to be there. `is_commit`: it is the start of a commit record, not an end."""

    lsn: Lsn
    is_commit: bool = False
    xid: int | None = None


def where_is(view: PipelineView, target: Target, found: Found | None) -> WhereIs:
    slot = view.slot if isinstance(view.slot, SlotView) else None
    confirmed = slot.confirmed_flush_lsn if slot else None
    lanes = [_lane(view, lane, target, found) for lane in view.lanes]
    stage, held_by, reason = _stage(view, target, found, lanes, confirmed)
    return WhereIs(
        stage=stage,
        held_by=held_by,
        reason=reason,
        lsn=format_lsn(target.lsn),
        xid=target.xid,
        source_lsn=format_lsn(slot.current_lsn) if slot else None,
        raw=RawPlace(offset=found.offset, written=found.header.created, epoch=found.header.epoch) if found else None,
        lanes=lanes,
        confirmed_flush_lsn=None if confirmed is None else format_lsn(confirmed),
    )


def _stage(
    view: PipelineView, target: Target, found: Found | None, lanes: list[LanePlace], confirmed: Lsn | None
) -> tuple[Stage, str | None, str]:
    if confirmed is not None and _covers(confirmed, target):
        return Stage.CONFIRMED, None, ""
    if found is None:
        return _before_the_topic(view, target)
    waiting = next((lane for lane in lanes if lane.required and not lane.acked), None)
    if waiting is not None:
        return Stage.LANE, waiting.sink, waiting.reason or f"the lane is {waiting.state}"
    if confirmed is None:
        return Stage.UNKNOWN, None, "the slot could not be looked at"
    condition = view.conditions.get(READER)
    return Stage.SLOT, None, condition.reason if condition else ""


def _before_the_topic(view: PipelineView, target: Target) -> tuple[Stage, str | None, str]:
    if not isinstance(view.slot, SlotView):
        return Stage.UNKNOWN, None, "the source does not answer, and the raw topic does not have it"
    if target.lsn > view.slot.current_lsn:
        return Stage.UNWRITTEN, None, "the source's WAL ends before it"
    condition = view.conditions.get(READER)
    return Stage.WAL, None, (condition.reason if condition else "") or "the reader has not come so far"


def _lane(view: PipelineView, lane: LaneView, target: Target, found: Found | None) -> LanePlace:
    ack, condition = lane.ack, view.conditions.get(lane_part(lane.sink))
    is_same = ack is not None and (found is None or ack.generation == found.header.generation.id)
    has_it = ack is not None and is_same and _covers(ack.safe_lsn, target)
    redis = view.conditions.get(REDIS)
    return LanePlace(
        sink=lane.sink,
        required=lane.required,
        state=lane.state,
        acked=has_it,
        acked_at=ack.time if ack and has_it else None,
        acked_offset=ack.offset if ack else None,
        reason=(condition.reason if condition else "") or (redis.reason if redis else ""),
    )


def _covers(reached: Lsn, target: Target) -> bool:
    return reached > target.lsn if target.is_commit else reached >= target.lsn
