"""A timeline's ancestors, as the server's history file names them (TIMELINE_HISTORY on the replication link).

One line for each: its number, the LSN at which it was left, and why. The last line is the parent's.
"""

from dataclasses import dataclass

from tidegate.errors import StreamError
from tidegate.lsn import Lsn, parse_lsn


@dataclass(frozen=True, slots=True)
class History:
    ancestors: tuple[tuple[int, Lsn], ...]
    """Each with the LSN at which it was left, the oldest first."""

    @property
    def begins(self) -> Lsn | None:
        """Where the timeline itself begins."""
        return self.ancestors[-1][1] if self.ancestors else None

    def left(self, timeline: int) -> Lsn | None:
        """None if it is no ancestor."""
        return dict(self.ancestors).get(timeline)

    def began(self, timeline: int) -> Lsn | None:
        """Where an ancestor begins; None for the oldest."""
        numbers = [number for number, _ in self.ancestors]
        at = numbers.index(timeline) if timeline in numbers else 0
        return self.ancestors[at - 1][1] if at else None


def parse_history(content: str) -> History:
    lines = (line.split("#", 1)[0].split(None, 2) for line in content.splitlines())
    try:
        return History(tuple((int(fields[0]), parse_lsn(fields[1])) for fields in lines if fields))
    except (ValueError, IndexError):
        raise StreamError(
            "the server's timeline history cannot be read",
            code="TIMELINE_HISTORY_MALFORMED",
            remedy="Look at the .history files in pg_wal: restore the one of the current timeline from the archive.",
        ) from None
