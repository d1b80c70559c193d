"""What waits between a stage's threads: so many frames, or so many bytes, whichever is reached first.

Invariant: a frame is taken in whatever its size where nothing else waits.
"""

import queue
from collections import deque

MOST_FRAMES = 64
"""Enough to keep both threads busy."""
_MOST_BYTES = 32 * 2**20
"""A frame may have 16 MiB, and as much again waits with the thread that writes."""

Record = tuple[int, bytes | None]


class FrameQueue(queue.Queue[Record | None]):
    """None: nothing comes any more."""

    def __init__(self) -> None:
        super().__init__(MOST_FRAMES)

    def take(self, seconds: float) -> tuple[deque[Record], bool]:
        """What waits, within the same limits, and whether the input has ended; one frame at least, unless none comes
        within that time."""
        taken: deque[Record] = deque()
        size = 0
        try:
            item = self.get(timeout=seconds)
            while item is not None:
                taken.append(item)
                size += _size(item)
                if len(taken) == MOST_FRAMES or size >= _MOST_BYTES:
                    return taken, False
                item = self.get_nowait()
        except queue.Empty:
            return taken, False
        return taken, True

    def _init(self, maxsize: int) -> None:
        super()._init(maxsize)
        self._bytes = 0

    def _qsize(self) -> int:
        """By which a queue tells whether it is full."""
        return self.maxsize if self._bytes >= _MOST_BYTES else super()._qsize()

    def _put(self, item: Record | None) -> None:
        super()._put(item)
        self._bytes += _size(item)

    def _get(self) -> Record | None:
        item: Record | None = super()._get()
        self._bytes -= _size(item)
        return item


def _size(item: Record | None) -> int:
    return len(item[1] or b"") if item is not None else 0
