"""No faster than a person allows: rows and bytes a second, over all connections.

Invariant: over any stretch no more goes through than the rate allows for it and one second's worth besides.
"""

import asyncio
import time
from collections.abc import Callable


class Throttle:
    def __init__(
        self, rows_per_second: int | None, bytes_per_second: int | None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._rates = (rows_per_second, bytes_per_second)
        self._clock = clock
        self._free_at = [clock() - 1.0, clock() - 1.0]

    async def pass_(self, rows: int, size: int) -> None:
        wait = self.owed(rows, size)
        if wait > 0:
            await asyncio.sleep(wait)

    def owed(self, rows: int, size: int) -> float:
        """Takes it, and says how long whoever took it has to wait."""
        now, waits = self._clock(), [0.0]
        for place, (amount, rate) in enumerate(zip((rows, size), self._rates, strict=True)):
            if rate is not None:
                # What was not used is kept for one second.
                self._free_at[place] = max(self._free_at[place], now - 1.0) + amount / rate
                waits.append(self._free_at[place] - now)
        return max(waits)
