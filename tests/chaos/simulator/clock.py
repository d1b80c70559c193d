"""Virtual time, and the one awaitable of the simulator.

Invariant: nothing in a run asks the machine what time it is; time passes only between steps.
"""

from collections.abc import Generator

# 2026-01-01 00:00 UTC.
_START_UNIX_SECONDS = 1_767_225_600


class VirtualTime:
    """Stands in for the `time` module in production modules."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def time_ns(self) -> int:
        return int((_START_UNIX_SECONDS + self.now) * 1e9)

    def unix_microseconds(self) -> int:
        return self.time_ns() // 1000


class Pause:
    """Where a production coroutine would wait for the outside, the simulator lets other actors take their turns."""

    def __await__(self) -> Generator[None, None, None]:
        yield


class Signal:
    """asyncio.Event without a loop: whoever waits is asked again at his next turn."""

    def __init__(self) -> None:
        self._is_set = False

    def set(self) -> None:
        self._is_set = True

    def clear(self) -> None:
        self._is_set = False

    def is_set(self) -> bool:
        return self._is_set

    async def wait(self) -> bool:
        while not self._is_set:
            await Pause()
        return True
