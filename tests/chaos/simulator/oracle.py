"""Knows everything that really happened, and compares.

Invariant: nothing here uses a decision of the code under test; positions come from the server model, validity of
frames from the topic model, durability from the sink models.
"""

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from chaos.simulator.gaps import Announced, announced_by, pass_gaps
from chaos.simulator.kafka import RawTopic, Record
from chaos.simulator.postgres import Change, Committed, Slot
from chaos.simulator.sink import Batch

from tidegate.contracts.ack import Ack
from tidegate.contracts.cursor import decode_cursor
from tidegate.contracts.lineage import Lineage
from tidegate.lsn import ZERO, Lsn, format_lsn
from tidegate.position import Position


class Violation(Exception):
    """`invariant` as named in the design; `what` has no numbers in it, so that equal failures have equal names."""

    def __init__(self, invariant: str, what: str, detail: str) -> None:
        super().__init__(invariant, what, detail)
        self.invariant, self.what, self.detail = invariant, what, detail

    @property
    def name(self) -> str:
        return f"{self.invariant} {self.what}"

    def __str__(self) -> str:
        return f"{self.name}: {self.detail}"


@dataclass(slots=True)
class LaneLedger:
    name: str
    required: bool
    have: set[Position] = field(default_factory=set)
    complete: int = 0
    """Transactions, from the first, that are durable with all their changes."""
    last: Position | None = None
    suffix_from: Position | None = None
    """A best-effort lane began here, where the log began: what started before is none of its business."""
    repeats_until: Position | None = None
    """After a rewind, what was delivered before comes again."""
    events: int = 0
    letters: int = 0
    excused: set[Lsn] = field(default_factory=set)
    """Transactions in a gap that was announced, and that this lane has passed."""
    passed: set[Announced] = field(default_factory=set)
    place: tuple[tuple[str, bool], int] = (("", False), 0)
    """Of its committed cursor: the topic's life, and the next offset."""
    counts: bool = False
    """The newest reader has said that the gate counts on it."""
    joined_at: Lsn = ZERO
    """What was confirmed by then: it is owed what commits from there on, and whatever it had begun with."""
    is_late: bool = False
    """It came while the fleet ran."""
    has_left: bool = False
    """And may have come back."""
    is_recorded: bool = False
    """That it is not required any more, since it was the last time."""
    is_in_file: bool = True

    @property
    def is_owed_all(self) -> bool:
        """It was there at the beginning, and was counted on ever since."""
        return self.counts and not self.is_late and self.joined_at == ZERO


class Oracle:
    def __init__(self, lanes: Sequence[tuple[str, bool]]) -> None:
        self.lanes = {name: LaneLedger(name, required, counts=required) for name, required in lanes}
        self.expected: list[Committed] = []
        self.is_forked = False
        self.forked_at = Lsn(0)
        """What commits behind it in the history before is not in the new one."""
        self.is_unknowable = False
        """Another server, and nothing is left that could tell."""
        self.moved_floor = Lsn(0)
        """confirmed_flush was moved here by somebody else."""
        self.excused_below = Lsn(0)
        """Somebody else moved the slot here while nobody was left to know where it had been."""
        self.confirms = 0
        self.topic: RawTopic | None = None
        self.gaps: list[Announced] = []
        self._newest: tuple[str, int] = ("", 0)
        self._changes: dict[Position, tuple[Committed, Change]] = {}
        self._ends: dict[Position, Lsn] = {}
        self._ids: dict[str, tuple[Position, int]] = {}
        self._id_of: dict[Position, str] = {}
        self._top: dict[str, Ack] = {}
        self._floor: dict[tuple[str, str], Ack] = {}

    def begin_anew(self) -> None:
        """The slot went before anything was read from it: the pipeline begins with its next one."""
        self.expected.clear()

    def committed(self, entry: Committed) -> None:
        self.expected.append(entry)
        self._ends[entry.position(len(entry.changes))] = entry.end_lsn
        for ordinal, change in enumerate(entry.changes):
            if change.relation is not None:
                self._changes[entry.position(ordinal)] = (entry, change)

    def applied(self, lane: LaneLedger, batch: Batch) -> None:
        if self.is_unknowable:
            return
        for event in batch.events:
            change = self._known(lane, event.position)
            if change.mark not in event.value:
                raise Violation("I5", "an event with another row's content", f"{lane.name} {event.position}")
            self._check_id(lane, event.id, event.position, hash(event.value))
            self._check_order(lane, event.position)
            lane.events += 1
        if self.topic is not None:
            pass_gaps(lane, decode_cursor(batch.cursor), self.topic, self)
        for letter in batch.letters:
            change = self._known(lane, letter.position)
            if not change.is_poison or letter.payload != change.message:
                raise Violation("I1", "a good row in the dead letters", f"{lane.name} {letter.position}")
            lane.have.add(letter.position)
            lane.letters += 1

    def logged(self, record: Record) -> None:
        """A frame that ends with a COMMIT lets the source forget all of that transaction."""
        gap = announced_by(record, self.topic, self) if self.topic is not None else None
        if gap is not None:
            self.gaps.append(gap)
        header = record.header
        ended = self._ends.get(header.last)
        if record.is_valid and ended is not None and header.messages and header.safe_lsn < ended:
            detail = f"offset {record.offset} at {header.last} says {format_lsn(header.safe_lsn)}, not {ended:X}"
            raise Violation("I9", "a finished transaction that is never let go", detail)

    def rewound(self, lane: LaneLedger, position: Position) -> None:
        lane.repeats_until = max([p for p in (lane.last, lane.repeats_until) if p is not None], default=None)
        lane.last = position

    def acked(self, ack: Ack) -> None:
        lane = self.lanes[ack.sink]
        before = self._floor.get((ack.generation, ack.sink))
        if before is not None and (ack.position < before.position or ack.safe_lsn < before.safe_lsn):
            raise Violation("I12", "an ack went back", f"{ack.sink} {before.position} to {ack.position}")
        self._floor[ack.generation, ack.sink] = ack
        if self.topic is not None:
            pass_gaps(lane, ack, self.topic, self)
        pending = None if self.is_unknowable else self.pending(lane)
        if pending is not None and (pending.commit_lsn < ack.safe_lsn or self._missing(lane, ack.position)):
            detail = f"{lane.name} acks {ack.position} safe {format_lsn(ack.safe_lsn)}, lacks {_text(pending)}"
            raise Violation("I3", "ack beyond what is durable", detail)
        top = self._top.get(ack.sink)
        if top is None or ack.safe_lsn > top.safe_lsn:
            self._top[ack.sink] = ack

    def named(self, lineage: Lineage, confirmed: Lsn, *, is_forgotten: bool) -> None:
        """A reader says on whom its gate counts; an older one that still runs says nothing new. `is_forgotten`: who
        counted before is not for it to know."""
        generation, epoch = self._newest
        if lineage.generation.id == generation and lineage.epoch < epoch:
            return
        self._newest = lineage.generation.id, lineage.epoch
        for lane in self.lanes.values():
            counts = lane.name in lineage.required
            if counts and not lane.counts:
                lane.joined_at, lane.is_recorded = confirmed, False
            if lane.counts and not (counts or lane.is_recorded or is_forgotten or not generation):
                raise Violation("I3", "a required sink was let go without a record", lane.name)
            lane.counts = counts

    def recorded(self, entry: bytes) -> None:
        self.lanes[json.loads(entry)["path"].removeprefix("/sinks/")].is_recorded = True

    def is_joining(self, lane: LaneLedger) -> bool:
        """Whether it has not reached yet what was confirmed when it came."""
        top = self._top.get(lane.name)
        return lane.joined_at > ZERO and (top is None or top.safe_lsn < lane.joined_at)

    def acks_forgotten(self) -> None:
        """Redis was rolled back or lost: within what it still knows, acks grow from there."""
        self._floor.clear()

    def confirmed(self, flush: Lsn) -> None:
        self.confirms += 1
        for lane in self._required():
            ack = self._top.get(lane.name)
            if flush <= lane.joined_at:
                continue
            if ack is None or ack.safe_lsn < flush:
                has = format_lsn(ack.safe_lsn) if ack else "nothing"
                raise Violation(
                    "I3", "confirmed beyond an ack", f"{format_lsn(flush)} confirmed, {lane.name} has {has}"
                )

    def check(self, slot: Slot | None) -> None:
        """At every step."""
        if slot is None or self.is_forked or slot.confirmed <= self.moved_floor:
            return
        for lane in self._required():
            pending = self.pending(lane) if slot.confirmed > lane.joined_at else None
            if pending is not None and pending.commit_lsn < slot.confirmed:
                detail = f"{format_lsn(slot.confirmed)} confirmed, {lane.name} lacks {_text(pending)}"
                raise Violation("I3", "confirmed beyond what is durable", detail)

    def pending(self, lane: LaneLedger) -> Committed | None:
        self._advance(lane)
        return self.expected[lane.complete] if lane.complete < len(self.expected) else None

    def is_lost(self, lane: LaneLedger, slot: Slot | None, topic: RawTopic) -> bool:
        """Whether a change that this lane needs is nowhere any more."""
        if self.is_forked:
            return True
        if not lane.counts:
            slot = None  # the source keeps nothing for it
        self._advance(lane)
        held = [
            (record.header.first, record.header.last)
            for record in topic.available()
            if record.is_valid and record.header.messages
        ]
        for entry in self.expected[lane.complete :]:
            if slot is not None and entry.commit_lsn >= slot.confirmed:
                return False
            if entry.commit_lsn in lane.excused:
                continue
            for position in entry.positions:
                if position not in lane.have and not any(first <= position <= last for first, last in held):
                    return True
        return False

    def required_is_lost(self, slot: Slot | None, topic: RawTopic, named: Collection[str]) -> bool:
        """Of those whom the reader counts on, or would count on by the file as it is, or as it has read it."""
        asked = [
            lane
            for lane in self.lanes.values()
            if lane.counts or (lane.required and (lane.is_in_file or lane.name in named))
        ]
        return any(self.is_lost(lane, slot, topic) for lane in asked)

    def _required(self) -> list[LaneLedger]:
        return [lane for lane in self.lanes.values() if lane.counts]

    def _known(self, lane: LaneLedger, position: Position) -> Change:
        known = self._changes.get(position)
        if known is None:
            what = "a change of another history" if self.is_forked else "a change that never committed"
            raise Violation("I8" if self.is_forked else "I2", what, f"{lane.name} {position}")
        return known[1]

    def _check_id(self, lane: LaneLedger, event_id: str, position: Position, content: int) -> None:
        if self._ids.setdefault(event_id, (position, content)) != (position, content):
            raise Violation("I5", "one id, different bytes", f"{lane.name} {position} {event_id}")
        if self._id_of.setdefault(position, event_id) != event_id:
            raise Violation("I5", "one change, different ids", f"{lane.name} {position} {event_id}")

    def _check_order(self, lane: LaneLedger, position: Position) -> None:
        if position in lane.have and (lane.repeats_until is None or position > lane.repeats_until):
            raise Violation("I5", "a duplicate in a transactional sink", f"{lane.name} {position}")
        if lane.last is not None and position <= lane.last:
            raise Violation("I4", "events out of order", f"{lane.name} {position} after {lane.last}")
        lane.last = position
        lane.have.add(position)

    def _advance(self, lane: LaneLedger) -> None:
        expected = self.expected
        while lane.complete < len(expected) and self._is_done(lane, expected[lane.complete]):
            lane.complete += 1

    def _is_done(self, lane: LaneLedger, entry: Committed) -> bool:
        is_owed = lane.counts and entry.commit_lsn >= lane.joined_at
        if lane.suffix_from is not None and entry.position(0) < lane.suffix_from and not is_owed:
            return True
        if entry.commit_lsn < self.excused_below or entry.commit_lsn in lane.excused:
            return True
        return lane.have.issuperset(entry.positions)

    def _missing(self, lane: LaneLedger, upto: Position) -> bool:
        entry = self.pending(lane)
        return entry is not None and any(p <= upto and p not in lane.have for p in entry.positions)


def _text(entry: Committed) -> str:
    return f"xid {entry.xid} at {format_lsn(entry.commit_lsn)}-{format_lsn(entry.end_lsn)}"
