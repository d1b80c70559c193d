"""Conditions over typed columns, all rows of a batch at once: what may be true of each row, what may be false, and why.

| a comparison is | may be true | may be false |
| --- | --- | --- |
| true | 1 | 0 |
| false | 0 | 1 |
| of NULL, so neither | 0 | 0 |
| of a value that was not sent, or that its type can't hold | 1 | 1 |

AND, OR and NOT work on the two bits as they do in SQL's three-valued logic, so that what is not known decides nothing
unless it must. Invariant: numbers are compared exactly, floats as floats; texts by their code points.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.config.expression import (
    Call,
    Compare,
    Condition,
    IsNull,
    Junction,
    Like,
    Literal,
    Name,
    Not,
    Truth,
    Value,
)

_NUMBER: Final = pa.decimal256(76, 38)
_COMPARE: Final[Mapping[str, Callable[[pa.Array, pa.Array], pa.Array]]] = {
    "=": pc.equal,
    "<>": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
_FUNCTIONS: Final[Mapping[str, Callable[[pa.Array], pa.Array]]] = {
    "abs": pc.abs,
    "length": lambda values: pc.cast(pc.utf8_length(values), _NUMBER),
    "lower": pc.utf8_lower,
    "trim": pc.utf8_trim_whitespace,
    "upper": pc.utf8_upper,
}
_OF_NUMBERS: Final = frozenset({"abs"})


class ConditionError(ValueError):
    """A condition that these types of columns do not allow."""


@dataclass(frozen=True, slots=True)
class Cells:
    """The values of one column, or what is made of them."""

    values: pa.Array
    unknown: np.ndarray
    """Not sent, or beyond the type; null in `values`."""


@dataclass(frozen=True, slots=True)
class Verdict:
    may_be_true: np.ndarray
    may_be_false: np.ndarray


def as_number(cells: Cells) -> Cells:
    """Exact. What no decimal of 76 digits holds (NaN, infinity, 1e300) is not known."""
    try:
        return Cells(pc.cast(cells.values, _NUMBER), cells.unknown)
    except pa.ArrowInvalid:
        made = [_decimal(value) for value in cells.values.to_pylist()]
        values = pa.array(made, _NUMBER)
        is_lost = np.array([value is None for value in made], np.bool_) & ~_is_null(cells.values)
        return Cells(values, cells.unknown | is_lost)


def _decimal(value: object) -> Decimal | None:
    try:
        number = Decimal(str(value))
        return pa.scalar(number, _NUMBER).as_py() if value is not None and number.is_finite() else None
    except (InvalidOperation, pa.ArrowInvalid):
        return None


def judge(condition: Condition, rows: int, column: Callable[[str], Cells]) -> Verdict:
    match condition:
        case Compare():
            return _compare(condition, rows, column)
        case IsNull():
            cells = _cells(condition.value, rows, column)
            is_null = _is_null(cells.values)
            return Verdict(is_null | cells.unknown, ~is_null | cells.unknown)
        case Like():
            cells = _text(_cells(condition.value, rows, column))
            return _verdict(pc.match_like(cells.values, condition.pattern), cells.unknown)
        case Truth():
            cells = _cells(condition.value, rows, column)
            if not pa.types.is_boolean(cells.values.type):
                raise ConditionError("only a boolean column is a condition by itself")
            return _verdict(cells.values, cells.unknown)
        case Not():
            inner = judge(condition.condition, rows, column)
            return Verdict(inner.may_be_false, inner.may_be_true)
        case Junction():
            verdicts = [judge(each, rows, column) for each in condition.conditions]
            trues, falses = [each.may_be_true for each in verdicts], [each.may_be_false for each in verdicts]
            if condition.is_and:
                return Verdict(np.logical_and.reduce(trues), np.logical_or.reduce(falses))
            return Verdict(np.logical_or.reduce(trues), np.logical_and.reduce(falses))


def _compare(condition: Compare, rows: int, column: Callable[[str], Cells]) -> Verdict:
    left, right = (_operand(each, rows, column) for each in (condition.left, condition.right))
    if left is None or right is None:
        literal = condition.left if left is None else condition.right
        other = right if left is None else left
        if other is None or not isinstance(literal, Literal):
            raise ConditionError("two literals are compared")
        made = _literal(literal, rows, other.values.type)
        left, right = (made, other) if left is None else (other, made)
    left, right = _alike(left, right)
    return _verdict(_COMPARE[condition.operator](left.values, right.values), left.unknown | right.unknown)


def _operand(value: Value, rows: int, column: Callable[[str], Cells]) -> Cells | None:
    """None: a literal, which becomes what it is compared with."""
    return None if isinstance(value, Literal) else _cells(value, rows, column)


def _cells(value: Value, rows: int, column: Callable[[str], Cells]) -> Cells:
    match value:
        case Name():
            return column(value.column)
        case Call():
            inner = _cells(value.argument, rows, column)
            inner = _number(inner) if value.function in _OF_NUMBERS else _text(inner)
            return Cells(_FUNCTIONS[value.function](inner.values), inner.unknown)
        case Literal():
            return _literal(value, rows, None)


def _literal(literal: Literal, rows: int, type_: pa.DataType | None) -> Cells:
    value = literal.value
    nothing = np.zeros(rows, np.bool_)
    if isinstance(value, Decimal):
        wanted = pa.float64() if type_ is not None and pa.types.is_floating(type_) else _NUMBER
        given: object = float(value) if pa.types.is_floating(wanted) else value
    elif isinstance(value, bool):
        wanted, given = pa.bool_(), value
    else:
        wanted = type_ if type_ is not None and _is_time(type_) else pa.large_string()
        given = value
    try:
        scalar = pa.scalar(given, pa.large_string()).cast(wanted) if _is_time(wanted) else pa.scalar(given, wanted)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise ConditionError("a literal is no value of what it is compared with") from None
    return Cells(pa.repeat(scalar, rows), nothing)


def _alike(left: Cells, right: Cells) -> tuple[Cells, Cells]:
    kinds = [_kind(each.values.type) for each in (left, right)]
    if kinds[0] != kinds[1]:
        if set(kinds) == {"number", "float"}:
            return _float(left), _float(right)
        raise ConditionError("values of different kinds are compared")
    if kinds[0] == "other":
        raise ConditionError("values of this type are not compared; IS NULL is all there is")
    if kinds[0] == "time" and left.values.type != right.values.type:
        raise ConditionError("dates and times of different types are compared")
    return left, right


def _kind(type_: pa.DataType) -> str:
    if pa.types.is_decimal(type_):
        return "number"
    if pa.types.is_floating(type_):
        return "float"
    if pa.types.is_large_string(type_):
        return "text"
    if pa.types.is_boolean(type_):
        return "boolean"
    return "time" if _is_time(type_) else "other"


def _is_time(type_: pa.DataType) -> bool:
    return bool(pa.types.is_date(type_) or pa.types.is_timestamp(type_) or pa.types.is_time(type_))


def _float(cells: Cells) -> Cells:
    return Cells(pc.cast(cells.values, pa.float64(), safe=False), cells.unknown)


def _text(cells: Cells) -> Cells:
    if not pa.types.is_large_string(cells.values.type):
        raise ConditionError("a text was expected")
    return cells


def _number(cells: Cells) -> Cells:
    if _kind(cells.values.type) not in ("number", "float"):
        raise ConditionError("a number was expected")
    return cells


def _verdict(truth: pa.Array, unknown: np.ndarray) -> Verdict:
    is_null = _is_null(truth)
    is_true = np.asarray(pc.fill_null(truth, False), np.bool_)
    return Verdict(is_true & ~is_null | unknown, ~is_true & ~is_null | unknown)


def _is_null(values: pa.Array) -> np.ndarray:
    return np.asarray(pc.is_null(values), np.bool_)
