"""What is done about a slot or a gap that is lost where `source.slot.on_lost: resnapshot` says so (decision 25).

    loss ─▶ noted (snapshots topic) ─▶ slot dropped, made ─▶ stream ─▶ epoch frame: the gap ─▶ announced ─▶ snapshot

| dies behind | the next start finds | and |
| --- | --- | --- |
| noted | the loss as it was, and the note | goes on with that note |
| dropped, made | no slot, or one beyond the log; and the note | makes it, if it has to; announces |
| epoch frame | the gap in it, and the note | takes the note for announced |
| announced | a snapshot that waits or is half read | reads what is left |

Invariant: a slot is dropped or made anew only behind a durable note, and as long as a note is not announced no epoch
begins that does not announce it: nothing is skipped in silence, whatever dies and whatever Redis has forgotten.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from tidegate.clock import unix_microseconds
from tidegate.config.values import OnLost
from tidegate.contracts.gap import Gap, GapReason
from tidegate.contracts.snapshot_status import SnapshotKind, SnapshotState
from tidegate.errors import StreamError, TidegateError, TransientError
from tidegate.failpoints import Failpoint, reach
from tidegate.position import BEGINNING, Position
from tidegate_reader import gap, resume
from tidegate_reader.publisher import close_producer, open_producer
from tidegate_reader.resume import GAP_LOST, Plan, SlotStart
from tidegate_reader.snapshot.levelling import note
from tidegate_reader.snapshot.records import SnapshotRecord, over
from tidegate_reader.snapshot.store import Kept, Store, read_kept, tell_if_lost

if TYPE_CHECKING:
    from tidegate.config.pipeline import PipelineConfig
    from tidegate.contracts.ack import Ack
    from tidegate.contracts.generation import Generation
    from tidegate.contracts.lineage import Lineage
    from tidegate.lsn import Lsn
    from tidegate_reader.raw_log import RawLog

MOST_A_DAY = 3
"""One that does not help is not tried for ever. A peer allows three an hour; to read all tables may take hours."""
_DAY_MICROSECONDS = 86_400_000_000
SLOT_GONE = frozenset({"SLOT_MISSING", "SLOT_LOST"})


class Repair:
    """Of one start, in a generation that has a past; without one nothing can be lost."""

    def __init__(
        self, config: PipelineConfig, generation: Generation | None, kept: Kept, log: RawLog, *, is_standby: bool
    ) -> None:
        self._config, self._generation, self._kept, self._log = config, generation, kept, log
        self._is_standby = is_standby
        self.note = _unannounced(kept, log.gap)

    @property
    def is_owed(self) -> bool:
        """Whether the epoch that begins has to announce a gap."""
        return self.note is not None

    async def note_loss(self, reason: GapReason, loss: StreamError, wal_end: Lsn) -> None:
        """Durable when it returns. Raises the loss where it is left to a person, and what it is if it is more: nothing
        is made on a server that tells another history."""
        generation = self._check_allowed(loss)
        resume.check_reach(wal_end, await gap.acks_of_all(self._config, generation), self._log)
        if self.note is None:
            self._check_not_too_often(loss)
            self.note = await self._write_note(generation, reason)
        reach(Failpoint.READER_LOSS_NOTED)

    def skips_to(self, decide: Callable[[], Plan]) -> Position:
        """What will be skipped, if nobody turns out to know more. Behind a gap nothing is."""
        try:
            return BEGINNING if self.is_owed else decide().skip_to
        except StreamError as error:
            if error.code != GAP_LOST or not self._is_wanted:
                raise
            return BEGINNING

    def eased(self, failure: TidegateError) -> TidegateError:
        return eased(self._config, failure)

    async def decided(
        self,
        generation: Generation,
        decide: Callable[[Mapping[str, Ack]], Plan],
        behind: Callable[[Mapping[str, Ack]], Plan],
        acks: Mapping[str, Ack],
        *,
        is_beyond: bool,
        wal_end: Lsn,
    ) -> tuple[Plan, Mapping[str, Ack]]:
        """As `gap.decided`, where a loss that is believed may be announced. `is_beyond`: beyond the raw topic's end."""
        if not self.is_owed:
            try:
                return await gap.decided(self._config, generation, decide, acks, is_beyond_the_log=is_beyond)
            except StreamError as error:
                if error.code != GAP_LOST:
                    raise
                await self._know(generation)
                await self.note_loss(GapReason.SLOT_MOVED, error, wal_end)
        acks = await gap.acks_of_all(self._config, generation)
        return behind(acks), acks

    async def _know(self, generation: Generation) -> None:
        """Where raw topic and lineage are gone, only its sinks' acks tell that it has a past."""
        if self._generation is None:
            self._generation, self._kept = generation, await _kept(self._config, generation)
            self.note = _unannounced(self._kept, self._log.gap)

    def plan(self, slot: SlotStart, acks: Mapping[str, Ack], log: RawLog, lineage: Lineage | None, *, now: int) -> Plan:
        assert self.note is not None
        reason = GapReason(self.note.reason)
        return resume.behind_the_gap(slot, acks, log, lineage, snapshot=self.note.id, reason=reason, now=now)

    @property
    def _is_wanted(self) -> bool:
        return self._config.source.slot.on_lost is OnLost.RESNAPSHOT

    def _check_allowed(self, loss: StreamError) -> Generation:
        if not self._is_wanted or self._generation is None:
            raise loss
        if self._is_standby:
            raise StreamError(
                f"{loss.message}; and beside the stream of a standby no snapshot can be taken",
                code="RESNAPSHOT_STANDBY",
                remedy="Point the source at the primary, or begin anew by hand: docs/operations/slot-lost.md.",
            ) from loss
        return self._generation

    def _check_not_too_often(self, loss: StreamError) -> None:
        since = unix_microseconds() - _DAY_MICROSECONDS
        lately = [each for each in _resnapshots(self._kept) if each.requested > since]
        if len(lately) >= MOST_A_DAY:
            raise StreamError(
                f"{loss.message}; and that was answered with a snapshot {len(lately)} times within a day",
                code="RESNAPSHOT_TOO_OFTEN",
                remedy="Find out who drops or moves the slot, or raise max_slot_wal_keep_size: it has to hold the WAL "
                "that is written while all tables are read. Then begin anew by hand, docs/operations/slot-lost.md, or "
                "start the reader again a day later.",
            ) from loss

    async def _write_note(self, generation: Generation, reason: GapReason) -> SnapshotRecord:
        """It takes the place of what is being read of all tables: those rows may be older than the gap."""
        now = unix_microseconds()
        noted = note(reason, secrets.token_hex(16))
        records = [noted, *(over(each, SnapshotState.CANCELLED, now) for each in _superseded(self._kept))]
        producer = await open_producer(self._config.kafka, self._config.raw_topic)
        try:
            for record in records:  # in this order: without the note nothing else holds
                await write_record(producer, self._config, generation, record)
        finally:
            await close_producer(producer)
        return noted


async def look_for_losses(
    config: PipelineConfig, generation: Generation | None, log: RawLog, *, is_standby: bool
) -> Repair:
    """Where it is left to a person there is no note to be looked for."""
    kept = await _kept(config, generation) if generation is not None else Kept()
    return Repair(config, generation, kept, log, is_standby=is_standby)


async def _kept(config: PipelineConfig, generation: Generation) -> Kept:
    is_wanted = config.source.slot.on_lost is OnLost.RESNAPSHOT
    if not is_wanted:
        return Kept()
    found = await read_kept(config, generation.id)
    tell_if_lost(found, has_past=True)
    return found


def may_replace(config: PipelineConfig) -> bool:
    """Whether a slot that the server has given up is ours to drop."""
    slot = config.source.slot
    return slot.on_lost is OnLost.RESNAPSHOT and slot.create


def eased(config: PipelineConfig, failure: TidegateError) -> TidegateError:
    """Of a reader that ran: a slot that is lost meanwhile is for its next start."""
    if failure.code not in SLOT_GONE or not may_replace(config):
        return failure
    return TransientError(
        f"{failure.message}; the next start makes it anew and reads all tables",
        code="SLOT_TO_BE_REMADE",
        remedy="Nothing, if a supervisor starts the reader again. Find out why it was lost: "
        "docs/operations/slot-lost.md.",
    )


async def write_record(
    producer: Any,  # aiokafka is not typed
    config: PipelineConfig,
    generation: Generation,
    record: SnapshotRecord,
) -> None:
    await Store(producer, config.pipeline, generation.id).write(record)


def _unannounced(kept: Kept, gap: Gap | None) -> SnapshotRecord | None:
    told = gap.snapshot if gap is not None else None
    waiting = [each for each in _resnapshots(kept) if not each.is_announced and each.id != told]
    return max(waiting, key=lambda each: each.requested, default=None)


def _resnapshots(kept: Kept) -> list[SnapshotRecord]:
    return [each for each in kept.snapshots.values() if each.kind is SnapshotKind.RESNAPSHOT]


def _superseded(kept: Kept) -> list[SnapshotRecord]:
    kinds = (SnapshotKind.RESNAPSHOT, SnapshotKind.INITIAL)
    return [each for each in kept.snapshots.values() if each.kind in kinds and not each.state.is_over]
