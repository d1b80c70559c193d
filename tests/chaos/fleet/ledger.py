"""O1: what the writers were told about their transactions, and which tokens each wrote.

Invariant: an outcome is entered only when it is known. `INFO` is a COMMIT that was sent and never answered: only the
server knows.
"""

import threading
from dataclasses import dataclass, field
from enum import StrEnum


class Outcome(StrEnum):
    OK = "ok"
    INFO = "info"
    FAIL = "fail"


@dataclass(slots=True)
class Entry:
    writer: int
    xid: int
    tokens: list[str] = field(default_factory=list)
    """In the order written; those of aborted savepoints are not among them."""
    undone: list[str] = field(default_factory=list)
    outcome: Outcome = Outcome.INFO


class Ledger:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: list[Entry] = []
        self.counts = dict.fromkeys(Outcome, 0)

    def enter(self, entry: Entry, outcome: Outcome) -> None:
        entry.outcome = outcome
        with self._lock:
            self._entries.append(entry)
            self.counts[outcome] += 1

    def take(self) -> list[Entry]:
        """What was entered since the last call."""
        with self._lock:
            entries, self._entries = self._entries, []
            return entries

    @property
    def committed(self) -> int:
        return self.counts[Outcome.OK]
