"""Expressions over typed columns, all rows of a batch at once: values, and conditions with what is certain of each.

| a comparison is | may be true | may be false |
| --- | --- | --- |
| true | 1 | 0 |
| false | 0 | 1 |
| of NULL, so neither | 0 | 0 |
| of a value that was not sent, or that its type can't hold | 1 | 1 |

AND, OR and NOT work on the two bits as they do in SQL's three-valued logic, so that what is not known decides nothing
unless it must; a value is not known where a condition that chooses it is not, or the value that it chooses. Invariant:
numbers are compared exactly, floats as floats; texts by their code points.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.columns.cells import (
    Cells,
    ConditionError,
    all_alike,
    called,
    is_null,
    joined,
    literal,
    operated,
    text,
)
from tidegate.config.expression import (
    Call,
    Choose,
    Compare,
    Condition,
    IsNull,
    Junction,
    Like,
    Literal,
    Name,
    Not,
    Operate,
    Truth,
    Value,
)

_COMPARE: Final[Mapping[str, Callable[[pa.Array, pa.Array], pa.Array]]] = {
    "=": pc.equal,
    "<>": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}


@dataclass(frozen=True, slots=True)
class Verdict:
    may_be_true: np.ndarray
    may_be_false: np.ndarray

    @property
    def is_certain(self) -> np.ndarray:
        undecided: np.ndarray = self.may_be_true & self.may_be_false
        return ~undecided


class Batch:
    """So many rows, and the columns that expressions name."""

    def __init__(self, rows: int, column: Callable[[str], Cells]) -> None:
        self.rows, self.column = rows, column
        self.lost = np.zeros(rows, np.bool_)
        """Rows in which something came out that is beyond what is computed in."""

    def judge(self, condition: Condition) -> Verdict:
        match condition:
            case Compare():
                left, right = self._pair(condition.left, condition.right)
                return _verdict(_COMPARE[condition.operator](left.values, right.values), left.unknown | right.unknown)
            case IsNull():
                cells = self.value(condition.value)
                nulls = is_null(cells.values)
                return Verdict(nulls | cells.unknown, ~nulls | cells.unknown)
            case Like():
                cells = text(self.value(condition.value))
                return _verdict(pc.match_like(cells.values, condition.pattern), cells.unknown)
            case Truth():
                cells = self.value(condition.value)
                if not pa.types.is_boolean(cells.values.type):
                    raise ConditionError("only a boolean column is a condition by itself")
                return _verdict(cells.values, cells.unknown)
            case Not():
                inner = self.judge(condition.condition)
                return Verdict(inner.may_be_false, inner.may_be_true)
            case Junction():
                verdicts = [self.judge(each) for each in condition.conditions]
                trues, falses = [each.may_be_true for each in verdicts], [each.may_be_false for each in verdicts]
                if condition.is_and:
                    return Verdict(np.logical_and.reduce(trues), np.logical_or.reduce(falses))
                return Verdict(np.logical_or.reduce(trues), np.logical_and.reduce(falses))

    def value(self, value: Value) -> Cells:
        match value:
            case Name():
                return self.column(value.column)
            case Literal():
                return literal(value, self.rows)
            case Operate(operator="||"):
                return joined(self.value(value.left), self.value(value.right))
            case Operate():
                left, right = self._pair(value.left, value.right)
                made = operated(value.operator, left, right)
                self.lost |= made.unknown & ~(left.unknown | right.unknown)
                return made
            case Choose():
                return self._chosen(value)
            case Call(function="coalesce"):
                return self._first_known(value.arguments)
            case Call(function="nullif"):
                left, right = self._pair(*value.arguments)
                is_equal = pc.fill_null(pc.equal(left.values, right.values), False)
                return Cells(pc.if_else(is_equal, None, left.values), left.unknown | right.unknown)
            case Call():
                literals = [each for each in value.arguments[1:] if isinstance(each, Literal)]
                return called(value.function, self.value(value.arguments[0]), literals)

    def _pair(self, left: Value, right: Value) -> tuple[Cells, Cells]:
        if isinstance(left, Literal) and isinstance(right, Literal):
            raise ConditionError("two literals are compared or put together")
        one, other = self._alike((left, right))
        return one, other

    def _alike(self, values: Sequence[Value]) -> list[Cells]:
        """All of one kind; a literal becomes what it stands beside. Each is computed once: they nest."""
        computed = {at: self.value(each) for at, each in enumerate(values) if not isinstance(each, Literal)}
        beside = next((cells.values.type for cells in computed.values()), None)
        return all_alike(
            [
                literal(each, self.rows, beside) if isinstance(each, Literal) else computed[at]
                for at, each in enumerate(values)
            ]
        )

    def _first_known(self, values: Sequence[Value]) -> Cells:
        cells = self._alike(values)
        made, unknown, is_open = cells[-1].values, np.zeros(self.rows, np.bool_), np.ones(self.rows, np.bool_)
        for each in reversed(cells[:-1]):
            made = pc.if_else(pa.array(is_null(each.values)), made, each.values)
        for each in cells:
            unknown |= is_open & each.unknown
            is_open &= is_null(each.values) & ~each.unknown
        return Cells(pc.if_else(pa.array(unknown), None, made), unknown)

    def _chosen(self, choice: Choose) -> Cells:
        values = [value for _, value in choice.cases]
        cells = self._alike(values if choice.otherwise is None else [*values, choice.otherwise])
        is_open, unknown = np.ones(self.rows, np.bool_), np.zeros(self.rows, np.bool_)
        made = pa.nulls(self.rows, cells[0].values.type)
        for (condition, _), each in zip(choice.cases, cells, strict=False):
            verdict = self.judge(condition)
            unknown |= is_open & ~verdict.is_certain
            is_taken = is_open & verdict.may_be_true & verdict.is_certain
            made = pc.if_else(pa.array(is_taken), each.values, made)
            unknown |= is_taken & each.unknown
            is_open &= ~is_taken & verdict.is_certain
        if choice.otherwise is not None:
            made = pc.if_else(pa.array(is_open), cells[-1].values, made)
            unknown |= is_open & cells[-1].unknown
        return Cells(pc.if_else(pa.array(unknown), None, made), unknown)


def _verdict(truth: pa.Array, unknown: np.ndarray) -> Verdict:
    nulls = is_null(truth)
    is_true = np.asarray(pc.fill_null(truth, False), np.bool_)
    return Verdict(is_true & ~nulls | unknown, ~is_true & ~nulls | unknown)
