"""How often somebody may ask, and how much somebody may send.

Invariant: memory is bounded however many addresses ask, and a body is refused at the first byte that is too many.
"""

import asyncio
import time
from collections import OrderedDict
from dataclasses import dataclass

from starlette.types import Message, Receive

MAX_BODY_BYTES = 2**20
"""A configuration has at most this much; every other body is a few hundred bytes."""
BODY_SECONDS = 10.0
_KEYS_KEPT = 10_000


@dataclass(frozen=True, slots=True)
class Rate:
    a_second: float
    burst: int


@dataclass(frozen=True, slots=True)
class Limits:
    reads: Rate = Rate(200, 400)
    """Of one caller."""
    changes: Rate = Rate(10, 40)
    """Of one caller."""
    strangers: Rate = Rate(50, 200)
    """Of one address without a token that is right, and of the probes."""

    @classmethod
    def of(cls, reads: float, changes: float) -> "Limits":
        """Twice a second's worth at once, as many changes as four seconds have."""
        return cls(Rate(reads, int(2 * reads) + 1), Rate(changes, int(4 * changes) + 1))


class Buckets:
    """Token buckets by key; the keys that were used longest ago are forgotten first, which only ever forgives."""

    def __init__(self, rate: Rate) -> None:
        self._rate = rate
        self._levels: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, key: str, now: float | None = None) -> float:
        """0 if there was room, else the seconds until there is."""
        moment = time.monotonic() if now is None else now
        level, since = self._levels.pop(key, (float(self._rate.burst), moment))
        level = min(self._rate.burst, level + (moment - since) * self._rate.a_second)
        wait = 0.0 if level >= 1 else (1 - level) / self._rate.a_second
        self._levels[key] = (level - 1 if wait == 0 else level, moment)
        while len(self._levels) > _KEYS_KEPT:
            self._levels.popitem(last=False)
        return wait


class BodyRefusedError(Exception):
    """`status` is 413 or 408."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


async def read_body(receive: Receive, limit: int = MAX_BODY_BYTES, seconds: float = BODY_SECONDS) -> bytes:
    pieces, size = [], 0
    try:
        async with asyncio.timeout(seconds):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    break
                pieces.append(message.get("body", b""))
                size += len(pieces[-1])
                if size > limit:
                    raise BodyRefusedError(413)
                if not message.get("more_body"):
                    break
    except TimeoutError:
        raise BodyRefusedError(408) from None
    return b"".join(pieces)


def replayed(body: bytes, receive: Receive) -> Receive:
    """What was read already, once; then whatever comes, which is the end of the connection."""
    given = False

    async def again() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again
