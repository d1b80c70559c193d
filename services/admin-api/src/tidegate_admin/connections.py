"""Ends connections that do not say what they want: they would fill the service's room without ever being refused.

Invariant: room is taken by requests, not by connections. One that waits for its request's head does so for a bounded
time, and no more than so many wait from one look to the next; those that have waited longest are ended first. What is
not whole yet is kept up to a bound.
"""

from collections.abc import Iterable
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MAX_HEAD_BYTES = 2**16
MOST_AT_ONCE = 64
"""Requests of one connection that wait for the answer before them. Browsers send none, and what one read brings would
be thousands, each a hundred times as large in memory."""
HEAD_SECONDS = 10.0
MOST_WAITING = 250
"""Of a thousand connections: browsers and probes send their head at once, and are not waiting when they are counted."""


class BoundedHeads(HttpToolsProtocol):
    """HTTP by a compiled parser, which itself would keep a head, a chunk's length or trailers without end.

    A refusal takes 65 us of CPU by it, 140 by the server's other parser.
    """

    _unfinished_bytes = 0
    """Since the parser has last had something whole: a head, a piece of a body, a message."""

    def data_received(self, data: bytes) -> None:
        self._unfinished_bytes += len(data)
        super().data_received(data)
        if self._unfinished_bytes > MAX_HEAD_BYTES and not self.transport.is_closing():
            self.send_400_response("The head is too large.")

    def on_headers_complete(self) -> None:
        self._unfinished_bytes = 0
        if len(self.pipeline) >= MOST_AT_ONCE:
            raise ValueError("too many requests at once")  # to the parser, which answers 400 and hangs up
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._unfinished_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._unfinished_bytes = 0
        super().on_message_complete()


class Patience:
    """Told every tenth of a second which connections there are. `Any`: the server's protocols have no public type.

    A request may come and go between two looks: that there was one shows in the cycle, which is another object then.
    Who has come since the last look is not ended: in a rush its head is there, and has not been read yet.
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
            waited = now - self._since[each][1]
            if (number < surplus and waited > 0) or waited > HEAD_SECONDS:
                each.transport.abort()

    def _begun(self, connection: Any, now: float) -> float:
        cycle, since = self._since.get(connection, (None, now))
        return since if cycle is connection.cycle else now


def _awaits_a_request(connection: Any) -> bool:
    """It is new, or has had its last answer whole."""
    return connection.cycle is None or bool(connection.cycle.response_complete)
