"""What the writers of a lane say of themselves, as what the lane says.

| of the lane | of its writers |
| --- | --- |
| failure | the first that any has |
| state | drained if all are; else that of one that is not |
| position, offset, epoch | the least; those of a writer that delivers alone |
| events, bytes, dead letters | the sum |
| frames, gaps, seconds, latency | the largest: each is given every frame, and they work side by side |
"""

from collections.abc import Sequence
from dataclasses import replace

from tidegate.contracts.status import LaneStatus, State

_AHEAD = (State.DRAINED, State.RUNNING, State.DRAINING, State.STARTING, State.FAILED)
"""The lane's state is the one that stands furthest back here."""


def put_together(statuses: Sequence[LaneStatus], writers: int) -> LaneStatus | None:
    """None while one is missing, unless another has failed."""
    failed = next((status for status in statuses if status.failure is not None), None)
    if len(statuses) < writers and failed is None:
        return None
    placed = [status for status in statuses if status.is_alone] or statuses
    least = min(placed, key=lambda status: (status.position, status.safe_lsn))
    waiting = next((status.waits_for for status in statuses if status.waits_for), "")
    return replace(
        failed or least,
        state=max((status.state for status in statuses), key=_AHEAD.index),
        waits_for=waiting,
        time=max(status.time for status in statuses),
        generation=least.generation,
        epoch=min(status.epoch for status in placed),
        raw_offset=min(status.raw_offset for status in placed),
        position=least.position,
        safe_lsn=min(status.safe_lsn for status in placed),
        is_alone=False,
        frames=max(status.frames for status in statuses),
        gaps=max(status.gaps for status in statuses),
        events=sum(status.events for status in statuses),
        bytes=sum(status.bytes for status in statuses),
        dead_letters=sum(status.dead_letters for status in statuses),
        dropped_spans=sum(status.dropped_spans for status in statuses),
        write_seconds=max(status.write_seconds for status in statuses),
        commit_seconds=max(status.commit_seconds for status in statuses),
        last_commit_time=max(status.last_commit_time for status in statuses),
        latency_p50_seconds=max(status.latency_p50_seconds for status in statuses),
        latency_p99_seconds=max(status.latency_p99_seconds for status in statuses),
        latency_time=max(status.latency_time for status in statuses),
    )
