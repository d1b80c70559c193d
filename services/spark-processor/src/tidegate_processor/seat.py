"""One writer of a lane's several: which it is, and for whom it delivers at the moment.

| | delivers the changes of | and commits the cursors of |
| --- | --- | --- |
| beside the others | itself | itself |
| alone: writer 0, from a frame that is for all to the end of its input | all | all, in one transaction |

Invariant: a change has been delivered if and only if it lies at or below the position of its writer's cursor.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from tidegate.contracts.cursor import Cursor
from tidegate.position import Position


@dataclass(slots=True)
class Seat:
    """Shared by what decides, what sends and what acks for one writer."""

    writer: int
    writers: int
    positions: list[Position] = field(default_factory=list)
    """Of all writers, while this one is alone."""
    has_moved_all: bool = False
    """Since it is alone, it has committed the cursors of all."""

    @property
    def is_alone(self) -> bool:
        return bool(self.positions)

    @property
    def is_first(self) -> bool:
        return self.writer == 0

    @property
    def acks_for(self) -> Sequence[int]:
        return range(self.writers) if self.has_moved_all else (self.writer,)

    def be_alone(self, positions: Sequence[Position]) -> None:
        self.positions = list(positions)

    def passed(self, position: Position) -> None:
        self.positions = [max(each, position) for each in self.positions]

    def sit_down(self) -> None:
        """The others deliver their own again."""
        self.positions, self.has_moved_all = [], False

    def others_cursors(self, cursor: Cursor) -> dict[int, Cursor]:
        """That are committed with this writer's, by writer. A re-feed may have found another one further."""
        return {
            writer: replace(cursor, position=max(cursor.position, position))
            for writer, position in enumerate(self.positions)
            if writer != self.writer
        }
