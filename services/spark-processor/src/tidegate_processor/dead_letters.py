"""Rejected changes to dead letters. The same change rejected twice is the same dead letter."""

import hashlib

from tidegate.contracts.dead_letter import DeadLetter, FrameAddress
from tidegate.events import Operation
from tidegate.pgoutput.messages import Delete, Insert, LogicalMessage, Truncate, Update
from tidegate_processor.decode import Change
from tidegate_processor.sinks.base import Rejected

_OPERATIONS = {
    Insert: Operation.INSERT,
    Update: Operation.UPDATE,
    Delete: Operation.DELETE,
    Truncate: Operation.TRUNCATE,
    LogicalMessage: Operation.MESSAGE,
}


def operation_of(change: Change) -> Operation:
    return _OPERATIONS[type(change.message)]


def dead_letter(
    rejected: Rejected, *, pipeline: str, lane: str, generation: str, frame: FrameAddress, now: int
) -> DeadLetter:
    change, error = rejected.change, rejected.error
    identity = f"{pipeline}/{lane}/{generation}/{change.position.commit_lsn:x}/{change.ordinal}"
    return DeadLetter(
        id=hashlib.blake2b(identity.encode(), digest_size=16).hexdigest(),
        pipeline=pipeline,
        lane=lane,
        generation=generation,
        frame=frame,
        position=change.position,
        channel=" ".join(f"{shape.relation.schema}.{shape.relation.name}" for shape in change.shapes),
        operation=operation_of(change),
        code=error.code,
        message=error.message,
        remedy=error.remedy,
        time=now,
        payload=change.raw,
        schema=tuple(raw for shape in change.shapes for raw in shape.source),
    )
