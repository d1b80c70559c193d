"""Rejected changes to dead letters. The same change rejected twice is the same dead letter."""

import hashlib
from collections.abc import Iterable
from typing import TYPE_CHECKING

from tidegate.clock import unix_microseconds
from tidegate.contracts.dead_letter import DeadLetter, FrameAddress
from tidegate.events import SNAPSHOT_ORDINALS, Operation
from tidegate.position import Position

if TYPE_CHECKING:
    from tidegate.columns.refusals import RejectedChange


def dead_letters(
    rejected: "Iterable[RejectedChange]", *, pipeline: str, lane: str, generation: str, frame: FrameAddress
) -> list[DeadLetter]:
    """All of one frame."""
    now = unix_microseconds()
    return [
        dead_letter(each, pipeline=pipeline, lane=lane, generation=generation, frame=frame, now=now)
        for each in rejected
    ]


def dead_letter(
    rejected: "RejectedChange", *, pipeline: str, lane: str, generation: str, frame: FrameAddress, now: int
) -> DeadLetter:
    error, relation = rejected.error, rejected.shape.relation
    position, lsn = Position(rejected.transaction.commit_lsn, rejected.ordinal), rejected.lsn
    channel = f"{relation.schema}.{relation.name}"
    identity = f"{pipeline}/{lane}/{generation}/{position.commit_lsn:x}/{position.ordinal}"
    if rejected.operation is Operation.SNAPSHOT:  # it stands where its frame does; `lsn` is what it is named by
        position, lsn = Position(lsn, SNAPSHOT_ORDINALS + position.ordinal), position.commit_lsn
    if rejected.operation is Operation.TRUNCATE:  # one position, a change for each table
        identity += f"/{channel}"
    return DeadLetter(
        id=hashlib.blake2b(identity.encode(), digest_size=16).hexdigest(),
        pipeline=pipeline,
        lane=lane,
        generation=generation,
        frame=frame,
        position=position,
        channel=channel,
        operation=rejected.operation,
        code=error.code,
        message=error.message,
        remedy=error.remedy,
        time=now,
        payload=rejected.raw,
        schema=rejected.shape.source,
        xid=rejected.transaction.xid,
        commit_time=rejected.transaction.commit_time,
        lsn=lsn,
    )
