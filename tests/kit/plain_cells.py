"""PostgreSQL's text to the one value that a typed column must hold, in plain Python: what `plain_casts` is made of.

Invariant: a value, or Beyond is raised where the type has no such value; in the terms of `pa.Array.to_pylist`, but for
times, which are numbers here: Python's own have neither years BC nor beyond 9999.
"""

import re
from collections.abc import Callable
from datetime import date
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any
from uuid import UUID

import numpy as np

from tidegate.columns.cast_kernels import Cell
from tidegate.columns.casts import Cast


class Beyond(ValueError):
    """The type can't hold this text."""


def matched(pattern: str, text: str) -> re.Match[str]:
    found = re.fullmatch(pattern, text, re.ASCII | re.DOTALL)
    if found is None:
        raise Beyond
    return found


def _ascii(text: bytes) -> str:
    return text.decode("ascii")


def _bool(text: bytes, _: Cast) -> bool:
    return {"t": True, "f": False}[matched("[tf]", _ascii(text)).group()]


def _integer(text: bytes, cast: Cast) -> int:
    number = int(matched(r"-?\d{1,19}", _ascii(text)).group())
    if not cast.low <= number <= cast.high:
        raise Beyond
    return number


def _float(text: bytes, cast: Cast) -> float:
    """The nearest of all floats of that width: Python parses doubles rightly, floats are searched among neighbours."""
    plain = matched(r"(?:-?(?:\d+(?:\.\d+)?(?:e[+-]?\d{1,3})?|Infinity)|NaN)", _ascii(text)).group()
    double = float(plain)
    if plain.lstrip("-")[:1] in "IN":
        return double
    if cast.type.bit_width == 32:
        double = _nearest_single(Fraction(plain), plain.startswith("-"))
    if np.isinf(double) or (double == 0 and Fraction(plain) != 0):
        raise Beyond
    return double


def _nearest_single(exact: Fraction, negative: bool) -> float:
    magnitude = abs(exact)
    if magnitude >= Fraction(2**128) - Fraction(2**103):
        raise Beyond
    near = int(np.float32(float(min(magnitude, Fraction(2**128 - 2**104)))).view(np.int32))
    around = [float(np.int32(bits).view(np.float32)) for bits in (near - 1, near, near + 1) if 0 <= bits < 0x7F800000]
    best = min(around, key=lambda each: (abs(Fraction(each) - magnitude), np.float32(each).view(np.int32) & 1))
    return -best if negative else best


def _decimal(text: bytes, cast: Cast) -> Decimal:
    plain = matched(r"-?\d+(?:\.\d+)?", _ascii(text)).group()
    exact = Fraction(plain)
    digits = len(plain.lstrip("-").replace(".", "").lstrip("0")) + cast.scale - len(plain.partition(".")[2])
    if len(plain.partition(".")[2]) > cast.scale or (digits > cast.precision and exact != 0):
        raise Beyond
    unscaled = int(exact * 10**cast.scale)
    return Decimal(unscaled).scaleb(-cast.scale, Context(prec=200))


def _days(plain: str) -> int:
    year, month, day = matched(r"(\d{4,7})-(\d\d)-(\d\d)(?: BC)?", plain).group(1, 2, 3)
    if int(year) == 0:
        raise Beyond
    number = 1 - int(year) if plain.endswith("BC") else int(year)
    # The calendar repeats after 400 years of 146,097 days.
    cycles, of_cycle = divmod(number, 400)
    try:
        return (
            date(of_cycle + 400, int(month), int(day)).toordinal()
            - date(1970, 1, 1).toordinal()
            + (cycles - 1) * 146_097
        )
    except ValueError:
        raise Beyond from None


def _date(text: bytes, _: Cast) -> int:
    return _days(_ascii(text))


_CLOCK = r"(\d{2,7}):([0-5]\d):([0-5]\d)(?:\.(\d{1,6}))?"


def _clock(plain: str) -> int:
    hours, minutes, seconds, fraction = matched(_CLOCK, plain).groups()
    whole = (int(hours) * 60 + int(minutes)) * 60 + int(seconds)
    return whole * 10**6 + int((fraction or "").ljust(6, "0"))


def _time(text: bytes, _: Cast) -> int:
    time = _clock(matched(r"\d\d:.*", _ascii(text)).group())
    if time >= 86_400 * 10**6:
        raise Beyond
    return time


def _instant(text: bytes, cast: Cast) -> int:
    zone = r"([+-])(\d\d)(?::([0-5]\d)(?::([0-5]\d))?)?" if cast.cell is Cell.TIMESTAMPTZ else "()()()()"
    parts = matched(r"([\d-]+) (\d\d:\d\d:\d\d(?:\.\d{1,6})?)" + zone + "( BC)?", _ascii(text)).groups()
    day, clock, sign, hours, minutes, seconds, era = parts
    east = (int(hours or 0) * 60 + int(minutes or 0)) * 60 + int(seconds or 0)
    time = _time(clock.encode(), cast) - (-east if sign == "-" else east) * 10**6
    instant = _days(day + (era or "")) * 86_400 * 10**6 + time
    if instant >= 2**63:
        raise Beyond
    return instant


def _interval(text: bytes, _: Cast) -> tuple[int, int, int]:
    pattern = (
        r"(?:([+-]?\d{1,10}) years?)?(?: ?([+-]?\d{1,10}) mons?)?(?: ?([+-]?\d{1,10}) days?)?(?: ?([+-]?)(\d+:.*))?"
    )
    years, months, days, sign, clock = matched(pattern, _ascii(text)).groups()
    if not text or text[:1] == b" ":
        raise Beyond
    numbers = 12 * int(years or 0) + int(months or 0), int(days or 0), _clock(clock) if clock else 0
    if any(not -(2**31) <= number < 2**31 for number in numbers[:2]) or numbers[2] > (2**63 - 1) // 1000:
        raise Beyond
    return *numbers[:2], numbers[2] * (-1000 if sign == "-" else 1000)


def _uuid(text: bytes, _: Cast) -> bytes:
    return UUID(matched("-".join(f"[0-9a-fA-F]{{{size}}}" for size in (8, 4, 4, 4, 12)), _ascii(text)).group()).bytes


def _bytea(text: bytes, _: Cast) -> bytes:
    return bytes.fromhex(matched(r"\\x((?:[0-9a-fA-F]{2})*)", _ascii(text)).group(1))


CELLS: dict[Cell, Callable[[bytes, Cast], Any]] = {
    Cell.TEXT: lambda text, _: text.decode(),
    Cell.BOOL: _bool,
    Cell.INTEGER: _integer,
    Cell.FLOAT: _float,
    Cell.DECIMAL: _decimal,
    Cell.DATE: _date,
    Cell.TIME: _time,
    Cell.TIMESTAMP: _instant,
    Cell.TIMESTAMPTZ: _instant,
    Cell.INTERVAL: _interval,
    Cell.UUID: _uuid,
    Cell.BYTEA: _bytea,
}
