"""Storms: one kind of process is killed again and again under load, at random moments, and each time only after
something that was committed since the last kill has come through. Everything is compared at the end, as ever.

A lane that fails waits longer each time before it starts again, up to 30 s until it was well for a minute. A new driver
knows nothing of that; so where lanes have begun to wait, the driver is the next to be killed, and is counted as such.
Invariant: a kill is never done to a fleet that has not yet come back from the one before; a fleet that does not come
back within the time of I7 ends the trial as broken.
"""

import random

from chaos.fleet.faults import flow, pause
from chaos.fleet.field import CATCH_UP_SECONDS, Fault, Field
from chaos.fleet.kills import Kind, kill_and_see_it_back, lane_status

KILLS = {Kind.READER: 25, Kind.REDIS: 25, Kind.POSTGRES: 25, Kind.WORKER: 10, Kind.KAFKA: 5, Kind.DRIVER: 5}
"""A trial, which should take minutes: all that was written meanwhile is read once more by the witness in the end, and
a JVM boots for ten seconds and more, a lane takes up to half a minute to give up what a broker left open."""
_MOST_BETWEEN = 40
"""Transactions before the next kill; about half a second."""
_MOST_RESTARTS = 4
"""Of a lane by one driver: it has then waited 0.5, 1, 2 and 4 s."""


def storm(kind: Kind) -> Fault:
    def fault(field: Field, draw: random.Random) -> None:
        newest, restarts = _incarnation(field), 0
        for _ in range(KILLS[kind]):
            if kind is not Kind.DRIVER and restarts >= _MOST_RESTARTS:
                _once(field, draw, Kind.DRIVER)
                newest, restarts = _incarnation(field), 0
            _once(field, draw, kind)
            before, newest = newest, _incarnation(field)
            restarts += newest != before

    return fault


def _once(field: Field, draw: random.Random, kind: Kind) -> None:
    flow(field, draw, _MOST_BETWEEN)
    away = draw.choice((0.0, draw.uniform(0, 1)))
    kill_and_see_it_back(field, kind, lambda: pause(away), CATCH_UP_SECONDS)


def _incarnation(field: Field) -> int:
    status = lane_status(field)
    return status.incarnation if status is not None else 0
