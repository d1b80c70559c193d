"""Which of a lane's writers a change is of, where the lane has several. docs/decisions/0066 says what hangs on it.

Invariant: it depends on the table's name, the event's key and the count alone, and on no release of this software: a
cursor says of how many writers it is, and means these.
"""

from hashlib import blake2b
from typing import Final

_WORD: Final = 8
_BITS: Final = 2**64 - 1
# Odd, with bits everywhere: 2**64 / golden ratio (Knuth, The Art of Computer Programming, 6.4).
SPREAD: Final = 0x9E3779B97F4A7C15
SHIFT: Final = 29
TAKEN_FROM: Final = 32
"""The upper half of the hash, in which all bits of the key have a part."""


def table_seed(schema: str, table: str) -> int:
    """64 bits that stand for the table."""
    name = f"{schema}\0{table}".encode()
    return int.from_bytes(blake2b(name, digest_size=_WORD).digest(), "little")


def owner(seed: int, key: bytes, writers: int) -> int:
    """Of a change of the table with this seed: `key` as its event has it, or nothing of what goes by its table."""
    mixed = seed ^ len(key)
    for at in range(0, len(key), _WORD):
        mixed = (mixed ^ int.from_bytes(key[at : at + _WORD], "little")) * SPREAD & _BITS
        mixed ^= mixed >> SHIFT
    return ((mixed * SPREAD & _BITS) >> TAKEN_FROM) % writers
