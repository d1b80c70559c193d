"""What every sink promises.

`open` fences first, then reads: whoever held the sink before can't write any more, and only then is the committed
cursor believed. What `commit` returned for is durable, all of it together with its cursor or none. `close` may be
called twice and drops what was written but not committed. What a sink can't promise, its capabilities say.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from tidegate.contracts.cursor import Cursor
from tidegate.contracts.dead_letter import DeadLetter
from tidegate.contracts.frame import Frame
from tidegate.position import Position

if TYPE_CHECKING:  # kernels are loaded where frames are decoded, in a worker, and nowhere else
    from tidegate.columns.refusals import RejectedChange


CURSOR_KEPT_SECONDS = 86_400.0
"""Kafka forgets a group that has committed nothing for a week, so a cursor that has not moved is committed again."""


@dataclass(frozen=True, slots=True)
class Capabilities:
    exactly_once: bool
    """Events and cursor are committed together, so that a replay has no effect."""
    deletes: bool
    truncates: bool
    notices: bool = False
    """It is given `mark` frames too, and writes what they say as events."""
    follows: bool = False
    """It is given `mark` frames of tables that change their shape, where the lane takes the new one, and alters its
    target by them."""
    keyed: bool = False
    """It keeps rows by their key, and not events."""
    fences: bool = True
    """Whoever opens it later keeps those before from committing."""
    letters_too: bool = False
    """Dead letters, and what is told of them, are in one transaction with the events."""


@dataclass(frozen=True, slots=True)
class Receipt:
    events: int
    bytes: int
    rejected: "tuple[RejectedChange, ...]" = ()
    newest_commit_time: int | None = None
    """Of the frame's last transaction with a change in it, in PostgreSQL's microseconds."""
    partitions: int = 0
    """That the sink's transaction touches at most by now, where each of them costs the other side time."""


class Sink(Protocol):
    capabilities: Capabilities

    def ping(self) -> None:
        """Fails fast, with a TransientError or ConfigError that says what is wrong."""

    def open(self) -> Cursor | None: ...

    def write(self, frame: Frame, after: Position) -> Receipt:
        """The changes of a whole `wal` frame that lie above `after` and that the sink's routes take; the rows of a
        snapshot frame as `tidegate.columns.snapshots` makes it, all of which do.

        What was rejected is a dead letter, and the others are written nevertheless.
        """
        ...

    def write_dead_letters(self, letters: Sequence[DeadLetter]) -> None:
        """Durable with the next commit, as everything else."""

    def commit(self, cursor: Cursor) -> None: ...

    def close(self) -> None: ...
