"""The SQL that reads rows: columns by name, pages by ctid, what a publication and a person leave out."""

from collections.abc import Sequence

from tidegate.contracts.snapshot_request import RowFilter
from tidegate.quoting import identifier, literal, qualified
from tidegate_reader.snapshot.pages import Heap, Pages

OLDEST_TID_RANGE = 140_000
"""Before, a condition on ctid reads the whole table for each range."""


def rows_of(
    heap: Heap, columns: Sequence[str], pages: Pages | None, where: Sequence[str | None], *, is_last: bool = False
) -> str:
    """`pages` none: all of it."""
    conditions = [f"({condition})" for condition in where if condition]
    if pages is not None:
        start, end = pages
        # No condition at all where nothing is left out: the plan is then the one that COPY of a table has.
        conditions += [f"ctid >= '({start},0)'::tid"] if start else []
        conditions += [] if is_last else [f"ctid < '({end},0)'::tid"]
    suffix = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    listed = ", ".join(map(identifier, columns))
    return f"SELECT {listed} FROM ONLY {qualified(heap.schema, heap.name)}{suffix}"  # noqa: S608 quoted


def moved_since(horizon: str) -> str:
    """Rows written by a transaction that an earlier reading may not have contained, wherever they lie now."""
    return f"age(xmin) <= age({literal(horizon)}::xid)"


def condition_of(filters: Sequence[RowFilter]) -> str | None:
    return " AND ".join(map(_comparison, filters)) or None


def _comparison(given: RowFilter) -> str:
    sign = {"!=": "<>"}.get(given.comparison.value, given.comparison.value).upper()
    value = "" if given.value is None else f" {literal(given.value)}"
    return f"{identifier(given.column)} {sign}{value}"
