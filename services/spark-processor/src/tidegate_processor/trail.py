"""Sampled transactions on their way through a lane, as spans below the reader's span of the same transaction.

| span | from | to |
| --- | --- | --- |
| lane | the sink is given the first frame with something of it | acked |
| written | the same | the sink has taken the last frame: decoded, transformed, encoded, handed over |
| committed | the sink's commit of the last frame begins | it is durable, with its cursor |
| acked | it is durable | its ack is in Redis |

Invariant: without tracing a lane's sink and link are handed on as they are. With it a frame costs one look at
its heads, and only what is sampled is an object; a frame of which the sink takes nothing begins no span.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import redis

from tidegate.contracts.ack import Ack
from tidegate.contracts.cursor import Cursor
from tidegate.contracts.frame import Frame, FrameKind
from tidegate.errors import ConfigError
from tidegate.lsn import Lsn, format_lsn
from tidegate.observability import logs
from tidegate.observability.trace_context import Sampler, TraceContext, new_span_id
from tidegate.observability.tracing import Span, Tracing, open_tracing
from tidegate.position import Position
from tidegate_processor.control import LaneLink
from tidegate_processor.sinks.base import Receipt, Sink

if TYPE_CHECKING:
    from tidegate.contracts.dead_letter import DeadLetter
    from tidegate_processor.commit import Delivery
    from tidegate_processor.stage import StageSettings

MOST_ON_THE_WAY = 4096
"""Sampled, and not yet acked."""
_SPANS_OF_ONE = 4


class Untraced:
    """Everything as it is."""

    def __init__(self, settings: "StageSettings") -> None:
        self._settings = settings

    def sink(self, sink: Sink) -> Sink:
        return sink

    def link(self, client: redis.Redis) -> LaneLink:
        return LaneLink(client, self._settings.config.pipeline, self._settings)

    def end(self) -> None:
        """Nothing more will come."""


@dataclass(slots=True)
class _Passing:
    """Times in Unix nanoseconds."""

    context: TraceContext
    xid: int
    taken: int
    written: int = 0
    committing: int = 0
    committed: int = 0
    frames: int = 0
    is_whole: bool = False
    """Its COMMIT has been seen."""
    is_written: bool = False
    """To the sink, in a transaction that is not committed."""


class Trail(Untraced):
    def __init__(self, settings: "StageSettings", tracing: Tracing, sampler: Sampler) -> None:
        from tidegate.columns.sampled import SampledScan  # kernels are loaded in a worker, and nowhere else

        super().__init__(settings)
        self.tracing = tracing
        self._scan = SampledScan(sampler)
        self._passing: dict[Lsn, _Passing] = {}

    def sink(self, sink: Sink) -> Sink:
        return _WatchedSink(sink, self)

    def link(self, client: redis.Redis) -> LaneLink:
        return _WatchedLink(client, self._settings, self)

    def end(self) -> None:
        self.tracing.close(0)

    def written(self, frame: Frame, after: Position, begun: int, receipt: Receipt) -> None:
        takes_some = bool(receipt.events or receipt.rejected)
        if not takes_some and not self._passing:
            return
        found, safe_lsn, now = self._scan.of(frame, after), frame.header.safe_lsn, time.time_ns()
        for lsn, xid, context in found:
            passing = self._passing.get(lsn)
            if passing is None and takes_some:
                passing = self._begun(lsn, xid, context, begun)
            if passing is not None:
                passing.frames += 1
                passing.written, passing.is_written = now, passing.is_written or takes_some
                # What commits before it ends at or below its LSN, so this one is among what is complete.
                passing.is_whole = safe_lsn > lsn

    def committed(self, begun: int) -> None:
        now = time.time_ns()
        for passing in self._passing.values():
            passing.committing, passing.committed, passing.is_written = begun, now, False

    def acked(self) -> None:
        now = time.time_ns()
        done = [lsn for lsn, each in self._passing.items() if each.is_whole and each.committed and not each.is_written]
        for lsn in done:
            self.tracing.give(self._spans(self._passing.pop(lsn), lsn, now))

    def forget(self) -> None:
        """What was not committed will be taken anew."""
        self._passing.clear()

    def _begun(self, lsn: Lsn, xid: int, context: TraceContext, begun: int) -> _Passing | None:
        if len(self._passing) >= MOST_ON_THE_WAY:
            self.tracing.drop(_SPANS_OF_ONE, "too many sampled transactions are on their way")
            return None
        passing = self._passing[lsn] = _Passing(context, xid, begun)
        return passing

    def _spans(self, passing: _Passing, lsn: Lsn, acked: int) -> list[Span]:
        trace_id, lane = passing.context.trace_id, new_span_id()
        attributes: dict[str, str | int] = {
            "tidegate.sink": self._settings.sink,
            "tidegate.incarnation": self._settings.incarnation,
            "tidegate.commit_lsn": format_lsn(lsn),
            "tidegate.xid": passing.xid,
            "tidegate.frames": passing.frames,
        }
        # Of what is cut, the last piece may have had nothing to be written of, and nothing to commit.
        committing, committed = max(passing.committing, passing.written), max(passing.committed, passing.written)
        steps = (
            ("written", passing.taken, passing.written),
            ("committed", committing, committed),
            ("acked", committed, acked),
        )
        return [
            Span("lane", trace_id, lane, passing.context.span_id, passing.taken, acked, attributes),
            *(Span(name, trace_id, new_span_id(), lane, start, end, {}) for name, start, end in steps),
        ]


def open_trail(settings: "StageSettings") -> Untraced:
    """In the worker. The driver has looked whether it can be; a worker elsewhere that can't delivers all the same."""
    config = settings.config
    try:
        tracing = open_tracing(config.tracing, "processor", config.pipeline)
    except ConfigError as error:
        logs.get(f"lane.{settings.sink}").warning("lane_untraced", code=error.code, remedy=error.remedy)
        return Untraced(settings)
    if tracing is None or config.tracing is None:
        return Untraced(settings)
    return Trail(settings, tracing, Sampler(config.tracing.ratio))


class _WatchedSink:
    def __init__(self, sink: Sink, trail: Trail) -> None:
        self.capabilities = sink.capabilities
        self._sink, self._trail = sink, trail

    def ping(self) -> None:
        self._sink.ping()

    def open(self) -> Cursor | None:
        return self._sink.open()

    def write(self, frame: Frame, after: Position) -> Receipt:
        begun = time.time_ns()
        receipt = self._sink.write(frame, after)
        if frame.header.kind is FrameKind.WAL and frame.header.messages:
            self._trail.written(frame, after, begun, receipt)
        return receipt

    def write_dead_letters(self, letters: "Sequence[DeadLetter]") -> None:
        self._sink.write_dead_letters(letters)

    def commit(self, cursor: Cursor) -> None:
        begun = time.time_ns()
        self._sink.commit(cursor)
        self._trail.committed(begun)

    def close(self) -> None:
        self._trail.forget()
        self._sink.close()


class _WatchedLink(LaneLink):
    def __init__(self, client: redis.Redis, settings: "StageSettings", trail: Trail) -> None:
        super().__init__(client, settings.config.pipeline, settings)
        self._trail = trail

    def acknowledge(self, ack: Ack | None) -> None:
        before = self._acked
        super().acknowledge(ack)
        if self._acked is not before:
            self._trail.acked()

    def _figures(self, delivery: "Delivery") -> dict[str, Any]:
        return super()._figures(delivery) | {"dropped_spans": self._trail.tracing.dropped}
