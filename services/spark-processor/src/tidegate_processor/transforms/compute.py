"""Columns that are computed of those that the verbs before left. No verb itself: a value needs rows, not a shape."""

from collections.abc import Callable

from tidegate.columns.computed import FrameComputer
from tidegate.columns.snapshots import Takes
from tidegate.config.transforms import ComputeOptions, Missing, Transform, options_of
from tidegate.events import Operation
from tidegate_processor.transforms.base import exactly_named


def computer(transform: Transform, takes: Takes, *, marks_fit: bool) -> FrameComputer:
    options = options_of(transform)
    assert isinstance(options, ComputeOptions)
    return FrameComputer(_means(options, takes), takes, options.values, marks_fit=marks_fit)


def _means(options: ComputeOptions, takes: Takes) -> Callable[[str, str], bool | None]:
    def means(schema: str, table: str) -> bool | None:
        """A table that the sink takes nothing of is left alone."""
        is_exact = exactly_named(options.tables, schema, table)
        if is_exact is None or not any(takes(schema, table, operation) for operation in Operation):
            return None
        return is_exact and options.missing is Missing.STOP

    return means
