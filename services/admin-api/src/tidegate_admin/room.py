"""Room for so many at once, of what takes several steps to begin.

Invariant: it is taken in the step that looks whether there is some, so that nobody comes in between, and each taking is
given back once, however often that is said.
"""

from collections.abc import Callable


class Room:
    def __init__(self, most: int) -> None:
        self.most = most
        self.taken = 0

    def take(self) -> Callable[[], None] | None:
        """How to give it back; none if there is no room."""
        if self.taken >= self.most:
            return None
        self.taken += 1
        is_held = True

        def release() -> None:
            nonlocal is_held
            self.taken -= is_held
            is_held = False

        return release
