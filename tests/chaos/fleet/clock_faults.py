"""Clocks that are wrong when a process starts, and that are set while it runs: a change of DST, a leap, a first NTP.

Each ends with a start on a true clock, an hour before or behind what the process last believed.

Invariant: that the process sees its clock is told by what it writes itself, before anything is made of it.
"""

import random
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from chaos.fleet.clock import Clock
from chaos.fleet.faults import REACH_SECONDS, flow
from chaos.fleet.field import CATCH_UP_SECONDS, PATIENCE, Fault, Field
from chaos.fleet.kills import lane_status
from kit.wait import wait

from tidegate.lsn import parse_lsn

_HOUR_SECONDS = (3600.0, 4200.0)
"""And some minutes, as clocks are that nobody sets. Brokers take no record of more than an hour ahead (Kafka's
message.timestamp.after.max.ms)."""
_NEAR_SECONDS = 60.0 * PATIENCE
"""What a process wrote last may be older than that only if it stands."""


def starts(of: str, sign: int) -> Fault:
    """It is wrong from the beginning, for as long as the process lives."""

    def fault(field: Field, draw: random.Random) -> None:
        flow(field, draw)
        with _clocked(field, of, sign * draw.uniform(*_HOUR_SECONDS)):
            flow(field, draw)
            _goes_on(field)

    return fault


def steps(of: str, sign: int) -> Fault:
    """It is set while the process runs, and set right again."""

    def fault(field: Field, draw: random.Random) -> None:
        with _clocked(field, of, 0) as clock:
            for ahead in (sign * draw.uniform(*_HOUR_SECONDS), 0):
                flow(field, draw)
                clock.set_to(ahead)
                flow(field, draw)
                _wait_for(field, of, clock)
                _goes_on(field)

    return fault


@contextmanager
def _clocked(field: Field, of: str, ahead_seconds: float) -> Iterator[Clock]:
    clock = Clock(field.rig.folder)
    clock.make()
    clock.set_to(ahead_seconds)
    _start_anew(field, of, clock.environment)
    try:
        _wait_for(field, of, clock)
        yield clock
    finally:
        _start_anew(field, of, {})


def _start_anew(field: Field, of: str, environment: Mapping[str, str]) -> None:
    process = field.servers.postgres if of == "postgres" else getattr(field, of)
    process.added = environment
    if of == "postgres":
        process.restart()
    else:
        process.kill()


def _wait_for(field: Field, of: str, clock: Clock) -> None:
    def is_seen() -> bool:
        return abs(_told(field, of) - time.time() - clock.ahead_seconds) < _NEAR_SECONDS

    wait(is_seen, REACH_SECONDS * PATIENCE, f"I7: the {of} works by its clock", 0.2)


def _goes_on(field: Field) -> None:
    """By the clock as it is, and not only once that is right again."""
    behind = parse_lsn(field.rig.sql("SELECT pg_current_wal_lsn()::text")[0][0])

    def is_confirmed() -> bool:
        field.collect()
        return field.rig.confirmed() > behind

    wait(is_confirmed, CATCH_UP_SECONDS, "I7: changes come through", 0.2)


def _told(field: Field, of: str) -> float:
    """The time of day as the process has it, in seconds."""
    if of == "postgres":
        return float(field.rig.sql("SELECT extract(epoch FROM clock_timestamp())::text")[0][0])
    status = field.reader_status() if of == "reader" else lane_status(field)
    return status.time / 1e6 if status is not None else 0.0
