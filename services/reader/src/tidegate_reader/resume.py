"""Where a run begins: from the raw topic's end, the slot, and the acks. Pure, so that every case is a line in a test.

`low` of a required sink: its ack's safe_lsn; a sink without an ack needs what the slot still has. If the gate counted
on it before, and the slot has moved all the same, it was not us: `low` is where the slot stood then (lineage).

| raw topic | slot and acks | decision |
| --- | --- | --- |
| empty | slot just created | continue from the slot's first LSN |
| empty | slot existed, no `low` below where the server starts | re-feed, in the generation before (lineage) |
| empty | a `low` below where the server starts | LOST |
| has but epoch frames that were written for another topic or place | | as if empty |
| of another cluster, database or slot | | LOST; of another timeline: `failover` |
| ahead of the server's WAL, or acks are | | LOST: the server's history is another one |
| holds everything from every `low` on | | continue: skip to the tail |
| does not | no `low` below where the server starts | re-feed: the server has it all |
| does not | a `low` below where the server starts | LOST: nobody has what lies between |
| ends below where the server starts | every required sink has an ack from there on | re-feed |
| ends below where the server starts | else | LOST: the slot was made anew, or the brokers lost the newest frames |
| announces a gap, in a frame that is left | a sink that has not passed it | holds everything for that sink |

A loss within the same history may be announced instead (`behind_the_gap`), where that is configured (decision 25).
While it runs, a reader looks whether the raw topic still holds what required sinks need. If retention overtakes one, it
ends, and its next start decides by this table: only a re-feed of its own does not have to be fed again.

Invariant: `skip_to` is above the beginning only if what is skipped can be read in the raw topic by every required sink.
"""

import hashlib
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tidegate.contracts.ack import Ack
from tidegate.contracts.epoch import EpochMode, PreviousEpoch
from tidegate.contracts.frame import FrameKind
from tidegate.contracts.gap import Gap, GapReason
from tidegate.contracts.generation import NONCE_BYTES, Generation
from tidegate.contracts.lineage import Lineage
from tidegate.errors import StreamError
from tidegate.lsn import Lsn, format_lsn
from tidegate.position import BEGINNING, MAX_ORDINAL, Position, before
from tidegate_reader.raw_log import RawLog
from tidegate_reader.tail import Tail, reach_of

GAP_LOST = "GAP_LOST"
BEGIN_ANEW = "begin anew: drop the slot, `tidegate pipelines forget`, and take a new snapshot for the sinks."
_BIRTH = struct.Struct(">Q")


@dataclass(frozen=True, slots=True)
class SourceIdentity:
    system_identifier: int
    timeline: int
    database: str
    slot: str


@dataclass(frozen=True, slots=True)
class SlotStart:
    confirmed: Lsn
    started: Lsn
    """What START_REPLICATION named; the server starts at the higher of the two."""
    wal_end: Lsn
    created: bool

    @property
    def lsn(self) -> Lsn:
        return max(self.confirmed, self.started)


@dataclass(frozen=True, slots=True)
class Plan:
    mode: EpochMode
    number: int
    previous: PreviousEpoch | None
    position: Position
    """Of the epoch frame: the stream goes on behind it."""
    safe_lsn: Lsn
    """Known to be in the raw topic, or with every required sink."""
    skip_to: Position
    kept_from: Lsn
    """What a sink without an ack is owed begins here."""
    gap: Gap | None = None
    """Announced by this epoch, or by one before in a frame that is left."""


def generation_of(source: SourceIdentity, log: RawLog, lineage: Lineage | None, born: Lsn) -> Generation:
    """The raw topic's own if it is of this slot; if the topic is empty, the one that was worked in last, or a new one.

    Its nonce comes from where the slot stood then, so that two readers of an empty topic draw the same one, and a slot
    that was made anew another.
    """
    known = known_generation(source, log, lineage)
    nonce = hashlib.blake2b(_BIRTH.pack(born), digest_size=NONCE_BYTES).digest()
    return known or _generation(source, nonce)


def known_generation(source: SourceIdentity, log: RawLog, lineage: Lineage | None) -> Generation | None:
    """Whatever the server's timeline is now: that is `failover`'s to judge."""
    known = log.newest.generation if log.newest else lineage.generation if lineage else None
    if known is not None and known != _generation(replace(source, timeline=known.timeline), known.nonce):
        raise StreamError(
            "the pipeline belongs to another cluster, database or slot",
            code="GENERATION_CHANGED",
            remedy="Positions of two histories do not compare. Point the source at the server that the raw topic comes "
            f"from, or {BEGIN_ANEW}",
        )
    return known


def start_lsn(acks: Mapping[str, Ack], required: Sequence[str], log: RawLog) -> Lsn:
    """Our durable ack, for START_REPLICATION; 0/0 leaves it to the slot.

    Not above the raw topic's last transaction: sent again, it shows whose history the server tells.
    """
    if log.tail is None or not required or any(sink not in acks for sink in required):
        return Lsn(0)
    return min(log.tail.position.commit_lsn, *(acks[sink].safe_lsn for sink in required))


def plan(
    slot: SlotStart,
    acks: Mapping[str, Ack],
    required: Sequence[str],
    log: RawLog,
    topic_id: str,
    lineage: Lineage | None = None,
    *,
    now: int,
) -> Plan:
    """`now`: unix milliseconds."""
    tail = log.tail
    overrun = _overrun(slot, acks, required, lineage)
    kept_from = lineage.kept_from if lineage and overrun else slot.lsn
    behind = overrun + [sink for sink in required if sink in acks and acks[sink].safe_lsn < slot.lsn]
    check_reach(slot.wal_end, acks, log)
    if tail is None:
        if behind:
            raise _lost(behind, slot.lsn)
        mode = EpochMode.CONTINUE if slot.created else EpochMode.REFEED
        number = _first_number(acks, log, lineage, now if mode is EpochMode.REFEED else 0)
        return Plan(mode, number, None, _last_before(slot.lsn, acks, required), slot.lsn, BEGINNING, kept_from)
    previous, number, told = _previous(tail), _next_number(acks, tail.number), log.gap
    if slot.lsn <= tail.safe_lsn:
        missing = uncovered(log, topic_id, acks, required, kept_from)
        if not missing:
            place = tail.position, tail.safe_lsn, tail.position
            return Plan(EpochMode.CONTINUE, number, previous, *place, kept_from, told)
        lost = [sink for sink in missing if sink in behind]
    else:
        lost = [sink for sink in required if sink not in acks or acks[sink].safe_lsn < slot.lsn]
        lost = lost if required else ["the raw topic"]
    if lost:
        raise _lost(lost, slot.lsn)
    position = _last_before(slot.lsn, acks, required)
    return Plan(EpochMode.REFEED, number, previous, position, slot.lsn, BEGINNING, kept_from, told)


def _last_before(start: Lsn, acks: Mapping[str, Ack], required: Sequence[str]) -> Position:
    """The last transaction before a re-feed, by a sink that has all before it: so that the raw topic, which lost its
    own, tells the next start by what to know the server's history. Between the two lies nothing."""
    told = [acks[sink].position for sink in required if sink in acks and acks[sink].safe_lsn >= start]
    return max((each for each in told if each.commit_lsn < start and each.ordinal < MAX_ORDINAL), default=before(start))


def behind_the_gap(
    slot: SlotStart,
    acks: Mapping[str, Ack],
    log: RawLog,
    lineage: Lineage | None,
    *,
    snapshot: str,
    reason: GapReason,
    now: int,
) -> Plan:
    """The stream from where the slot stands, whatever sinks have: a snapshot brings what they lack. Only within one
    history, which whoever calls this has looked at."""
    check_reach(slot.wal_end, acks, log)
    tail = log.tail
    previous = _previous(tail) if tail else None
    number = _next_number(acks, tail.number) if tail else _first_number(acks, log, lineage, now)
    gap = Gap(slot.lsn, log.end, snapshot, reason)
    return Plan(EpochMode.RESNAPSHOT, number, previous, before(slot.lsn), slot.lsn, BEGINNING, slot.lsn, gap)


def check_reach(wal_end: Lsn, acks: Mapping[str, Ack], log: RawLog) -> None:
    """Raises if anybody has more than the server."""
    sinks = (reach_of(ack.position, ack.safe_lsn) for ack in acks.values())
    reached = max([log.tail.reach if log.tail else Lsn(0), log.told.reached if log.told else Lsn(0), *sinks])
    if reached > wal_end:
        raise _ahead(reached, wal_end)


def _previous(tail: Tail) -> PreviousEpoch:
    return PreviousEpoch(tail.number, tail.epoch_offset, tail.last_seq, tail.last_offset)


def _overrun(slot: SlotStart, acks: Mapping[str, Ack], required: Sequence[str], lineage: Lineage | None) -> list[str]:
    """Sinks that have acked nothing since the gate counts on them, and yet the slot has moved: we did not do it."""
    if lineage is None or slot.lsn <= lineage.kept_from:
        return []
    return [sink for sink in required if sink in lineage.unacked and sink not in acks]


def uncovered(
    log: RawLog, topic_id: str, acks: Mapping[str, Ack], required: Sequence[str], kept_from: Lsn
) -> list[str]:
    """Required sinks that do not find in the raw topic everything that they do not have yet. One without an ack needs
    what the source keeps."""
    return [sink for sink in required if not _covers(log, topic_id, acks.get(sink), kept_from)]


def _generation(source: SourceIdentity, nonce: bytes) -> Generation:
    return Generation(source.system_identifier, source.timeline, source.database, source.slot, nonce)


def _next_number(acks: Mapping[str, Ack], known: int) -> int:
    """Above every epoch that anybody has seen, also one whose frames the topic has lost."""
    return 1 + max([known, *(ack.epoch for ack in acks.values())])


def _first_number(acks: Mapping[str, Ack], log: RawLog, lineage: Lineage | None, now: int) -> int:
    """In an empty topic, which has never had more epochs than records. Where nobody remembers the numbers lanes still
    may: a clock counts faster than epochs begin."""
    known = log.foreign.epoch if log.foreign else 0
    return _next_number(acks, max(log.end, known, lineage.epoch if lineage else now - 1))


def _covers(log: RawLog, topic_id: str, ack: Ack | None, kept_from: Lsn) -> bool:
    if log.beginning == log.end:
        return ack is not None and ack.topic_id == topic_id and log.end <= ack.offset + 1
    if log.first is None or log.tail is None:
        return False
    if log.gap is not None and (ack is None or ack.safe_lsn < log.gap.lsn):
        return True  # it comes in where the gap is announced, if not before
    if ack is not None and ack.topic_id == topic_id and log.beginning <= ack.offset + 1:
        # A lane in an older epoch has no business behind the newest one's beginning: it took what is void.
        return ack.epoch >= log.tail.number or ack.offset < log.tail.epoch_offset
    # The first frame of a trimmed log may be void; only of the newest epoch it is known not to be.
    begins_here = log.beginning == 0 and log.first.kind is FrameKind.EPOCH
    is_valid = begins_here or log.first.epoch == log.tail.number
    return is_valid and log.first.first <= (ack.position if ack else before(kept_from))


def _ahead(reached: Lsn, wal_end: Lsn) -> StreamError:
    return StreamError(
        f"raw topic and sinks reach to {format_lsn(reached)}, the server's WAL only to {format_lsn(wal_end)}",
        code="SOURCE_WENT_BACK",
        remedy="The server was restored from a backup or lost its newest WAL. What the sinks have beyond that point "
        f"does not exist there. Decide which history is right; for the server's, {BEGIN_ANEW}",
    )


def _lost(sinks: Sequence[str], start: Lsn) -> StreamError:
    return StreamError(
        f"the slot starts at {format_lsn(start)}, beyond what {', '.join(sinks)} has, and the raw topic does not "
        "hold what lies between",
        code=GAP_LOST,
        remedy=f"Set required: false for these sinks if the gap is accepted, or {BEGIN_ANEW}",
    )
