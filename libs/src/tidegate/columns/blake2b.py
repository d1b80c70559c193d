"""BLAKE2b with a key (RFC 7693) over text of any length, in a kernel.

The key fills the first block of all texts, so what that block makes of the state is computed once a key (`absorbed`)
and a short text costs one block. Invariant: the digests are those of `hashlib.blake2b`.
"""

import hashlib
from typing import Final

import numpy as np

from tidegate.columns.compiled import Word, inlined, kernel, unsigned
from tidegate.columns.memory import word

_U = unsigned
_BLOCK: Final = 128
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

# Of an array of words: the state, then what is scratch: a message block and the working vector.
_MESSAGE: Final = 8
_VECTOR: Final = 24
WORDS: Final = 40

# What is kept of a key: the state behind its block, and the digest of the empty text, which has no other block.
KEY_WORDS: Final = 16
_EMPTY: Final = 8


def absorbed(key: bytes, digest_bytes: int) -> np.ndarray:
    kept = np.zeros(KEY_WORDS, np.uint64)
    words = np.zeros(WORDS, np.uint64)
    words[:_MESSAGE] = _IV
    words[0] ^= np.uint64(0x01010000 ^ len(key) << 8 ^ digest_bytes)
    words[_MESSAGE:_VECTOR] = np.frombuffer(key.ljust(_BLOCK, b"\0"), "<u8")
    first_block(words)
    kept[:_EMPTY] = words[:_MESSAGE]
    empty = hashlib.blake2b(b"", key=key, digest_size=digest_bytes).digest()
    kept[_EMPTY : _EMPTY + digest_bytes // 8] = np.frombuffer(empty, "<u8")
    return kept


@kernel
def first_block(words: np.ndarray) -> None:
    _compress(words, _U(_BLOCK), False)


@inlined
def digest(at: int, end: int, key: np.ndarray, words: np.ndarray) -> None:
    """The digest is the first words of `words` afterwards. Reads whole words of eight bytes, also behind `end`."""
    if at >= end:
        for place in range(8):
            words[place] = key[_EMPTY + place]
        return
    for place in range(8):
        words[place] = key[place]
    count = _U(_BLOCK)
    while at < end:
        left = min(end - at, _BLOCK)
        for place in range(16):
            words[_MESSAGE + place] = _up_to(at + 8 * place, end)
        at += left
        count += _U(left)
        _compress(words, count, at >= end)


@inlined
def _up_to(at: int, end: int) -> Word:
    if at >= end:
        return _U(0)
    left = end - at
    return word(at) if left >= 8 else word(at) & ((_U(1) << _U(8 * left)) - _U(1))


@inlined
def _compress(words: np.ndarray, count: Word, is_last: bool) -> None:
    for place in range(8):
        words[_VECTOR + place] = words[place]
        words[_VECTOR + 8 + place] = _IV[place]
    words[_VECTOR + 12] ^= count
    if is_last:
        words[_VECTOR + 14] = ~words[_VECTOR + 14]
    for turn in range(12):
        for lane in range(8):
            column, shift = lane & 3, lane >> 2
            a, b = _VECTOR + column, _VECTOR + 4 + (column + shift) % 4
            c, d = _VECTOR + 8 + (column + 2 * shift) % 4, _VECTOR + 12 + (column + 3 * shift) % 4
            words[a] += words[b] + words[_MESSAGE + _SIGMA[turn, 2 * lane]]
            words[d] = _rotated(words[d] ^ words[a], 32)
            words[c] += words[d]
            words[b] = _rotated(words[b] ^ words[c], 24)
            words[a] += words[b] + words[_MESSAGE + _SIGMA[turn, 2 * lane + 1]]
            words[d] = _rotated(words[d] ^ words[a], 16)
            words[c] += words[d]
            words[b] = _rotated(words[b] ^ words[c], 63)
    for place in range(8):
        words[place] ^= words[_VECTOR + place] ^ words[_VECTOR + 8 + place]


@inlined
def _rotated(number: Word, by: int) -> Word:
    return (number >> _U(by)) | (number << _U(64 - by))
