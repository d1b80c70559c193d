"""Sampled transactions on their way through the reader, as spans of their trace.

| span | from | to |
| --- | --- | --- |
| transaction | its commit at the source | acknowledged by the broker, in full |
| received | its BEGIN is read | its COMMIT is read |
| framed | its COMMIT is read | the frame that holds it is closed |
| produced | that frame is closed | acknowledged by the broker |
| confirmed | acknowledged by the broker | the server is told that it may forget it |

Invariant: what is not traced is not touched: without tracing the parts of the pipeline are handed on as they are, and
with it a transaction that is not sampled costs one look at its commit LSN.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidegate.clock import from_postgres
from tidegate.lsn import ZERO, Lsn, format_lsn
from tidegate.observability.trace_context import Sampler, TraceContext, new_span_id, trace_of
from tidegate.observability.tracing import Span, Tracing
from tidegate.position import Position
from tidegate_reader.feedback import Feedback, Levels
from tidegate_reader.frames import EpochStamp, SentFrame
from tidegate_reader.history import HistoryCheck
from tidegate_reader.metrics import ReaderMetrics
from tidegate_reader.sources.postgres_wal.stream import ReplicationStream
from tidegate_reader.transactions import TransactionTracker

if TYPE_CHECKING:
    from tidegate.config.tracing import TracingConfig

OnDurable = Callable[[SentFrame, int], None]

MOST_ON_THE_WAY = 2048
"""Sampled, and not yet in the raw topic; and as many again that are not yet confirmed."""
_SPANS_OF_ONE = 4
_TOO_MANY = "too many sampled transactions are on their way"


class Untraced:
    """Everything as it is."""

    def tracker(self, skip_to: Position, history: HistoryCheck | None) -> TransactionTracker:
        return TransactionTracker(skip_to, history)

    def before(self, durable: OnDurable) -> OnDurable:
        return durable

    def feedback(self, stream: ReplicationStream, levels: Callable[[], Levels], metrics: ReaderMetrics) -> Feedback:
        return Feedback(stream, levels, metrics)


@dataclass(slots=True)
class _Passing:
    """Times in Unix nanoseconds."""

    context: TraceContext
    commit_lsn: Lsn
    xid: int
    committed: int
    begun: int
    ended: int = 0
    end_lsn: Lsn = ZERO
    changes: int = 0
    frames: int = 0


class Trail(Untraced):
    def __init__(self, tracing: Tracing, sampler: Sampler, stamp: EpochStamp) -> None:
        self.sampler = sampler
        self.reading: _Passing | None = None
        """Sampled, and its COMMIT is still to come."""
        self._tracing, self._stamp = tracing, stamp
        self._passing: deque[_Passing] = deque()
        self._unconfirmed: deque[tuple[TraceContext, Lsn, int]] = deque()

    def tracker(self, skip_to: Position, history: HistoryCheck | None) -> TransactionTracker:
        return _WatchedTracker(self, skip_to, history)

    def before(self, durable: OnDurable) -> OnDurable:
        def both(frame: SentFrame, offset: int) -> None:
            durable(frame, offset)
            if self._passing:
                self._durable(frame, offset)

        return both

    def feedback(self, stream: ReplicationStream, levels: Callable[[], Levels], metrics: ReaderMetrics) -> Feedback:
        return _WatchedFeedback(self, stream, levels, metrics)

    def begun(self, commit_lsn: Lsn, xid: int, commit_time: int) -> None:
        if len(self._passing) >= MOST_ON_THE_WAY:
            self._tracing.drop(_SPANS_OF_ONE, _TOO_MANY)
            return
        system_id, now = self._stamp.generation.system_identifier, time.time_ns()
        context = trace_of(system_id=system_id, commit_lsn=commit_lsn, xid=xid, commit_time=commit_time)
        committed = min(max(from_postgres(commit_time), 0) * 1000, now)  # the source's clock may be ahead
        self.reading = _Passing(context, commit_lsn, xid, committed, now)
        self._passing.append(self.reading)

    def ended(self, passing: _Passing, end_lsn: Lsn, changes: int, *, is_skipped: bool) -> None:
        self.reading = None
        if is_skipped:  # the epoch before has told of it
            self._passing.remove(passing)
        passing.ended, passing.end_lsn, passing.changes = time.time_ns(), end_lsn, changes

    def confirmed(self, lsn: Lsn) -> None:
        """The server has been told."""
        now = time.time_ns()
        while self._unconfirmed and self._unconfirmed[0][1] <= lsn:
            context, end_lsn, acknowledged = self._unconfirmed.popleft()
            attributes = {"tidegate.end_lsn": format_lsn(end_lsn)}
            self._tracing.give([_child(context, "confirmed", acknowledged, now, attributes)])

    def _durable(self, frame: SentFrame, offset: int) -> None:
        for passing in self._passing:
            if passing.commit_lsn > frame.last.commit_lsn:
                break
            passing.frames += 1
        while self._passing and 0 < self._passing[0].end_lsn <= frame.safe_lsn:
            self._tell(self._passing.popleft(), frame, offset)

    def _tell(self, passing: _Passing, last: SentFrame, offset: int) -> None:
        context, now = passing.context, time.time_ns()
        closed = min(max(last.created * 1000, passing.ended), now)
        attributes = self._attributes(passing, offset)
        root = Span("transaction", context.trace_id, context.span_id, 0, passing.committed, now, attributes)
        children = (
            ("received", passing.begun, passing.ended),
            ("framed", passing.ended, closed),
            ("produced", closed, now),
        )
        self._tracing.give([root, *(_child(context, name, start, end, {}) for name, start, end in children)])
        if len(self._unconfirmed) < MOST_ON_THE_WAY:
            self._unconfirmed.append((context, passing.end_lsn, now))
        else:
            self._tracing.drop(1, _TOO_MANY)

    def _attributes(self, passing: _Passing, offset: int) -> dict[str, str | int]:
        return {
            "tidegate.slot": self._stamp.generation.slot,
            "tidegate.epoch": self._stamp.number,
            "tidegate.xid": passing.xid,
            "tidegate.commit_lsn": format_lsn(passing.commit_lsn),
            "tidegate.end_lsn": format_lsn(passing.end_lsn),
            "tidegate.changes": passing.changes,
            "tidegate.frames": passing.frames,
            "tidegate.raw_offset": offset,
        }


def make_trail(tracing: Tracing | None, config: TracingConfig | None, stamp: EpochStamp) -> Untraced:
    if tracing is None or config is None:
        return Untraced()
    return Trail(tracing, Sampler(config.ratio), stamp)


class _WatchedTracker(TransactionTracker):
    def __init__(self, trail: Trail, skip_to: Position, history: HistoryCheck | None) -> None:
        super().__init__(skip_to, history)
        self._trail = trail

    def begin(self, message: bytes) -> None:
        super().begin(message)
        if self._trail.sampler.takes(self.commit_lsn):
            self._trail.begun(self.commit_lsn, self.xid, self.commit_time)

    def commit(self, message: bytes) -> tuple[Position, Lsn, bool]:
        position, end_lsn, is_skipped = super().commit(message)
        if (reading := self._trail.reading) is not None:
            self._trail.ended(reading, end_lsn, self.ordinal, is_skipped=is_skipped)
        return position, end_lsn, is_skipped


class _WatchedFeedback(Feedback):
    def __init__(
        self, trail: Trail, stream: ReplicationStream, levels: Callable[[], Levels], metrics: ReaderMetrics
    ) -> None:
        super().__init__(stream, levels, metrics)
        self._trail = trail

    async def send(self) -> None:
        confirmed = self._levels().confirmed
        await super().send()
        self._trail.confirmed(confirmed)


def _child(context: TraceContext, name: str, start: int, end: int, attributes: Mapping[str, str | int]) -> Span:
    return Span(name, context.trace_id, new_span_id(), context.span_id, start, end, attributes)
