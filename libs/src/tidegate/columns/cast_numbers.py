"""Numbers in kernels: PostgreSQL's text to integers, floats and decimals of Arrow, each exactly or not at all.

Invariant: each writer says whether `to` now holds the very number that the text says. A float is the nearest one, ties
to even, as PostgreSQL's own shortest text means; what the quick way can't decide is refused, and Python decides it
(`casts.exact_float`).
"""

import numpy as np

from tidegate.columns.compiled import Word, inlined, signed, unsigned
from tidegate.columns.memory import byte, high_product, leading_zeros, put, put_i16, put_i32, set_field

_U = unsigned
_MINUS, _PLUS, _POINT, _ZERO, _NINE = (ord(mark) for mark in "-+.09")
_NAN, _INFINITY = b"NaN", b"Infinity"

# More digits than these could overflow 64 bits: 10^19 < 2^64.
_SAFE_DIGITS, _WORD_DIGITS = 18, 19
_FULL_CHUNK = _U(10**_SAFE_DIGITS)


@inlined
def is_digit(at: int, end: int) -> bool:
    return at < end and byte(at) >= _ZERO and byte(at) <= _NINE


@inlined
def put_integer(to: int, at: int, end: int, width: int, low: int, high: int) -> bool:
    """`width` bytes, of a number between `low` and `high`."""
    negative = at < end and byte(at) == _MINUS
    at += negative
    if end - at > _WORD_DIGITS or at == end:
        return False
    number = _U(0)
    while at < end:
        if not is_digit(at, end):
            return False
        number = number * _U(10) + _U(byte(at) - _ZERO)
        at += 1
    if negative:
        if number > _U(1 << 63):
            return False
        value = signed(_U(0) - number)
        if value > 0 or value < low:
            return False
    else:
        value = signed(number)
        if value < 0 or value > high:
            return False
    if width == 8:
        set_field(to, 0, value)
    elif width == 4:
        put_i32(to, value)
    elif width == 2:
        put_i16(to, value)
    else:
        put(to, value)
    return True


def _powers_of_five() -> np.ndarray:
    """The first 128 bits of 5^q for q from -342 to 308 (Lemire, "Number Parsing at a Gigabyte per Second", 2021)."""
    words = []
    for power in range(_SMALLEST_POWER, _GREATEST_POWER + 1):
        number = 5 ** abs(power)
        if power < 0:
            bits = number.bit_length() + 127 if power >= -27 else 2 * number.bit_length() + 128
            number = 2**bits // number + 1
        number = number << 128 >> number.bit_length()
        words.append((number >> 64, number & (1 << 64) - 1))
    return np.array(words, np.uint64)


_SMALLEST_POWER, _GREATEST_POWER = -342, 308
_FIVES = _powers_of_five()
# Of double and float: bits of the mantissa, smallest exponent, the exponent of infinity, powers where ties can be.
_DOUBLE, _SINGLE = (52, -1023, 0x7FF, -4, 23), (23, -127, 0xFF, -17, 10)


@inlined
def put_float(to: int, at: int, end: int, width: int) -> bool:
    bits, least, infinite, first_tie, last_tie = _DOUBLE if width == 8 else _SINGLE
    negative = at < end and byte(at) == _MINUS
    at += negative
    sign = _U(negative) << _U(8 * width - 1)
    if is_digit(at, end):
        number, power, has_ended = _decimal_parts(at, end)
        if not has_ended:
            return False
        if number == _U(0):
            return _put_bits(to, sign, width)
        if power < _SMALLEST_POWER or power > _GREATEST_POWER:
            return False
        mantissa, exponent = _nearest(number, power, bits, least, first_tie, last_tie)
        if exponent <= 0 or exponent >= infinite:
            return False
        return _put_bits(to, sign | mantissa | _U(exponent) << _U(bits), width)
    if _is_word(at, end, _INFINITY):
        return _put_bits(to, sign | _U(infinite) << _U(bits), width)
    if _is_word(at, end, _NAN) and not negative:
        return _put_bits(to, _U(2 * infinite + 1) << _U(bits - 1), width)
    return False


@inlined
def _put_bits(to: int, bits: Word, width: int) -> bool:
    if width == 8:
        set_field(to, 0, signed(bits))
    else:
        put_i32(to, signed(bits))
    return True


@inlined
def _is_word(at: int, end: int, word: bytes) -> bool:
    if end - at != len(word):
        return False
    for place in range(len(word)):
        if byte(at + place) != word[place]:
            return False
    return True


@inlined
def _decimal_parts(at: int, end: int) -> tuple[Word, int, bool]:
    """Digits as a number, the power of ten behind them, and whether that is all there is and fits."""
    number, power, digits = _U(0), 0, 0
    has_point = False
    while at < end:
        if is_digit(at, end):
            digits += number != _U(0) or byte(at) != _ZERO
            number = number * _U(10) + _U(byte(at) - _ZERO)
            power -= has_point
        elif byte(at) == _POINT and not has_point and is_digit(at + 1, end):
            has_point = True
        else:
            break
        at += 1
    if digits > _WORD_DIGITS:
        return number, 0, False
    if at == end:
        return number, power, True
    if byte(at) != ord("e"):
        return number, 0, False
    at += 1
    negative = at < end and byte(at) == _MINUS
    at += negative or (at < end and byte(at) == _PLUS)
    exponent = 0
    if not is_digit(at, end) or end - at > 4:
        return number, 0, False
    while is_digit(at, end):
        exponent = exponent * 10 + byte(at) - _ZERO
        at += 1
    return number, power - exponent if negative else power + exponent, at == end


@inlined
def _nearest(number: Word, power: int, bits: int, least: int, first_tie: int, last_tie: int) -> tuple[Word, int]:
    """Mantissa without its leading one, and biased exponent: out of range where this can't say (Lemire 2021)."""
    shift = leading_zeros(number)
    number <<= _U(shift)
    row = power - _SMALLEST_POWER
    high, low = high_product(number, _FIVES[row, 0]), number * _FIVES[row, 0]
    mask = _U(0xFFFFFFFFFFFFFFFF) >> _U(bits + 3)
    if high & mask == mask:
        second = high_product(number, _FIVES[row, 1])
        low += second
        high += _U(low < second)
        if low == _U(0xFFFFFFFFFFFFFFFF) and (power < -27 or power > 55):
            return _U(0), 0
    upper = signed(high >> _U(63))
    mantissa = high >> _U(upper + 64 - bits - 3)
    exponent = ((217706 * power) >> 16) + 63 + upper - shift - least
    is_tie = low <= _U(1) and power >= first_tie and power <= last_tie and mantissa & _U(3) == _U(1)
    if is_tie and mantissa << _U(upper + 64 - bits - 3) == high:
        mantissa &= ~_U(1)
    mantissa = (mantissa + (mantissa & _U(1))) >> _U(1)
    if mantissa >= _U(2) << _U(bits):
        mantissa = _U(1) << _U(bits)
        exponent += 1
    return mantissa & ~(_U(1) << _U(bits)), exponent


@inlined
def put_decimal_number(to: int, at: int, end: int, precision: int, scale: int, words: int) -> bool:
    """Two's complement in two words or four, `scale` digits behind the point: of text that has no more than these."""
    negative = at < end and byte(at) == _MINUS
    at += negative
    if not is_digit(at, end):
        return False
    first = second = third = fourth = chunk = _U(0)
    weight = _U(1)
    digits = fraction = 0
    has_point = False
    while at < end or fraction < scale:
        digit = 0
        if at < end and byte(at) == _POINT:
            if has_point or not is_digit(at + 1, end):
                return False
            has_point = True
            at += 1
            continue
        if at < end:
            if not is_digit(at, end):
                return False
            digit = byte(at) - _ZERO
        fraction += has_point or at >= end
        at += 1
        digits += digits > 0 or digit > 0
        chunk, weight = chunk * _U(10) + _U(digit), weight * _U(10)
        if weight == _FULL_CHUNK:
            first, second, third, fourth = _times(first, second, third, fourth, weight, chunk)
            chunk, weight = _U(0), _U(1)
    if digits > precision or fraction > scale:
        return False
    first, second, third, fourth = _times(first, second, third, fourth, weight, chunk)
    if negative:
        first, second, third, fourth = _negated(first, second, third, fourth)
    set_field(to, 0, signed(first))
    set_field(to, 1, signed(second))
    if words == 4:
        set_field(to, 2, signed(third))
        set_field(to, 3, signed(fourth))
    return True


@inlined
def _times(
    first: Word, second: Word, third: Word, fourth: Word, weight: Word, chunk: Word
) -> tuple[Word, Word, Word, Word]:
    """The number of four words, the lowest first, times `weight` and plus `chunk`."""
    low = first * weight + chunk
    carry = high_product(first, weight) + _U(low < chunk)
    middle = second * weight + carry
    carry = high_product(second, weight) + _U(middle < carry)
    upper = third * weight + carry
    carry = high_product(third, weight) + _U(upper < carry)
    return low, middle, upper, fourth * weight + carry


@inlined
def _negated(first: Word, second: Word, third: Word, fourth: Word) -> tuple[Word, Word, Word, Word]:
    first = ~first + _U(1)
    carry = _U(first == _U(0))
    second = ~second + carry
    carry = _U(carry == _U(1) and second == _U(0))
    third = ~third + carry
    carry = _U(carry == _U(1) and third == _U(0))
    return first, second, third, ~fourth + carry
