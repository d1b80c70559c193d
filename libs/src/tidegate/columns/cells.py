"""Columns of values of one kind each, and what may be done to them: compared, joined, added, put through a function.

Kinds are number (exact), float, text, boolean and time; nothing becomes another kind by itself but a number beside a
float. Invariant: a cell is a value, NULL, or not known; what is not known stays so through whatever is made of it, and
arithmetic is exact or not known.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.config.expression import Literal

NUMBER: Final = pa.decimal256(76, 38)
FACTOR: Final = pa.decimal256(37, 18)
"""Two of these have a product and a sum that Arrow holds exactly."""
_TEXT: Final = pa.large_string()


class ConditionError(ValueError):
    """An expression that these types of columns do not allow."""


@dataclass(frozen=True, slots=True)
class Cells:
    """The values of one column, or what is made of them."""

    values: pa.Array
    unknown: np.ndarray
    """Not sent, or beyond the type; null in `values`."""


def kind(type_: pa.DataType) -> str:
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


def is_null(values: pa.Array) -> np.ndarray:
    return np.asarray(pc.is_null(values), np.bool_)


def as_number(cells: Cells) -> Cells:
    """Exact. What no decimal of 76 digits holds (NaN, infinity, 1e300) is not known."""
    return _exactly(cells, NUMBER)


def _exactly(cells: Cells, type_: pa.DataType) -> Cells:
    try:
        return Cells(pc.cast(cells.values, type_), cells.unknown)
    except pa.ArrowInvalid:
        made = [_decimal(value, type_) for value in cells.values.to_pylist()]
        values = pa.array(made, type_)
        is_lost = np.array([value is None for value in made], np.bool_) & ~is_null(cells.values)
        return Cells(values, cells.unknown | is_lost)


def _decimal(value: object, type_: pa.DataType) -> Decimal | None:
    try:
        number = Decimal(str(value))
        return pa.scalar(number, type_).as_py() if value is not None and number.is_finite() else None
    except (InvalidOperation, pa.ArrowInvalid):
        return None


def literal(given: Literal, rows: int, beside: pa.DataType | None = None) -> Cells:
    """Of the kind that its words have; beside a float or a time, of that."""
    value: object = given.value
    if isinstance(value, Decimal):
        wanted = pa.float64() if beside is not None and pa.types.is_floating(beside) else NUMBER
        value = float(value) if pa.types.is_floating(wanted) else value
    elif isinstance(value, bool):
        wanted = pa.bool_()
    else:
        wanted = beside if beside is not None and _is_time(beside) else _TEXT
    try:
        scalar = pa.scalar(value, _TEXT).cast(wanted) if _is_time(wanted) else pa.scalar(value, wanted)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise ConditionError("a literal is no value of what it is compared with") from None
    return Cells(pa.repeat(scalar, rows), np.zeros(rows, np.bool_))


def alike(left: Cells, right: Cells) -> tuple[Cells, Cells]:
    kinds = [kind(each.values.type) for each in (left, right)]
    if kinds[0] != kinds[1]:
        if set(kinds) == {"number", "float"}:
            return _as_float(left), _as_float(right)
        raise ConditionError("values of different kinds are compared or put together")
    if kinds[0] == "other":
        raise ConditionError("values of this type are not compared; IS NULL is all there is")
    if kinds[0] == "float":
        return _as_float(left), _as_float(right)
    if kinds[0] == "time" and left.values.type != right.values.type:
        raise ConditionError("dates and times of different types are compared or put together")
    return left, right


def all_alike(cells: Sequence[Cells]) -> list[Cells]:
    """A float among numbers makes floats of them."""
    model = next((each for each in cells if kind(each.values.type) == "float"), cells[0])
    return [alike(each, model)[0] for each in cells]


def _as_float(cells: Cells) -> Cells:
    return Cells(pc.cast(cells.values, pa.float64(), safe=False), cells.unknown)


def text(cells: Cells) -> Cells:
    if kind(cells.values.type) != "text":
        raise ConditionError("a text was expected")
    return cells


def joined(left: Cells, right: Cells) -> Cells:
    """`||`: texts, and what has one form only as text."""
    one, other = (written(each) for each in (left, right))
    return Cells(pc.binary_join_element_wise(one, other, pa.scalar("", _TEXT)), left.unknown | right.unknown)


def operated(operator: str, left: Cells, right: Cells) -> Cells:
    """`+`, `-`, `*`. Numbers have up to 19 digits before the point and 18 behind; others are not known."""
    left, right = alike(left, right)
    match kind(left.values.type):
        case "number":
            return _exact(operator, left, right)
        case "float":
            return _floating(operator, left, right)
        case _:
            raise ConditionError("a number was expected")


_EXACT: Final[Mapping[str, Callable[[pa.Array, pa.Array], pa.Array]]] = {
    "+": pc.add,
    "-": pc.subtract,
    "*": pc.multiply,
}


def _exact(operator: str, left: Cells, right: Cells) -> Cells:
    left, right = _exactly(left, FACTOR), _exactly(right, FACTOR)
    made = _EXACT[operator](left.values, right.values)
    return Cells(pc.cast(made, NUMBER), left.unknown | right.unknown)


def _floating(operator: str, left: Cells, right: Cells) -> Cells:
    made = _EXACT[operator](left.values, right.values)
    was_finite = np.asarray(pc.fill_null(pc.and_(pc.is_finite(left.values), pc.is_finite(right.values)), False))
    is_lost = was_finite & ~np.asarray(pc.fill_null(pc.is_finite(made), False))
    return Cells(pc.if_else(pa.array(is_lost), None, made), left.unknown | right.unknown | is_lost)


def written(cells: Cells) -> pa.Array:
    """As PostgreSQL writes it, but that a number has no zeros behind that say nothing."""
    values = cells.values
    match kind(values.type):
        case "text":
            return values
        case "boolean":
            return pc.if_else(values, pa.scalar("true", _TEXT), pa.scalar("false", _TEXT))
        case "number":
            return _digits(values)
        case "float":
            texts = pc.cast(pc.cast(values, pa.float64()), _TEXT)
            for ours, theirs in (("inf", "Infinity"), ("nan", "NaN")):
                texts = pc.replace_substring(texts, ours, theirs)
            return texts
        case _:
            raise ConditionError("only texts, numbers and booleans can be put together or be what comes out")


def _digits(numbers: pa.Array) -> pa.Array:
    texts = pc.replace_substring_regex(pc.cast(pc.cast(numbers, pa.string()), _TEXT), r"(\.\d*?)0+$", r"\1")
    texts = pc.utf8_rtrim(texts, ".")
    small = np.asarray(pc.fill_null(pc.match_substring(texts, "E"), False))  # below a millionth, and 0
    if not small.any():
        return texts
    made = np.asarray(texts, object)
    for place in np.flatnonzero(small).tolist():
        made[place] = f"{numbers[place].as_py():f}".rstrip("0").rstrip(".")
    return pa.array(made, _TEXT)


def called(function: str, first: Cells, literals: Sequence[Literal]) -> Cells:
    """A function of one column, with what its literals say."""
    options = [each.value for each in literals]
    match function:
        case "abs":
            made = pc.abs(_number(first).values)
        case "round":
            made = pc.round(_number(first).values, _whole(options[0], 18) if options else 0, "half_towards_infinity")
        case "length":
            made = pc.cast(pc.utf8_length(text(first).values), NUMBER)
        case "lower":
            made = pc.utf8_lower(text(first).values)
        case "upper":
            made = pc.utf8_upper(text(first).values)
        case "trim":
            made = pc.utf8_trim_whitespace(text(first).values)
        case "replace":
            made = pc.replace_substring(text(first).values, _sought(options[0]), _word(options[1]))
        case _:
            made = _part(text(first).values, [_whole(each, 2**30) for each in options])
    return Cells(made, first.unknown)


def _part(values: pa.Array, place: Sequence[int]) -> pa.Array:
    """`substr`: from the first character on, which is number 1."""
    start = place[0] - 1
    if start < 0:
        raise ConditionError("substr counts characters from 1")
    return pc.utf8_slice_codeunits(values, start, start + place[1] if len(place) > 1 else None)


def _whole(value: object, most: int) -> int:
    if not isinstance(value, Decimal) or value != value.to_integral_value() or not 0 <= value <= most:
        raise ConditionError(f"a whole number from 0 to {most} was expected")
    return int(value)


def _word(value: object) -> str:
    if not isinstance(value, str):
        raise ConditionError("a text was expected")
    return value


def _sought(value: object) -> str:
    found = _word(value)
    if not found:
        raise ConditionError("replace looks for a text, and an empty one is everywhere")
    return found


def _number(cells: Cells) -> Cells:
    if kind(cells.values.type) not in ("number", "float"):
        raise ConditionError("a number was expected")
    return cells
