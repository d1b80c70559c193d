"""A stage that is at something for long is no silent one, and still hears what it is told.

Invariant: it speaks because the work goes on, between two pieces of it. One that stands is silent, and is killed.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

Speak = Callable[[], None]

_SECONDS = 1.0

Piece = TypeVar("Piece")


class Paced:
    """May be called after each small piece."""

    def __init__(self, speak: Speak, clock: Callable[[], float] = time.monotonic) -> None:
        self._speak, self._clock = speak, clock
        self._due = clock() + _SECONDS

    def __call__(self) -> None:
        if self._clock() >= self._due:
            self._speak()
            self._due = self._clock() + _SECONDS


def speaking(pieces: Iterable[Piece], speak: Speak, clock: Callable[[], float] = time.monotonic) -> Iterator[Piece]:
    paced = Paced(speak, clock)
    for piece in pieces:
        paced()
        yield piece


def nobody_listens() -> None:
    """Of work that no lane's heart depends on."""
