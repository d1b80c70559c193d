"""A transactional sink: events, dead letters and cursor are one commit, and opening fences whoever held it before.

The records are made by the reference encoder, so ids and bytes are the real ones.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from kit import reference

from tidegate.contracts.cursor import Cursor, decode_cursor
from tidegate.contracts.dead_letter import DeadLetter
from tidegate.contracts.frame import Frame
from tidegate.errors import RecordError, TransientError
from tidegate.position import Position
from tidegate_processor.sinks.base import Capabilities, Receipt


class CommitFault(StrEnum):
    REFUSED = "refused"
    LATE_ERROR = "late_error"
    """It is durable, and an error is returned."""
    HELD = "held"
    """Nothing is returned; it becomes durable some time later, unless it was fenced by then."""


@dataclass(frozen=True, slots=True)
class Event:
    position: Position
    id: str
    key: bytes | None
    value: bytes


@dataclass(slots=True)
class Batch:
    token: int
    cursor: str
    events: list[Event] = field(default_factory=list)
    letters: list[DeadLetter] = field(default_factory=list)


class SinkServer:
    """The target system; `applied` hears of each commit the moment it is durable."""

    def __init__(self, applied: Callable[[Batch], None]) -> None:
        self.cursor: str | None = None
        self.history: list[str] = []
        self.next_fault: CommitFault | None = None
        self.held: Batch | None = None
        self.token = 0
        self._applied = applied

    def fence(self) -> int:
        self.token += 1
        return self.token

    def apply(self, batch: Batch) -> None:
        if batch.token != self.token:
            raise TransientError("fenced by a newer writer", code="SINK_FENCED")
        self.cursor = batch.cursor
        self.history.append(batch.cursor)
        self._applied(batch)

    def release(self) -> None:
        """What was held arrives now; if it was fenced meanwhile, it never does."""
        batch, self.held = self.held, None
        if batch is not None and batch.token == self.token:
            self.apply(batch)


class Sink:
    """The production contract, one object an incarnation."""

    capabilities = Capabilities(exactly_once=True, deletes=True, truncates=True)

    def __init__(self, server: SinkServer) -> None:
        self._server = server
        self._batch = Batch(0, "")

    def ping(self) -> None:
        return

    def open(self) -> Cursor | None:
        self._batch = Batch(self._server.fence(), "")
        return decode_cursor(self._server.cursor) if self._server.cursor else None

    def write(self, frame: Frame, after: Position) -> Receipt:
        poison = RecordError("the target refuses this row", code="POISON", remedy="None.")
        made = reference.encode(frame, lambda schema, table, _: f"{schema}.{table}", "sim", after)
        rejected = made.rejected
        events: list[Event] = []
        for each in made.events:
            change, event = each.change, each.event
            if b"poison" in change.raw:
                rejected.append(reference.rejected(change, change.shapes[0], poison))
            else:
                events.append(Event(change.position, event.id, event.key, event.value))
        self._batch.events += events
        return Receipt(len(events), sum(len(event.value) for event in events), tuple(rejected))

    def write_dead_letters(self, letters: Sequence[DeadLetter]) -> None:
        self._batch.letters += letters

    def commit(self, cursor: Cursor) -> None:
        batch, self._batch = self._batch, Batch(self._batch.token, "")
        batch.cursor = cursor.encode()
        fault, self._server.next_fault = self._server.next_fault, None
        if fault is CommitFault.REFUSED:
            raise TransientError("the target is away", code="SINK_AWAY")
        if fault is CommitFault.HELD and batch.token == self._server.token:
            self._server.held = batch
            raise TransientError("the target does not answer", code="SINK_SILENT")
        self._server.apply(batch)
        if fault is CommitFault.LATE_ERROR:
            raise TransientError("the answer was lost", code="SINK_ANSWER_LOST")

    def close(self) -> None:
        self._batch = Batch(self._batch.token, "")
