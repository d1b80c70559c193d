"""Snapshot frames as `wal` frames of inserts, which is all that kernels know; routes and envelopes say SNAPSHOT.

Invariant: a row keeps its number, whatever is left out before it, and so its id: the transaction it seems to be of is
the one that the contract's ids are made from (`SnapshotHead.ids`). Where it stands in the stream is its LSN.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from tidegate.columns.copy_rows import insert_entries
from tidegate.columns.envelopes import Envelope, EventSource, default_envelope
from tidegate.columns.layout import Slot
from tidegate.columns.plans import Plans, Route, Section
from tidegate.contracts.frame import Frame, FrameKind, OpenTransaction, SchemaRole
from tidegate.contracts.snapshot import SnapshotHead
from tidegate.errors import DecodeError
from tidegate.events import Operation
from tidegate.pgoutput.decode import decode_message
from tidegate.pgoutput.messages import Relation

Takes: TypeAlias = Callable[[str, str, Operation], bool]
"""By schema, table and operation."""


def frame_of_rows(frame: Frame, head: SnapshotHead, text: bytes, left_out: np.ndarray | None = None) -> Frame:
    """A whole snapshot frame with `text` for rows; what is left out keeps its place."""
    lsn = frame.header.last.commit_lsn
    body = insert_entries(text, _columns(frame, head.relation_id), head.relation_id, lsn, left_out)
    rows = OpenTransaction(0, head.name, head.read_at, head.first_row)
    return replace(frame, header=replace(frame.header, changes=head.rows, open_transaction=rows), body=body)


def snapshot_route(route: Route) -> Route:
    def routed(schema: str, table: str, operation: Operation) -> str | None:
        return route(schema, table, _named(operation))

    return routed


class Taken:
    """Sections of frames of both kinds, in which what is taken is wanted: for who rewrites, and makes no event."""

    def __init__(self, takes: Takes) -> None:
        def route(schema: str, table: str, operation: Operation) -> str | None:
            return "" if takes(schema, table, operation) else None

        nowhere = EventSource("", "", 0)
        self._of_wal = Plans(nowhere, route, default_envelope)
        self._of_rows = Plans(nowhere, snapshot_route(route), default_envelope)

    def section(self, frame: Frame) -> Section:
        plans = self._of_rows if frame.header.kind is FrameKind.SNAPSHOT else self._of_wal
        return plans.section(frame)


def snapshot_envelope(envelope: Envelope) -> Envelope:
    def program(relation: Relation, operation: Operation, source: EventSource) -> Iterator[str | Slot]:
        return envelope.program(relation, _named(operation), source)

    return replace(envelope, program=program)


def _named(operation: Operation) -> Operation:
    return Operation.SNAPSHOT if operation is Operation.INSERT else operation


def _columns(frame: Frame, relation_id: int) -> int:
    for entry in frame.schema:
        if entry.role is SchemaRole.CURRENT and entry.message[:1] == b"R":
            relation = decode_message(entry.message)
            if isinstance(relation, Relation) and relation.relation_id == relation_id:
                return len(relation.columns)
    raise DecodeError("rows of a relation which the frame does not describe", code="RELATION_UNKNOWN")
