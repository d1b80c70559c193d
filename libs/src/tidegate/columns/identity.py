"""What all events of a transaction share, computed once each: the seed of their ids, and their time as text.

Invariant: ids and times are those of `tidegate.events`, which says how they are made.
"""

import numpy as np

from tidegate.columns.compiled import Word, inlined, unsigned
from tidegate.columns.memory import put, put_word, swapped
from tidegate.columns.text import hex_word, put_padded
from tidegate.events import POSTGRES_EPOCH_UNIX_US

_U = unsigned
_LATEST_MS = 2**48 - 1
_STEP, _ID_MASK, _VARIANT = _U(0x1E3779B97F4A7C15), _U(2**62 - 1), _U(1 << 63)
_SUB_SHIFT = _U(40)

ID_LENGTH = 36
ID_PREFIX = 19
"""Up to the second half: `xxxxxxxx-xxxx-7xxx-`."""
TIME_LENGTH = 27

# RFC 7693. One block holds it all: system identifier, commit LSN, commit time, xid.
_HASHED_BYTES, _DIGEST_BYTES = 28, 10
_IV = np.array(
    [
        0x6A09E667F3BCC908, 0xBB67AE8584CAA73B, 0x3C6EF372FE94F82B, 0xA54FF53A5F1D36F1,
        0x510E527FADE682D1, 0x9B05688C2B3E6C1F, 0x1F83D9ABFB41BD6B, 0x5BE0CD19137E2179,
    ],
    np.uint64,
)  # fmt: skip
_SIGMA = np.array(
    [
        [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
        [14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3],
        [11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4],
        [7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8],
        [9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13],
        [2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9],
        [12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11],
        [13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10],
        [6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5],
        [10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0],
        [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
        [14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3],
    ],
    np.uint8,
)
HASH_WORDS = 32

_DASH = ord("-")
_DAY_US = 86_400_000_000
_FIRST_DAY, _LAST_DAY = -730_119, 2_921_939
"""0001-01-01 and 9999-12-31, counted from 2000-01-01."""
_EPOCH_FROM_MARCH_0000 = 730_425


@inlined
def put_id_prefix(to: int, system_id: Word, commit_lsn: int, commit_time: int, xid: int, words: np.ndarray) -> Word:
    """Writes the first ID_PREFIX bytes of the transaction's ids and returns the seed of the rest."""
    words[0], words[1], words[2] = swapped(system_id), swapped(_U(commit_lsn)), swapped(_U(commit_time))
    words[3] = swapped(_U(xid) << _U(32))
    words[4:16] = 0
    first, second = _hash(words)
    milliseconds = _LATEST_MS
    if commit_time < _LATEST_MS * 1000:
        milliseconds = min(max((commit_time + POSTGRES_EPOCH_UNIX_US) // 1000, 0), _LATEST_MS)
    put_word(to, hex_word(_U(milliseconds) >> _U(16)))
    put_word(to + 9, hex_word(_U(milliseconds) & _U(0xFFFF)) >> _U(32))
    tag = ((second & _U(0xFF)) << _U(8) | second >> _U(8)) & _U(0xFFF)
    put_word(to + 14, hex_word(tag | _U(0x7000)) >> _U(32))
    put(to + 8, _DASH)
    put(to + 13, _DASH)
    put(to + 18, _DASH)
    return swapped(first)


@inlined
def put_id_rest(to: int, seed: Word, ordinal: Word, sub: int) -> int:
    low = ((seed + (ordinal + (_U(sub) << _SUB_SHIFT)) * _STEP) & _ID_MASK) | _VARIANT
    digits = hex_word(low >> _U(32))
    put_word(to, digits)
    put(to + 4, _DASH)
    put_word(to + 5, digits >> _U(32))
    put_word(to + 9, hex_word(low & _U(0xFFFFFFFF)))
    return to + ID_LENGTH - ID_PREFIX


@inlined
def _hash(words: np.ndarray) -> tuple[Word, Word]:
    """BLAKE2b of `words[:16]`; the other sixteen are scratch. The digest's first eight bytes, and its last two."""
    for place in range(8):
        words[16 + place] = words[24 + place] = _IV[place]
    parameters = _U(0x01010000 ^ _DIGEST_BYTES)
    words[16] ^= parameters
    words[28] ^= _U(_HASHED_BYTES)
    words[30] = ~words[30]
    for turn in range(12):
        for lane in range(8):
            column, shift = lane & 3, lane >> 2
            a, b = 16 + column, 20 + (column + shift) % 4
            c, d = 24 + (column + 2 * shift) % 4, 28 + (column + 3 * shift) % 4
            words[a] += words[b] + words[_SIGMA[turn, 2 * lane]]
            words[d] = _rotated(words[d] ^ words[a], 32)
            words[c] += words[d]
            words[b] = _rotated(words[b] ^ words[c], 24)
            words[a] += words[b] + words[_SIGMA[turn, 2 * lane + 1]]
            words[d] = _rotated(words[d] ^ words[a], 16)
            words[c] += words[d]
            words[b] = _rotated(words[b] ^ words[c], 63)
    first = _IV[0] ^ parameters ^ words[16] ^ words[24]
    second = _IV[1] ^ words[17] ^ words[25]
    return first, second & _U(0xFFFF)


@inlined
def _rotated(number: Word, by: int) -> Word:
    return (number >> _U(by)) | (number << _U(64 - by))


@inlined
def put_time(to: int, microseconds: int) -> bool:
    """RFC 3339 with six decimals, of PostgreSQL's clock. False outside the years 1 to 9999."""
    day, rest = microseconds // _DAY_US, microseconds % _DAY_US
    if day < _FIRST_DAY or day > _LAST_DAY:
        return False
    year, month, day_of_month = _date(day)
    put_padded(to, year, 4)
    put_padded(to + 5, month, 2)
    put_padded(to + 8, day_of_month, 2)
    second = rest // 1_000_000
    put_padded(to + 11, second // 3600, 2)
    put_padded(to + 14, second // 60 % 60, 2)
    put_padded(to + 17, second % 60, 2)
    put_padded(to + 20, rest % 1_000_000, 6)
    put(to + 4, _DASH)
    put(to + 7, _DASH)
    put(to + 10, ord("T"))
    put(to + 13, ord(":"))
    put(to + 16, ord(":"))
    put(to + 19, ord("."))
    put(to + 26, ord("Z"))
    return True


@inlined
def _date(day: int) -> tuple[int, int, int]:
    """The Gregorian date of a day counted from 2000-01-01, in years that begin in March: the leap day comes last."""
    day += _EPOCH_FROM_MARCH_0000
    era, of_era = day // 146_097, day % 146_097
    year = (of_era - of_era // 1460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    march_month = (5 * of_year + 2) // 153
    month = march_month + 3 if march_month < 10 else march_month - 9
    return year + era * 400 + (month <= 2), month, of_year - (153 * march_month + 2) // 5 + 1
