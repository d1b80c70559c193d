"""Text in kernels: is it UTF-8, how does JSON escape it, how are numbers written.

Places are addresses (`memory.py`). Every function that writes takes the place and returns the next one, or FAILED.
Text is read and written in words of eight bytes, beyond the end of what is meant: SLACK bytes behind all that is read,
and behind all that is written, belong to the same array.
"""

from typing import Final

from tidegate.columns.compiled import Word, inlined, signed, unsigned
from tidegate.columns.memory import byte, lowest_bit, put, put_word, swapped, word

FAILED: Final = -1
SLACK: Final = 8

_U = unsigned
_ONES = _U(0x0101010101010101)
_HIGHS = _U(0x8080808080808080)
_QUOTES = _U(0x2222222222222222)
_BACKSLASHES = _U(0x5C5C5C5C5C5C5C5C)
_BELOW_SPACE = _U(0x2020202020202020)

_QUOTE, _BACKSLASH, _SPACE = ord('"'), ord("\\"), ord(" ")
_U00 = _U(int.from_bytes(b"u00\0\0\0\0\0", "little"))
_ZERO, _LETTER_A, _CAPITAL_A = ord("0"), ord("a"), ord("A")


@inlined
def special(text: Word) -> Word:
    """The high bit of each byte that JSON escapes or that is not ASCII; behind the first one it may be wrong."""
    quotes, backslashes = text ^ _QUOTES, text ^ _BACKSLASHES
    found = (text - _BELOW_SPACE) | (quotes - _ONES) | (backslashes - _ONES) | text
    return found & _HIGHS


@inlined
def utf8_length(at: int, end: int) -> int:
    """Of the character of two bytes or more that begins here; 0 if there is none (Unicode 15, table 3-7)."""
    first = byte(at)
    if first < 0xC2 or first > 0xF4:
        return 0
    length = 2 if first < 0xE0 else 3 if first < 0xF0 else 4
    if at + length > end:
        return 0
    second = byte(at + 1)
    low = 0xA0 if first == 0xE0 else 0x90 if first == 0xF0 else 0x80
    high = 0x9F if first == 0xED else 0x8F if first == 0xF4 else 0xBF
    if second < low or second > high:
        return 0
    for place in range(at + 2, at + length):
        if byte(place) & 0xC0 != 0x80:
            return 0
    return length


@inlined
def is_utf8(at: int, end: int) -> bool:
    while at < end:
        if at + 8 <= end and word(at) & _HIGHS == _U(0):
            at += 8
        elif byte(at) < 0x80:
            at += 1
        else:
            length = utf8_length(at, end)
            if length == 0:
                return False
            at += length
    return True


@inlined
def put_escaped(to: int, at: int, end: int) -> int:
    """As Python's json does without ensure_ascii. FAILED if it is not UTF-8."""
    while at < end:
        text = word(at)
        put_word(to, text)
        found, left = special(text), end - at
        if left < 8:
            found &= (_U(1) << _U(left * 8)) - _U(1)
        if found == _U(0):
            step = min(left, 8)
            at += step
            to += step
            continue
        # What stands before the first special byte is already there.
        step = lowest_bit(found) >> 3
        at += step
        to += step
        if byte(at) < 0x80:
            to = _put_escape(to, byte(at))
            at += 1
        while at < end and byte(at) >= 0x80:
            length = utf8_length(at, end)
            if length == 0:
                return FAILED
            for place in range(length):
                put(to + place, byte(at + place))
            at += length
            to += length
    return to


@inlined
def _put_escape(to: int, escaped: int) -> int:
    put(to, _BACKSLASH)
    letter = escaped
    if escaped == 8:
        letter = ord("b")
    elif escaped == 9:
        letter = ord("t")
    elif escaped == 10:
        letter = ord("n")
    elif escaped == 12:
        letter = ord("f")
    elif escaped == 13:
        letter = ord("r")
    elif escaped < _SPACE:
        put_word(to + 1, _U00)
        put(to + 4, _ZERO + (escaped >> 4))
        put(to + 5, lower_hex(escaped & 15))
        return to + 6
    put(to + 1, letter)
    return to + 2


@inlined
def put_text(to: int, at: int, end: int) -> int:
    put(to, _QUOTE)
    to = put_escaped(to + 1, at, end)
    if to == FAILED:
        return FAILED
    put(to, _QUOTE)
    return to + 1


@inlined
def lower_hex(digit: int) -> int:
    return _ZERO + digit if digit < 10 else _LETTER_A + digit - 10


@inlined
def hex_word(number: Word) -> Word:
    """Eight hexadecimal digits in lower case, as text: each half byte becomes a byte, all at once."""
    spread = (number | number << _U(16)) & _U(0x0000FFFF0000FFFF)
    spread = (spread | spread << _U(8)) & _U(0x00FF00FF00FF00FF)
    spread = swapped((spread | spread << _U(4)) & _U(0x0F0F0F0F0F0F0F0F))
    letters = (spread + _U(0x0606060606060606)) >> _U(4) & _ONES
    return spread + _U(0x3030303030303030) + letters * _U(ord("a") - ord("0") - 10)


@inlined
def put_lsn(to: int, lsn: Word) -> int:
    to = _put_upper_hex(to, lsn >> _U(32))
    put(to, ord("/"))
    return _put_upper_hex(to + 1, lsn & _U(0xFFFFFFFF))


@inlined
def _put_upper_hex(to: int, number: Word) -> int:
    digits = 1
    while digits < 8 and number >> _U(4 * digits) != _U(0):
        digits += 1
    for place in range(digits):
        digit = signed(number >> _U(4 * (digits - 1 - place))) & 15
        put(to + place, _ZERO + digit if digit < 10 else _CAPITAL_A + digit - 10)
    return to + digits


@inlined
def put_decimal(to: int, number: Word) -> int:
    digits, rest = 1, number // _U(10)
    while rest != _U(0):
        rest //= _U(10)
        digits += 1
    for place in range(digits):
        put(to + digits - 1 - place, _ZERO + signed(number % _U(10)))
        number //= _U(10)
    return to + digits


@inlined
def put_padded(to: int, number: int, digits: int) -> int:
    for place in range(digits):
        put(to + digits - 1 - place, _ZERO + number % 10)
        number //= 10
    return to + digits
