"""Ends connections that do not say what they want: they would fill the service's room without ever being refused.

Invariant: room is taken by requests, not by connections. One that waits for its request's head does so for a bounded
time, and no more than so many wait; those that have waited longest are ended first.
"""

from collections.abc import Iterable
from typing import Any

HEAD_SECONDS = 10.0
MOST_WAITING = 250
"""Of a thousand connections: browsers and probes send their head at once, and are not waiting when they are counted."""


class Patience:
    """Told every tenth of a second which connections there are. `Any`: the server's protocols have no public type.

    A request may come and go between two looks: that there was one shows in the cycle, which is another object then.
    """

    def __init__(self) -> None:
        self._since: dict[Any, tuple[Any, float]] = {}
        """Since when it waits, and behind which request."""

    def sweep(self, connections: Iterable[Any], now: float) -> None:
        waiting = {each for each in connections if _awaits_a_request(each)}
        self._since = {each: (each.cycle, self._begun(each, now)) for each in waiting}
        oldest = sorted(waiting, key=lambda each: self._since[each][1])
        surplus = max(0, len(oldest) - MOST_WAITING)
        for number, each in enumerate(oldest):
            if number < surplus or now - self._since[each][1] > HEAD_SECONDS:
                each.transport.abort()

    def _begun(self, connection: Any, now: float) -> float:
        cycle, since = self._since.get(connection, (None, now))
        return since if cycle is connection.cycle else now


def _awaits_a_request(connection: Any) -> bool:
    """It is new, or has had its last answer whole."""
    return connection.cycle is None or bool(connection.cycle.response_complete)
