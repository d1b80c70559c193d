"""Which rows of a frame a condition leaves out: judged in columns, all rows of a relation at once.

Only the columns that a condition names are decoded. Of a delete the old row is judged, of any other change the new one;
a truncate has none and is not judged. Invariant: a row is left out only if that is certain: one whose values were not
sent passes, and one whose values can't be compared is refused, not guessed at.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tidegate.columns.batches import FrameDecoder
from tidegate.columns.cast_columns import Cast
from tidegate.columns.cells import ConditionError
from tidegate.columns.conditions import Batch
from tidegate.columns.envelopes import LETTERS, EventSource
from tidegate.columns.typed import Caster
from tidegate.config.expression import Condition, columns_of
from tidegate.contracts.frame import Frame
from tidegate.errors import ConfigError, RecordError
from tidegate.events import Operation
from tidegate.pgoutput.messages import Relation, Type
from tidegate.pgoutput.rewrite import Writer, Written
from tidegate.position import Position


@dataclass(frozen=True, slots=True)
class RowFilter:
    means: Callable[[str, str], bool]
    """By schema and table."""
    operations: frozenset[Operation]
    keeps: bool
    """Whether it keeps what matches, or leaves that out."""
    condition: Condition


class Judged(NamedTuple):
    left_out: np.ndarray
    """Of the frame's wanted changes."""
    refused: list[tuple[int, RecordError]]


class RowFilters:
    """Of one lane. Not for two threads at once."""

    def __init__(self, filters: Sequence[RowFilter]) -> None:
        self._filters = filters
        self._decoder = FrameDecoder(EventSource("", "", 0))
        self._caster = Caster()

    def mean(self, relation: Relation) -> bool:
        return any(True for _ in self._of(relation))

    def needed(self, relation: Relation, _: Mapping[int, Type], is_strict: bool) -> Sequence[Written]:
        """The columns that are looked at; the others need not be decoded. Which are of the key stays as it is."""
        names = frozenset().union(*(columns_of(each.condition) for each in self._of(relation)))
        missing = sorted(names.difference(column.name for column in relation.columns))
        if missing and is_strict:
            raise ConfigError(
                f"{relation.schema}.{relation.name} has no column {missing[0]} that a filter names",
                code="TRANSFORM_COLUMN_MISSING",
                remedy="Mend the name, or give the filter tables that have the column.",
            )
        return [Written(column, Writer.COPY if column.name in names else Writer.DROP) for column in relation.columns]

    def judge(self, frame: Frame, after: Position, wanted: np.ndarray, changes: int) -> Judged:
        """`frame` with the needed columns alone; `wanted` and how many changes there are, as in the whole one."""
        judged = Judged(np.zeros(changes, np.bool_), [])
        for batch, places in self._decoder.placed(frame, after, wanted, self.mean):
            is_delete = np.asarray(batch.rows.column(0)) == ord(LETTERS[Operation.DELETE])
            columns = Cast(batch, self._caster.cast(batch), is_delete)
            for each in self._of(batch.shape.relation):
                _apply(each, columns, places, judged)
        return judged

    def _of(self, relation: Relation) -> Iterator[RowFilter]:
        """None of a relation without columns: a row of it holds nothing to judge by."""
        return (each for each in self._filters if relation.columns and each.means(relation.schema, relation.name))


def _apply(filter_: RowFilter, columns: Cast, places: np.ndarray, judged: Judged) -> None:
    relation = columns.shape.relation
    name = f"{relation.schema}.{relation.name}"
    letters = [ord(LETTERS[each]) for each in filter_.operations if each in LETTERS and each is not Operation.TRUNCATE]
    is_meant = np.isin(columns.operations, letters)
    columns.uncomparable[:] = False
    batch = Batch(len(places), columns)
    try:
        verdict = batch.judge(filter_.condition)
    except ConditionError as error:
        raise ConfigError(
            f"a filter's condition does not fit {name}: {error}",
            code="TRANSFORM_CONDITION",
            remedy="Compare each column with a value of its own type; docs/reference/transforms.md says how.",
        ) from None
    goes = ~verdict.may_be_true if filter_.keeps else verdict.may_be_true & ~verdict.may_be_false
    judged.left_out[places[is_meant & goes]] = True
    for place in places[is_meant & ~verdict.is_certain & (columns.uncomparable | batch.lost)].tolist():
        if not judged.left_out[place]:
            judged.left_out[place] = True
            judged.refused.append((place, _uncomparable(name)))


def _uncomparable(name: str) -> RecordError:
    return RecordError(
        f"a value in {name} can't be compared as a filter's condition asks",
        code="FILTER_UNDECIDED",
        remedy="It is beyond what its type can be compared in (NaN, infinity, years beyond all calendars). Add IS NULL "
        "or another condition that decides about it, and replay it.",
    )
