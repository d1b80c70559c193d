"""A lane's transforms as steps from frame to frame: columns and rows rewritten, then what is computed of what is left.

    verbs on columns before the first compute, filters ─▶ compute ─▶ verbs behind it ─▶ compute …

Verbs that stand side by side are one step, so that a lane that computes nothing has one. Invariant: a computed value is
made of what those before left, so that no mask before it can be got around.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tidegate.columns.computed import FrameComputer
from tidegate.columns.refusals import RejectedChange
from tidegate.columns.rewrites import FrameRewriter, Rewritten
from tidegate.config.sinks import SinkConfig
from tidegate.config.transforms import Transform, Verb
from tidegate.config.values import ToastPolicy
from tidegate.contracts.frame import Frame
from tidegate.position import Position
from tidegate_processor.transforms.compute import computer
from tidegate_processor.transforms.conditions import row_filters
from tidegate_processor.transforms.registry import ColumnPlan, column_verbs


class Steps:
    """Of one lane. Not for two threads at once."""

    def __init__(self, lane: SinkConfig, *, marks_fit: bool) -> None:
        before, *behind = _runs(lane.transforms)
        self._first = FrameRewriter(
            ColumnPlan(column_verbs(before), lane.takes),
            lane.takes,
            row_filters(lane.transforms, lane.takes),
            requires_full=lane.toast is ToastPolicy.REQUIRE_FULL,
            marks_fit=marks_fit,
        )
        self._later: list[FrameComputer | FrameRewriter] = []
        for compute, *transforms in behind:
            self._later.append(computer(compute, lane.takes, marks_fit=marks_fit))
            if verbs := column_verbs(transforms):
                self._later.append(FrameRewriter(ColumnPlan(verbs, lane.takes), lane.takes, marks_fit=marks_fit))

    def rewrite(self, frame: Frame, after: Position) -> Rewritten:
        made = self._first.rewrite(frame, after)
        letters = [*made.rejected]
        for step in self._later:
            made = step.rewrite(made.frame, after)
            letters += [self.as_received(frame, each) for each in made.rejected]
        return Rewritten(made.frame, tuple(letters))

    def as_received(self, frame: Frame, refused: RejectedChange) -> RejectedChange:
        """Of a relation whose rows are made others behind the first step, too, nothing is left but its names."""
        found = self._first.as_received(frame, refused)
        if any(isinstance(step, FrameRewriter) or step.mean(found.shape.relation) for step in self._later):
            return replace(found, shape=replace(found.shape, source=()), raw=b"")
        return found


def _runs(transforms: Sequence[Transform]) -> Iterator[list[Transform]]:
    """Those before the first compute, then each compute with what stands behind it."""
    run: list[Transform] = []
    for transform in transforms:
        if transform.type == Verb.COMPUTE:
            yield run
            run = []
        run.append(transform)
    yield run
