"""Where a lane comes into a log that does not hold its place: never behind something that it needs and has not got.

| what the lane needs                                       | where it comes in                                  |
| --------------------------------------------------------- | -------------------------------------------------- |
| has a position: all behind that                           | a frame that starts at or before it, or is of the  |
|                                                           | epoch of its ack and not beyond the next of that   |
| required, has nothing, `from: earliest`: all that the     | a slot's first epoch, a re-feed, or a frame that   |
| source kept when the reader began (lineage)               | starts at or before that                           |
| else: nothing                                             | any frame                                          |
| any, where a gap is announced                             | that epoch frame, unless the lane was rewound      |
| has nothing, and was not given the log's first frame      | anew, if it could begin with that one: the brokers |
|                                                           | lost the log after its query had looked            |

A lane that finds none waits, because the reader sees from its ack that it has to feed again; one that is not required
is LOST once it has read all there was, for nobody feeds the log for it. A re-feed that starts too high: LOST.

A lane that was rewound needs again what it has acked, and only its own position counts until it has passed that. The
source may have let go of it long ago, so nobody feeds the log for it either: LOST, REWIND_TRIMMED. Where the log begins
even beyond what the sink has had, that comes first: the rewind is given up, and the lane stands where its sink does.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

from tidegate.config.sinks import SinkConfig, StartFrom
from tidegate.contracts.ack import Ack
from tidegate.contracts.cursor import Cursor
from tidegate.contracts.epoch import EpochMode, EpochRecord
from tidegate.contracts.frame import FrameHeader
from tidegate.contracts.lineage import Lineage
from tidegate.contracts.missed import NONE, Missed
from tidegate.errors import StreamError, TidegateError, TransientError
from tidegate.lsn import Lsn, format_lsn
from tidegate.observability import logs
from tidegate.position import BEGINNING, Position, before
from tidegate_processor.epoch_walk import Seen
from tidegate_processor.ingest import log_lost
from tidegate_processor.kafka_clients import RawTopicView

_LOOK_SECONDS = 1.0

_log = logs.get("lane.place")


@dataclass(slots=True)
class Standing:
    """What the sink has: everything at or below `position`, and every transaction that ends at or below `safe_lsn`."""

    position: Position = BEGINNING
    safe_lsn: Lsn = BEGINNING.commit_lsn
    rewound_from: Position | None = None

    @property
    def is_rewound(self) -> bool:
        return self.rewound_from is not None and self.position < self.rewound_from

    @property
    def has_nothing(self) -> bool:
        return self.position == BEGINNING


class Place:
    def __init__(
        self,
        config: SinkConfig,
        raw: RawTopicView,
        standing: Standing,
        cursor: Cursor | None,
        *,
        acked: Callable[[str], Ack | None],
        lineage: Callable[[], Lineage | None],
        head: Callable[[], Seen | None],
    ) -> None:
        """`head`: the log's first frame."""
        self._config, self._raw, self._standing = config, raw, standing
        self._acked, self._lineage, self._head = acked, lineage, head
        self._here = cursor if cursor and cursor.topic_id == raw.id else None
        self._first_seen: FrameHeader | None = None
        self._look_again = 0.0

    @property
    def was_looked_for(self) -> bool:
        return self._first_seen is not None

    def missed(self, sees_from: int | None) -> Missed:
        """With what retention has taken: `sees_from` is the first offset that it saw, without a place."""
        if self._here is not None:
            return self._here.missed.and_from(self._here.next_offset, sees_from or 0)
        wants_all = self._config.required and self._config.start_from is StartFrom.EARLIEST
        return NONE.and_from(0, sees_from or 0) if wants_all else NONE

    def comes_in(self, header: FrameHeader, record: EpochRecord | None, seen_from: int) -> bool:
        """Whether all that the lane needs stands in this valid frame and behind it. `seen_from`: the first offset that
        the lane has seen."""
        if self._standing.is_rewound and self._first_seen is None and seen_from > self._raw.beginning:
            raise _may_begin_anew()  # Spark's next batch: what is before it decides whether the rewind is given up
        goes_on = self._first_seen is not None and record is not None and record.mode is EpochMode.CONTINUE
        self._first_seen = self._first_seen or header
        if self._standing.is_rewound and not goes_on:
            self._give_up_rewind_behind(header)
        if self._standing.has_nothing:
            return self._may_begin(header, record)
        if record is not None and record.mode is EpochMode.RESNAPSHOT and not self._standing.is_rewound:
            return True
        if record is not None and record.mode is not EpochMode.CONTINUE:
            self.check_no_gap(header, record)
        if record is None and self._stands_before(header):
            return True
        return header.first <= max(self._standing.position, before(self._safe_lsn(header)))

    def check_no_gap(self, header: FrameHeader, record: EpochRecord) -> None:
        """That a re-feed does not start beyond what the sink has."""
        start = record.start_lsn
        if self._standing.is_rewound and self.lacks_what_lies_before(header, record):
            self._give_up_rewind_behind(header)
        if not self.lacks_what_lies_before(header, record):
            return
        if self._standing.is_rewound:
            raise self._rewind_trimmed(f"the log goes on at {format_lsn(start)}")
        has = format_lsn(self._standing.safe_lsn)
        raise StreamError(
            f"the log goes on at {format_lsn(start)}, the sink has everything up to {has}",
            code="GAP_LOST",
            remedy="The raw topic lost what lies between and the source has let it go. Take a new snapshot.",
        )

    def lacks_what_lies_before(self, header: FrameHeader, record: EpochRecord) -> bool:
        """Whether the epoch that begins goes on beyond what the sink has: from a transaction on of which it has a part
        it lacks nothing, for that one comes again whole."""
        has = max(self._safe_lsn(header), self._standing.position.commit_lsn)
        return not self._standing.has_nothing and has < record.start_lsn

    def look(self, seen_from: int, seen_to: int) -> None:
        """Of a lane that waits, having read from one offset to the other: whether it still has to."""
        if self._first_seen is None:
            return
        if self._standing.has_nothing:
            self._look_for_a_beginning(self._first_seen, seen_from)
        elif self._standing.is_rewound and seen_to >= self._raw.end:
            raise self._rewind_trimmed(f"the raw topic begins at {self._first_seen.first}")
        elif not self._config.required and seen_to >= self._raw.end:
            raise StreamError(
                f"the raw topic begins at {self._first_seen.first}, the lane has everything up to "
                f"{self._standing.position}",
                code="RAW_TOPIC_TRIMMED",
                remedy="The frames between are gone, and the source keeps nothing for a sink that is not required. "
                "Take a new snapshot for it, or rewind it to what is left; a longer raw_topic.retention prevents it.",
            )

    def _stands_before(self, header: FrameHeader) -> bool:
        """Whether the sink has acked all that was before this frame, in its epoch: of a lane that has no cursor there,
        for it gave up a rewind."""
        acked = self._acked(header.generation.id)
        if acked is None or self._standing.is_rewound or self._standing.position < acked.position:
            return False
        is_same = (acked.topic_id, acked.epoch) == (self._raw.id, header.epoch)
        return is_same and header.epoch_offset + header.seq <= acked.offset + 1

    def _give_up_rewind_behind(self, header: FrameHeader) -> None:
        standing, acked = self._standing, self._acked(header.generation.id)
        had = standing.rewound_from or standing.position
        had_safe = max(standing.safe_lsn, acked.safe_lsn if acked else Lsn(0))
        if header.first <= max(had, before(had_safe)):
            return
        _log.warning("rewind_given_up", rewound_to=standing.position, raw_topic_begins=header.first, sink_has=had)
        standing.position, standing.safe_lsn, standing.rewound_from = had, had_safe, None

    def _rewind_trimmed(self, what: str) -> StreamError:
        return StreamError(
            f"{what}, the lane was rewound to {self._standing.position}",
            code="REWIND_TRIMMED",
            remedy="Retention took what was to be delivered again. The sink has had it once: rewind the lane to what "
            "is left, its beginning or a later place; a longer raw_topic.retention prevents it.",
        )

    def _look_for_a_beginning(self, first: FrameHeader, seen_from: int) -> None:
        now = time.monotonic()
        if now < self._look_again:
            return
        self._look_again = now + _LOOK_SECONDS
        if self._may_begin(first, None) or (seen_from > self._raw.beginning and self._may_begin_before(seen_from)):
            raise _may_begin_anew()

    def _may_begin_before(self, seen_from: int) -> bool:
        head = self._head()
        if head is None or head.offset >= seen_from:
            return False
        is_valid = head.epoch.is_of(self._raw.id, head.offset) if head.epoch else head.header.is_in_step(head.offset)
        return is_valid and self._may_begin(head.header, head.epoch)

    def _may_begin(self, header: FrameHeader, record: EpochRecord | None) -> bool:
        if not self._config.required or self._config.start_from is not StartFrom.EARLIEST:
            return True
        lineage, here = self._lineage(), (header.generation.id, self._raw.id)
        if lineage is not None and (lineage.generation.id, lineage.topic_id) != here:
            lineage = None
        if record is not None and (record.previous is None or record.mode is not EpochMode.CONTINUE):
            return lineage is None or record.start_lsn <= self._kept_from(lineage)
        return header.first <= before(self._kept_from(lineage))

    def _kept_from(self, lineage: Lineage | None) -> Lsn:
        """Until the reader counts on the sink, what the lineage says is kept is not said of it."""
        if lineage is None or self._config.name not in lineage.required:
            raise TransientError(
                "a new lane does not know yet from where on the reader counts on it",
                code="LINEAGE_UNKNOWN",
                remedy="Nothing, if the reader runs: it says so every second. The lane starts again.",
            )
        return lineage.kept_from

    def _safe_lsn(self, header: FrameHeader) -> Lsn:
        """An idle lane's cursor lags behind its ack, and what lies between has no event for it."""
        if self._standing.is_rewound:
            return self._standing.safe_lsn
        acked = self._acked(header.generation.id)
        return max(self._standing.safe_lsn, acked.safe_lsn if acked else Lsn(0))


def _may_begin_anew() -> TransientError:
    return TransientError(
        "the lane may begin with what the raw topic holds now",
        code="LANE_MAY_BEGIN",
        remedy="Nothing: the lane starts anew, at the raw topic's beginning.",
    )


def cursor_missing(sink: str, *, is_back: bool) -> TidegateError:
    """Of a lane that has acked what this topic holds."""
    if is_back:
        return TransientError(
            "another incarnation of this lane was at work",
            code="LANE_OVERTAKEN",
            remedy="Nothing: the lane starts anew at the cursor that is there now.",
        )
    return StreamError(
        f"sink {sink} has acked in this generation, but its cursor is gone",
        code="CURSOR_MISSING",
        remedy="The consumer group expired or was reset. Everything that the raw topic holds would be sent "
        "again: accept that by giving the sink a new name, or restore the group's offset.",
    )


def check_not_truncated(cursor: Cursor | None, raw: RawTopicView) -> None:
    if cursor is not None and cursor.topic_id == raw.id and cursor.next_offset > raw.end:
        raise log_lost(cursor.next_offset, f"and ends at {raw.end}")
