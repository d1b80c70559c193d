"""Who may say LOST: only somebody for whom, by all that anybody can still know, something is lost.

The oracle knows what really happened. What it takes for no loss may still be more than the fleet can prove, when the
memory that would prove it was itself lost: those cases are here, each with what has to be true for it. Where the
brokers lost their disk, whoever doubts may say so, and a person begins a new raw topic; but nobody may skip anything.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from chaos.simulator.memory import remembered_frame
from chaos.simulator.oracle import Violation
from chaos.simulator.postgres import Committed

from tidegate.contracts.cursor import Cursor, decode_cursor
from tidegate.contracts.epoch import decode_epoch
from tidegate.contracts.frame import FrameHeader, FrameKind
from tidegate.errors import TidegateError
from tidegate.lsn import Lsn

if TYPE_CHECKING:
    from chaos.simulator.kafka import Record
    from chaos.simulator.lane import Lane
    from chaos.simulator.world import World


_REPAIRED = ("SLOT_MISSING", "SLOT_LOST", "GAP_LOST")


def check_lane_lost(world: "World", lane: "Lane", error: TidegateError) -> None:
    if error.code == "GENERATION_CHANGED" and (world.lineage_is_gone or world.slot_was_tampered):
        return
    if error.code == "GAP_LOST" and (_is_forgotten(world) or _is_beyond_what_moved(world, lane)):
        return
    if world.topic.was_wiped:
        return
    cursor = _cursor(lane)
    if error.code == "GAP_LOST" and cursor and cursor.safe_lsn < world.oracle.excused_below:
        return  # a slot that somebody moved, as only this lane's own sink still tells
    if error.code in ("RAW_TOPIC_TRIMMED", "GAP_LOST") and not lane.config.required:
        # That nothing was between its place, or its ack where that is all it has, and the beginning is more than
        # anybody can prove.
        if _is_there(world, cursor) and not world.slot_was_tampered:
            raise Violation("I7", "lane LOST though its place is there", lane.name)
        return
    if (lane.ledger.has_left or world.oracle.is_joining(lane.ledger)) and not _is_there(world, cursor):
        return  # the source went on without it, and that nothing lay between is more than anybody can prove
    if not world.oracle.is_lost(lane.ledger, world.server.slot, world.topic):
        raise Violation("I7", f"lane LOST without a loss ({error.code})", f"{lane.name}: {error}")


def check_reader_lost(world: "World", error: TidegateError | None) -> None:
    is_left_to_us = world.plan.resnapshots and not world.oracle.is_forked
    if is_left_to_us and error is not None and error.code in _REPAIRED:
        raise Violation("I7", f"a loss that was to be repaired is LOST ({error.code})", str(error))
    if world.slot_was_tampered or world.oracle.is_forked or world.topic.was_wiped or _is_forgotten(world):
        return
    if error is not None and error.code == "FAILOVER_UNPROVEN" and not _has_seen_frames(world):
        return  # retention took all that could tell how far sinks had come before the fork
    if error is not None and error.code == "HISTORY_FORKED" and world.redis.has_forgotten and not _is_witnessed(world):
        return  # retention took what told on which timeline the newest frames are, and Redis forgot it
    if error is not None and error.code == "GAP_LOST" and _is_left_behind(world):
        return
    named = world.acting.required if world.acting is not None else ()
    if not world.oracle.required_is_lost(world.server.slot, world.topic, named):
        raise Violation("I7", f"reader LOST without a loss ({error.code if error else '?'})", str(error))


def _is_left_behind(world: "World") -> bool:
    """A sink came, or came back, and the source had gone on without it."""
    lanes = [lane for lane in (*world.lanes, *world.file.left.values()) if lane.ledger.is_in_file]
    came = [lane for lane in lanes if lane.ledger.has_left or (lane.ledger.is_late and not lane.ledger.counts)]
    return any(not _is_there(world, _cursor(lane)) for lane in came)


def reader_has_looked(world: "World", offsets: range) -> None:
    """At these of the raw topic, as it starts. What lands or is trimmed later is not for it to know."""
    assert world.acting is not None
    seen = [
        record.header
        for record in world.topic.records
        if record.is_valid and record.offset in offsets and _is_seen_to_count(record, offsets)
    ]
    world.acting.has_seen_frames = bool(seen)
    _look_what_is_left(world, seen)


def _is_seen_to_count(record: "Record", offsets: range) -> bool:
    """Where an epoch frame is trimmed and a late frame lies behind it, that none is missing shows no more."""
    header = record.header
    return header.kind is FrameKind.EPOCH or header.epoch_offset in offsets or header.is_in_step(record.offset)


def lineage_is_unknown(world: "World") -> None:
    """A reader starts, and Redis does not know where the one before it worked. What only that could tell is not for it
    to know: what the raw topic held if nothing there counts either."""
    if not _has_valid_frames(world):
        world.lineage_is_gone = True
        world.oracle.is_unknowable = world.oracle.is_forked


def epoch_is_decided(world: "World") -> None:
    """Of a reader to whom nobody tells where the one before worked, that somebody moved the slot meanwhile, or while it
    began, is not known."""
    is_unknown = world.acting is not None and world.acting.knows_no_past
    if is_unknown and world.slot_was_tampered and world.server.slot is not None:
        world.oracle.excused_below = world.server.slot.confirmed


def _look_what_is_left(world: "World", valid: Sequence[FrameHeader]) -> None:
    """A reader starts and sees these. Where they have no transaction of the history before that the new one lacks, say
    nothing of where the new one has others, and that one is as long as what sinks are known to have, nothing can be
    compared."""
    fork, server = world.oracle.forked_at, world.server
    covered = max((header.safe_lsn for header in valid), default=Lsn(0))
    is_told = any(header.messages and header.last.commit_lsn >= fork for header in valid)
    is_denied = any(isinstance(entry, Committed) and fork <= entry.commit_lsn < covered for entry in server.wal)
    has = {position for lane in world.lanes for position in lane.ledger.have}
    has = {ack.position for ack in world.redis.tells()} if world.redis.has_forgotten else has
    reached = max((position.commit_lsn for position in has), default=Lsn(0))
    if world.oracle.is_forked and fork and not is_told and not is_denied and max(reached, covered) < server.wal_end:
        world.oracle.is_unknowable = True


def _has_valid_frames(world: "World") -> bool:
    """What is void, as late frames in a topic that was made again are, proves nothing to anybody."""
    return any(record.is_valid for record in world.topic.available())


def _has_seen_frames(world: "World") -> bool:
    return world.acting is not None and world.acting.has_seen_frames


def _is_witnessed(world: "World") -> bool:
    """Whether the epoch frame of the newest epoch is left."""
    valid = [record.header for record in world.topic.available() if record.is_valid]
    return bool(valid) and any(each.kind is FrameKind.EPOCH and each.epoch == valid[-1].epoch for each in valid)


def _is_forgotten(world: "World") -> bool:
    """Whether all that anybody still knows of a required lane lies below what was confirmed, or where the newest epoch
    began, and the raw topic does not reach back to it: its newest acks went with Redis."""
    slot = world.server.slot
    if slot is None or not world.redis.has_forgotten:
        return False
    begins = [record for record in world.topic.available() if record.is_valid and record.header.kind is FrameKind.EPOCH]
    needed = max(slot.confirmed, decode_epoch(remembered_frame(begins[-1].value).body).start_lsn if begins else 0)
    for lane in world.lanes:
        cursor = _cursor(lane)
        known = cursor.safe_lsn if cursor else Lsn(0)
        if lane.config.required and known < needed and not _is_there(world, cursor):
            return True
    return False


def _is_beyond_what_moved(world: "World", lane: "Lane") -> bool:
    """Whether somebody moved the slot beyond what the sink has. Of a reader to whom Redis does not tell what that was
    the lane learns it, and that nothing lay between is more than either can prove."""
    cursor, slot = _cursor(lane), world.server.slot
    is_behind = cursor is not None and slot is not None and cursor.safe_lsn < slot.confirmed
    return is_behind and world.slot_was_tampered and world.redis.has_forgotten


def _cursor(lane: "Lane") -> Cursor | None:
    return decode_cursor(lane.server.cursor) if lane.server.cursor else None


def _is_there(world: "World", cursor: Cursor | None) -> bool:
    topic = world.topic
    if cursor is None or cursor.topic_id != topic.id or cursor.next_offset < topic.beginning:
        return False
    if cursor.epoch_nonce:
        return True
    # A rewind has said where it reads on, be it behind frames that are void and before none that counts.
    following = [record.header.first for record in topic.records[cursor.next_offset :] if record.is_valid]
    return not following or following[0] <= cursor.position
