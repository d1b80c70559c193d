"""What every sink promises.

`open` fences first, then reads: whoever held the sink before can't write any more, and only then is the committed
cursor believed. What `commit` returned for is durable, all of it together with its cursor or none. `close` may be
called twice and drops what was written but not committed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from tidegate.contracts.cursor import Cursor
from tidegate.contracts.dead_letter import DeadLetter
from tidegate.errors import RecordError
from tidegate_processor.decode import Change
from tidegate_processor.encodings.envelope import EventContext


@dataclass(frozen=True, slots=True)
class Capabilities:
    exactly_once: bool
    """Events and cursor are committed together, so that a replay has no effect."""
    deletes: bool
    truncates: bool


@dataclass(frozen=True, slots=True)
class Rejected:
    change: Change
    error: RecordError


@dataclass(frozen=True, slots=True)
class Receipt:
    events: int
    bytes: int
    rejected: tuple[Rejected, ...] = ()


class Sink(Protocol):
    capabilities: Capabilities

    def ping(self) -> None:
        """Fails fast, with a TransientError or ConfigError that says what is wrong."""

    def open(self) -> Cursor | None: ...

    def write(self, changes: Sequence[Change], context: EventContext) -> Receipt: ...

    def write_dead_letters(self, letters: Sequence[DeadLetter]) -> None:
        """Durable with the next commit, as everything else."""

    def commit(self, cursor: Cursor) -> None: ...

    def close(self) -> None: ...
