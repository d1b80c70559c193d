"""Time as the contracts write it."""

import time
from collections.abc import Mapping

from tidegate.events import POSTGRES_EPOCH_UNIX_US

BROKERS_TIME: Mapping[str, str] = {"message.timestamp.type": "LogAppendTime"}
"""Of a topic that we create: its records bear the brokers' time. By the writer's, brokers refuse all of a machine whose
clock is more than an hour ahead (message.timestamp.after.max.ms), and retention counts by a clock that may be wrong."""


def unix_microseconds() -> int:
    return time.time_ns() // 1000


def from_postgres(microseconds: int) -> int:
    return microseconds + POSTGRES_EPOCH_UNIX_US
