"""Whether the pipeline may go on, on the timeline that the server is on. Pure, so that every case is a line in a test.

*Base* is the timeline that the raw topic's frames prove, *highest* the highest that anybody has said (decision 24).

| the server's timeline | and | verdict |
| --- | --- | --- |
| any | in recovery, and its slot is kept in step with a primary's | start again: not promoted yet |
| below highest | | an old primary |
| base | it begins elsewhere than ours does | forked |
| base | else | goes on |
| above base | it is in recovery, before 17, or the slot is not one that was kept in step | unproven |
| above base | base is no ancestor of it, or began elsewhere | forked |
| above base | the raw topic holds no valid frame | unproven |
| above base | the raw topic or an ack reaches beyond where base was left | forked |
| above base | else | goes on: a step |

Invariant: after a step, all that the raw topic and the sinks have is in the server's own history.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tidegate.contracts.ack import Ack
from tidegate.contracts.branch import Branch
from tidegate.contracts.generation import Generation
from tidegate.contracts.lineage import Lineage
from tidegate.errors import StreamError, TransientError
from tidegate.lsn import Lsn, format_lsn
from tidegate.preflight.slot import OLDEST_FAILOVER, SlotState
from tidegate_reader.raw_log import RawLog
from tidegate_reader.resume import BEGIN_ANEW
from tidegate_reader.sources.postgres_wal.failures import LOST_REMEDY
from tidegate_reader.tail import reach_of
from tidegate_reader.timelines import History

_STAY = "Point the source at the server that the pipeline was read from last"


@dataclass(frozen=True, slots=True)
class Promoted:
    """The server as it stands there, promoted or not."""

    timeline: int
    history: History | None
    """Of that timeline; None if there is none, or the server does not have it any more."""
    is_in_recovery: bool
    version: int
    slot: SlotState | None


@dataclass(frozen=True, slots=True)
class Stand:
    """Where the pipeline is known to be."""

    base: int
    begins: Lsn | None
    highest: int


def branch_of(
    server: Promoted, generation: Generation, log: RawLog, lineage: Lineage | None, acks: Mapping[str, Ack]
) -> Branch:
    """Where the next epoch works; its frame is to land at the end of this log."""
    stand = stand_of(generation, log, lineage)
    if server.timeline < stand.highest:
        raise _old_primary(server.timeline, stand.highest)
    begins = server.history.begins if server.history else None
    if server.timeline == stand.base:
        _check_beginning(server.timeline, begins, stand.begins)
        return Branch(server.timeline, begins, server.timeline, None, log.end)
    _check_slot(server)
    fork = _fork(server, stand)
    _check_reach(server.timeline, fork, log, acks)
    return Branch(server.timeline, begins, stand.base, fork, log.end)


def is_step(server: Promoted, generation: Generation, log: RawLog, lineage: Lineage | None) -> bool:
    return server.timeline > stand_of(generation, log, lineage).base


def refuse_unpromoted(server: Promoted) -> None:
    if server.is_in_recovery and server.slot is not None and server.slot.synced:
        raise TransientError(
            f"the server is a standby, which keeps slot {server.slot.name} in step and lets nobody read it",
            code="SOURCE_NOT_PROMOTED",
            remedy="Promote it, or point the source at the primary; the reader tries again.",
        )


def stand_of(generation: Generation, log: RawLog, lineage: Lineage | None) -> Stand:
    """By the newest epoch frame; where retention has taken it, or the topic is empty, by the lineage."""
    said = lineage.branch if lineage is not None and lineage.generation == generation else None
    told = log.told.branch if log.told is not None else None
    highest = max([generation.timeline, *(each.timeline for each in (said, told) if each is not None)])
    if log.tail is None or log.tail.epoch_offset < log.beginning:
        told = said
    if told is None:
        return Stand(generation.timeline, None, highest)
    has_landed = log.tail is not None and log.tail.epoch_offset == told.offset
    if told.is_step and not has_landed:
        return Stand(told.left, None, highest)
    return Stand(told.timeline, told.begins, highest)


def _check_slot(server: Promoted) -> None:
    slot = server.slot
    if slot is None:
        raise StreamError(
            f"the server was promoted to timeline {server.timeline}, and the slot did not come along",
            code="SLOT_MISSING",
            remedy=LOST_REMEDY,
        )
    lacks = [
        what
        for is_so, what in (
            (server.is_in_recovery, "it is a standby"),
            (server.version < OLDEST_FAILOVER, "slots follow a failover from PostgreSQL 17 on"),
            (not slot.failover, "its slot does not have failover set"),
            (not slot.synced, "its slot was not kept in step with a primary's"),
            (slot.temporary, "its slot was not in step yet"),
            (slot.invalidated is not None, "its slot is invalidated"),
        )
        if is_so
    ]
    if lacks:
        raise _unproven(server.timeline, "; ".join(lacks))


def _fork(server: Promoted, stand: Stand) -> Lsn:
    """Where the server's history left base."""
    left = server.history.left(stand.base) if server.history else None
    if server.history is None or left is None:
        raise _forked(f"timeline {server.timeline} of the server does not descend from timeline {stand.base}")
    _check_beginning(stand.base, server.history.began(stand.base), stand.begins)
    return left


def _check_beginning(timeline: int, theirs: Lsn | None, ours: Lsn | None) -> None:
    if theirs is not None and ours is not None and theirs != ours:
        raise _forked(
            f"the server's timeline {timeline} begins at {format_lsn(theirs)}, the one that the pipeline was read from "
            f"at {format_lsn(ours)}: two servers were promoted"
        )


def _check_reach(timeline: int, fork: Lsn, log: RawLog, acks: Mapping[str, Ack]) -> None:
    if log.told is None:
        raise _unproven(
            timeline, "the raw topic holds no frame that counts, so nobody knows how far the sinks have come"
        )
    beyond = [f"{what} reaches to {format_lsn(lsn)}" for what, lsn in _reaches(log, acks) if lsn > fork]
    if beyond:
        raise _forked(f"the server left the common history at {format_lsn(fork)}, and {', '.join(beyond)}")


def _reaches(log: RawLog, acks: Mapping[str, Ack]) -> Iterator[tuple[str, Lsn]]:
    if log.told is not None:
        yield "the raw topic", log.told.reached
    for sink, ack in acks.items():
        yield f"sink {sink}", reach_of(ack.position, ack.safe_lsn)


def _old_primary(timeline: int, highest: int) -> StreamError:
    return StreamError(
        f"the server is on timeline {timeline}, the pipeline has gone on to timeline {highest}: an old primary",
        code="SOURCE_OLD_PRIMARY",
        remedy=f"{_STAY}, and shut the old primary down or make a standby of it (pg_rewind). What it has written since "
        "is not the pipeline's history.",
    )


def _unproven(timeline: int, why: str) -> StreamError:
    return StreamError(
        f"the server was promoted or restored, to timeline {timeline}; that it goes on where the pipeline is cannot be "
        f"proven: {why}",
        code="FAILOVER_UNPROVEN",
        remedy=f"{_STAY}, or {BEGIN_ANEW} For the next failover: PostgreSQL 17, source.slot.failover, and "
        "sync_replication_slots on the standby.",
    )


def _forked(what: str) -> StreamError:
    return StreamError(
        f"the server's history is not the pipeline's any more: {what}",
        code="HISTORY_FORKED",
        remedy="Sinks have what this server never had. Decide which history is right: promote the standby that has it "
        f"all, or, for this server's, {BEGIN_ANEW} For the next failover: name the standby's physical slot in "
        "synchronized_standby_slots on the primary.",
    )
