"""A sink behind its lane's transforms: it is given frames in which they have been applied, and knows nothing of them.

Invariant: nothing reaches the sink but through the transforms. A dead letter holds the change as it was received, so
that a replay transforms it anew; but of a table that is masked or that columns are dropped of, it holds only where the
change stands in the raw topic: whoever may read dead letters must not thereby read what the sink must not.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tidegate.config.schema_policy import SchemaChangePolicy
from tidegate.config.sinks import SinkConfig
from tidegate.config.values import ToastPolicy
from tidegate.contracts.cursor import Cursor
from tidegate.contracts.frame import Frame
from tidegate.pgoutput.shape_changes import ShapeChangeKind
from tidegate.position import Position
from tidegate_processor.sinks.base import Capabilities, Receipt, Sink
from tidegate_processor.toast import PreviousValues

if TYPE_CHECKING:  # kernels are loaded where frames are decoded, in a worker, and nowhere else
    from tidegate.contracts.dead_letter import DeadLetter
    from tidegate_processor.transform_steps import Steps


def is_transformed(lane: SinkConfig) -> bool:
    return bool(lane.transforms) or lane.toast is not ToastPolicy.MARK


class TransformedSink:
    def __init__(self, sink: Sink, lane: SinkConfig) -> None:
        self.capabilities: Capabilities = sink.capabilities
        self._sink, self._lane = sink, lane
        # A mark may lead into a shape that the lane refuses, and what a transform names need not be there.
        self._marks_fit = SchemaChangePolicy.DEAD_LETTER not in map(lane.schema_changes.policy, ShapeChangeKind)
        self._previous = PreviousValues(lane.takes) if lane.toast is ToastPolicy.PREVIOUS else None
        self._made: Steps | None = None

    def ping(self) -> None:
        self._sink.ping()

    def open(self) -> Cursor | None:
        return self._sink.open()

    def write(self, frame: Frame, after: Position) -> Receipt:
        if self._previous is not None:
            frame = self._previous.fill(frame, after)
        steps = self._steps()
        made = steps.rewrite(frame, after)
        receipt = self._sink.write(made.frame, after)
        if not receipt.rejected and not made.rejected:
            return receipt
        refused = (steps.as_received(frame, each) for each in receipt.rejected)
        return replace(receipt, rejected=(*made.rejected, *refused))

    def write_dead_letters(self, letters: "Sequence[DeadLetter]") -> None:
        self._sink.write_dead_letters(letters)

    def commit(self, cursor: Cursor) -> None:
        self._sink.commit(cursor)

    def close(self) -> None:
        self._sink.close()

    def _steps(self) -> "Steps":
        if self._made is None:
            from tidegate_processor.transform_steps import Steps

            self._made = Steps(self._lane, marks_fit=self._marks_fit)
        return self._made
