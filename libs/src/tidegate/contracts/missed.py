"""Raw offsets that a lane never saw: retention had taken them before it came to read them.

Whether a change was among them positions tell. Rows of a snapshot move none, so of these only the offsets tell, and the
reader reads again what such a lane may lack (docs/decisions/0070-snapshots-travel-in-the-raw-topic.md).
"""

from collections.abc import Mapping
from typing import NamedTuple, Self


class Missed(NamedTuple):
    """Of one raw topic, as one stretch: what lies between two of them counts too."""

    begin: int = 0
    end: int = 0

    def and_from(self, begin: int, end: int) -> Self:
        if begin >= end:
            return self
        return self._replace(begin=min(begin, self.begin) if self.end else begin, end=max(end, self.end))

    @property
    def members(self) -> dict[str, object]:
        return {"missed_from": self.begin, "missed_to": self.end} if self.end else {}


NONE = Missed()


def missed_of(document: Mapping[str, object]) -> Missed:
    begin, end = document.get("missed_from", 0), document.get("missed_to", 0)
    if type(begin) is not int or type(end) is not int or not 0 <= begin <= end:
        raise ValueError("no offsets")
    return Missed(begin, end)
