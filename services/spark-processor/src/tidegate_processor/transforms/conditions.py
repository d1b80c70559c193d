"""The filters of a lane that have a condition, and so look into rows."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tidegate.config.expression_text import parse
from tidegate.config.transforms import FilterAction, FilterOptions, Transform, options_of
from tidegate.events import Operation

if TYPE_CHECKING:  # kernels are loaded where frames are decoded, in a worker, and nowhere else
    from tidegate.columns.row_filters import RowFilter
    from tidegate.columns.snapshots import Takes


def row_filters(transforms: Iterable[Transform], takes: "Takes") -> "list[RowFilter]":
    """Of a table that the sink takes nothing of, a condition need not fit."""
    from tidegate.columns.row_filters import RowFilter

    def made(options: FilterOptions, condition: str) -> RowFilter:
        def means(schema: str, table: str) -> bool:
            return options.means(schema, table) and any(takes(schema, table, each) for each in Operation)

        keeps = options.action is FilterAction.KEEP
        return RowFilter(means, frozenset(options.operations), keeps, parse(condition))

    filters = (each for each in map(options_of, transforms) if isinstance(each, FilterOptions))
    return [made(each, each.where) for each in filters if each.where is not None]
