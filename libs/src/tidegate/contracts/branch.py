"""Where in the server's history an epoch works: a generation outlives a failover, its timeline then is another one.

It stands in the epoch frame and in the lineage; what an older reader wrote lacks it, and is of the generation's own
timeline.
"""

from dataclasses import dataclass, replace

from tidegate.lsn import Lsn, format_lsn, parse_lsn


@dataclass(frozen=True, slots=True)
class Branch:
    timeline: int
    begins: Lsn | None
    """Where it begins by the server's own history; None on the first, or if the server does not know."""
    left: int
    """Timeline of the epoch before: another one where this epoch made the step."""
    fork: Lsn | None
    """Where that one was left, if it was."""
    offset: int
    """Where the epoch frame was to land. If it is elsewhere, somebody wrote after the step was judged."""

    @property
    def is_step(self) -> bool:
        return self.left != self.timeline

    def settled(self) -> "Branch":
        """Once the epoch frame is where it was to be."""
        return replace(self, left=self.timeline, fork=None)

    def to_json(self) -> dict[str, object]:
        return {
            "timeline": self.timeline,
            "begins": _text(self.begins),
            "left": self.left,
            "fork": _text(self.fork),
            "offset": self.offset,
        }


def decode_branch(members: object) -> Branch | None:
    """ValueError or KeyError if it is no branch."""
    if members is None:
        return None
    if not isinstance(members, dict):
        raise ValueError("not an object")
    timeline, left, offset = (_number(members[name]) for name in ("timeline", "left", "offset"))
    return Branch(timeline, _lsn(members["begins"]), left, _lsn(members["fork"]), offset)


def _number(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError("not a number")
    return value


def _text(lsn: Lsn | None) -> str | None:
    return None if lsn is None else format_lsn(lsn)


def _lsn(text: object) -> Lsn | None:
    if text is not None and not isinstance(text, str):
        raise ValueError("not an LSN")
    return None if text is None else parse_lsn(text)
