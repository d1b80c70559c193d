"""Time as the contracts write it."""

import time

from tidegate.events import POSTGRES_EPOCH_UNIX_US


def unix_microseconds() -> int:
    return time.time_ns() // 1000


def from_postgres(microseconds: int) -> int:
    return microseconds + POSTGRES_EPOCH_UNIX_US
