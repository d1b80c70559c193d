"""Where in the stream something stands: (commit_lsn, ordinal), comparable only inside one generation.

`commit_lsn` is the start of the commit record (in BEGIN and COMMIT); `ordinal` counts the transaction's row changes,
truncates and messages from 0. The COMMIT itself stands at ordinal = number of changes, so the position of a whole
transaction differs from the position of its last change, and "is the end of it there?" is a plain comparison.
A change's own LSN is never a position: between interleaved transactions it runs backwards.
"""

from typing import NamedTuple

from tidegate.lsn import Lsn, format_lsn

MAX_ORDINAL = 2**63 - 1


class Position(NamedTuple):
    commit_lsn: Lsn
    ordinal: int

    def __str__(self) -> str:
        return f"{format_lsn(self.commit_lsn)}#{self.ordinal}"


BEGINNING = Position(Lsn(0), 0)
"""Before every change: no commit record stands at 0/0."""


def before(lsn: Lsn) -> Position:
    """The last position before any transaction whose commit record starts at or after `lsn`."""
    return BEGINNING if lsn == 0 else Position(Lsn(lsn - 1), MAX_ORDINAL)
