"""How quickly rows become durable, over the last seconds, and how long what is left takes at that pace."""

import time
from collections import deque
from dataclasses import dataclass

_SAMPLES = 15
"""One a second."""


@dataclass(frozen=True, slots=True)
class Rates:
    rows: float = 0.0
    """A second, as bytes are."""
    bytes: float = 0.0
    seconds_left: float | None = None
    """Not known while nothing moves."""


class Pace:
    def __init__(self) -> None:
        self._samples: deque[tuple[float, int, int, float]] = deque(maxlen=_SAMPLES)

    def at(self, rows: int, size: int, fraction: float) -> Rates:
        """So many are durable by now, and this part of the whole."""
        last = time.monotonic(), rows, size, fraction
        self._samples.append(last)
        first = self._samples[0]
        seconds = last[0] - first[0]
        if seconds <= 0:
            return Rates()
        moved = (fraction - first[3]) / seconds
        left = round((1.0 - fraction) / moved, 1) if moved > 0 else None
        return Rates(round((rows - first[1]) / seconds, 1), round((size - first[2]) / seconds, 1), left)
