"""What a lane says when it goes on behind a gap: changes that its sink has not had, and that nobody has any more.

The reader announces it with an epoch frame and reads all tables again behind it (decision 25); nothing else may be
passed over.
"""

from tidegate.contracts.epoch import EpochMode
from tidegate.errors import TransientError
from tidegate.lsn import format_lsn
from tidegate.observability import logs
from tidegate_processor.counters import Counters
from tidegate_processor.ingest import Taken
from tidegate_processor.place import Place, Standing

_log = logs.get("lane")


class Gaps:
    """Those that one lane passes."""

    def __init__(self, sink: str, place: Place, counters: Counters) -> None:
        self._sink, self._place, self._counters = sink, place, counters

    def passes(self, taken: Taken, has: Standing) -> bool:
        """Whether with this frame the sink goes on behind what it has not had."""
        record = taken.epoch
        if record is None or record.mode is not EpochMode.RESNAPSHOT:
            return False
        if not self._place.lacks_what_lies_before(taken.frame.header, record):
            return False
        self._counters.gaps += 1
        _log.warning(
            "gap_passed",
            sink=self._sink,
            sink_has=str(has.position),
            sink_has_all_to=format_lsn(has.safe_lsn),
            goes_on=format_lsn(record.start_lsn),
            reason=record.gap.reason if record.gap else "",
            snapshot=record.gap.snapshot if record.gap else "",
        )
        return True


def rows_may_be_older() -> TransientError:
    return TransientError(
        "a gap was passed, and what is remembered of rows may be older",
        code="LANE_FORGETS",
        remedy="Nothing: the lane starts anew behind the gap, and remembers what it sees from there on.",
    )
