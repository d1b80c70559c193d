"""Dates and times in kernels: PostgreSQL's text under DateStyle ISO and IntervalStyle postgres to Arrow's numbers.

Invariant: each writer says whether `to` now holds the very time that the text says. Years BC are years below 1 of the
same calendar (1 BC is the year 0). `infinity`, 24:00:00 and what 64 bits can't count are refused.
"""

from tidegate.columns.cast_numbers import is_digit
from tidegate.columns.compiled import inlined
from tidegate.columns.memory import byte, put_i32, set_field

_MINUS, _PLUS, _POINT, _ZERO, _COLON, _SPACE = (ord(mark) for mark in "-+.0: ")
_Y, _M, _D, _S = (ord(letter) for letter in "ymds")
_YEAR, _MONTH, _DAY = b"year", b"mon", b"day"

_DAY_US, _SECOND_US = 86_400_000_000, 1_000_000
# 2^63 microseconds from 1970 lie within this day; the days before it always fit.
_LAST_DAY, _LAST_DAY_US = 106_751_991, 14_454_775_807
_LAST_NS_IN_US = 9_223_372_036_854_775
_GREATEST_HOURS = 2_562_047
_INT32 = 2**31


@inlined
def put_date(to: int, at: int, end: int) -> bool:
    day, after, is_there = _date(at, end, _is_bc(at, end))
    if not is_there or after != end - 3 * _is_bc(at, end) or day >= _INT32:
        return False
    put_i32(to, day)
    return True


@inlined
def put_time_of_day(to: int, at: int, end: int) -> bool:
    time, after, is_there = _clock(at, end, 2)
    if not is_there or after != end or time >= _DAY_US:
        return False
    set_field(to, 0, time)
    return True


@inlined
def put_instant(to: int, at: int, end: int, has_zone: bool) -> bool:
    bc = _is_bc(at, end)
    end -= 3 * bc
    day, at, is_date = _date(at, end, bc)
    if not is_date or at >= end or byte(at) != _SPACE:
        return False
    time, at, is_time = _clock(at + 1, end, 2)
    if not is_time or time >= _DAY_US:
        return False
    if has_zone:
        offset, at, is_zone = _zone(at, end)
        if not is_zone:
            return False
        time -= offset
        day += time // _DAY_US
        time %= _DAY_US
    if at != end or day > _LAST_DAY or (day == _LAST_DAY and time > _LAST_DAY_US):
        return False
    set_field(to, 0, day * _DAY_US + time)
    return True


@inlined
def _is_bc(at: int, end: int) -> bool:
    return end - at > 3 and byte(end - 3) == _SPACE and byte(end - 2) == ord("B") and byte(end - 1) == ord("C")


@inlined
def _number(at: int, end: int, most: int) -> tuple[int, int]:
    """A number of at most so many digits, and where it ends."""
    number, begin = 0, at
    while is_digit(at, end) and at - begin < most:
        number = number * 10 + byte(at) - _ZERO
        at += 1
    return number, at


@inlined
def _date(at: int, end: int, bc: bool) -> tuple[int, int, bool]:
    """Days from 1970-01-01, where it ends, and whether it is one. The server writes a year with four digits or more."""
    year, after_year = _number(at, end, 7)
    month, after_month = _number(after_year + 1, end, 2)
    day, after = _number(after_month + 1, end, 2)
    if after_year - at < 4 or after_month - after_year != 3 or after - after_month != 3:
        return 0, at, False
    if byte(after_year) != _MINUS or byte(after_month) != _MINUS or year == 0:
        return 0, at, False
    if bc:
        year = 1 - year
    if month < 1 or month > 12 or day < 1 or day > _days_of(year, month):
        return 0, at, False
    return _days_from_1970(year, month, day), after, True


@inlined
def _days_of(year: int, month: int) -> int:
    if month == 2:
        return 29 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 28
    return 30 if month == 4 or month == 6 or month == 9 or month == 11 else 31


@inlined
def _days_from_1970(year: int, month: int, day: int) -> int:
    """In years that begin in March, so that the leap day comes last."""
    year -= month <= 2
    of_era = year % 400
    of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return year // 400 * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468


@inlined
def _clock(at: int, end: int, hour_digits: int) -> tuple[int, int, bool]:
    """Microseconds of HH:MM:SS[.ffffff], where it ends, and whether it is one."""
    hours, after_hours = _number(at, end, hour_digits)
    minutes, after_minutes = _number(after_hours + 1, end, 2)
    seconds, after = _number(after_minutes + 1, end, 2)
    if after_hours - at < 2 or after_minutes - after_hours != 3 or after - after_minutes != 3:
        return 0, at, False
    if byte(after_hours) != _COLON or byte(after_minutes) != _COLON or minutes > 59 or seconds > 59:
        return 0, at, False
    if hours > _GREATEST_HOURS:
        return 0, at, False
    time = ((hours * 60 + minutes) * 60 + seconds) * _SECOND_US
    if after < end and byte(after) == _POINT:
        fraction, stop = _number(after + 1, end, 6)
        if stop == after + 1:
            return 0, at, False
        for _ in range(7 - (stop - after)):
            fraction *= 10
        return time + fraction, stop, True
    return time, after, True


@inlined
def _zone(at: int, end: int) -> tuple[int, int, bool]:
    """Microseconds east of UTC of ±HH[:MM[:SS]]; where it ends; whether it is one."""
    if at >= end or (byte(at) != _PLUS and byte(at) != _MINUS):
        return 0, at, False
    negative = byte(at) == _MINUS
    seconds, after = _number(at + 1, end, 2)
    if after != at + 3:
        return 0, at, False
    seconds *= 3600
    unit = 60
    while after < end and byte(after) == _COLON and unit > 0:
        part, stop = _number(after + 1, end, 2)
        if stop != after + 3 or part > 59:
            return 0, at, False
        seconds += part * unit
        unit //= 60
        after = stop
    return (-seconds if negative else seconds) * _SECOND_US, after, True


@inlined
def put_interval(to: int, at: int, end: int) -> bool:
    """Months, days, nanoseconds, each with a sign of its own: `1 year -2 mons +3 days 04:05:06.7`."""
    months = days = time = 0
    if at == end:
        return False
    while at < end:
        negative = byte(at) == _MINUS
        signed_at = at + (negative or byte(at) == _PLUS)
        number, after = _number(signed_at, end, 10)
        if after == signed_at or after >= end:
            return False
        if byte(after) == _COLON:
            time, at, is_time = _clock(signed_at, end, 10)
            if not is_time or at != end or time > _LAST_NS_IN_US:
                return False
            time = -time if negative else time
            break
        number = -number if negative else number
        if _is_unit(after, end, _YEAR):
            months += 12 * number
            at = after + 1 + len(_YEAR)
        elif _is_unit(after, end, _MONTH):
            months += number
            at = after + 1 + len(_MONTH)
        elif _is_unit(after, end, _DAY):
            days = number
            at = after + 1 + len(_DAY)
        else:
            return False
        at += at < end and byte(at) == _S
        if at < end:
            if byte(at) != _SPACE or at + 1 == end:
                return False
            at += 1
    if months < -_INT32 or months >= _INT32 or days < -_INT32 or days >= _INT32:
        return False
    put_i32(to, months)
    put_i32(to + 4, days)
    set_field(to, 1, 1000 * time)
    return True


@inlined
def _is_unit(at: int, end: int, unit: bytes) -> bool:
    """Behind a space."""
    if end - at < len(unit) + 1 or byte(at) != _SPACE:
        return False
    for place in range(len(unit)):
        if byte(at + 1 + place) != unit[place]:
            return False
    return True
