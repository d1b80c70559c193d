"""How a run begins. The order is the point: what is checked later must not be undone by what was done earlier.

preflight → timeline → publication → slot → START_REPLICATION (the slot is ours) → end of the raw topic → plan →
timeline again → lineage → epoch          └ for a re-feed: the raw topic's last transaction, on a link in place of ours

Invariant: the end of the raw topic is read after the slot is ours, so no reader that owned it before us can still be
sending what we would not see; if it is, the epoch frame lands elsewhere than expected and we give up.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from tidegate.checkpoint.connect import connect_async
from tidegate.clock import unix_microseconds
from tidegate.contracts.ack import Ack
from tidegate.contracts.branch import Branch
from tidegate.contracts.epoch import EpochRecord, StreamOptions
from tidegate.contracts.frame import NO_OFFSET, FrameHeader, FrameKind, encode_frame
from tidegate.contracts.generation import Generation
from tidegate.contracts.lineage import Lineage
from tidegate.errors import StreamError, TransientError
from tidegate.failpoints import Failpoint, reach
from tidegate.lsn import ZERO, Lsn
from tidegate.preflight.server import version_of
from tidegate.preflight.slot import SlotState
from tidegate_reader import gap, promotion
from tidegate_reader.acks import lineage_now, say_lineage
from tidegate_reader.failover import Promoted, branch_of, is_step, refuse_unpromoted
from tidegate_reader.frames import EpochStamp
from tidegate_reader.history import HistoryCheck, options_since, told_by_sinks
from tidegate_reader.history_probe import ask, has_to_ask
from tidegate_reader.publisher import close_producer, open_producer, publish_epoch_frame
from tidegate_reader.raw_log import RawLog, read_raw_log
from tidegate_reader.raw_topic import ensure_raw_topic
from tidegate_reader.removed_sinks import tombstone
from tidegate_reader.repair import look_for_losses, may_replace
from tidegate_reader.resume import (
    Plan,
    SlotStart,
    SourceIdentity,
    generation_of,
    known_generation,
    plan,
    start_lsn,
)
from tidegate_reader.slot_making import SlotMaking
from tidegate_reader.snapshot.exported import Exported
from tidegate_reader.source_watch import wal_end
from tidegate_reader.sources.postgres_wal.session import SideConnection, replication_conninfo
from tidegate_reader.sources.postgres_wal.slots import check_slot, read_slot
from tidegate_reader.sources.postgres_wal.start_command import start_command, stream_options
from tidegate_reader.sources.postgres_wal.stream import ReplicationStream

if TYPE_CHECKING:
    from tidegate.config.pipeline import PipelineConfig

_NONCE_BYTES = 16


@dataclass(frozen=True, slots=True)
class Checked:
    server_version: int
    topic_id: str
    slot: SlotState | None


@dataclass(frozen=True, slots=True)
class Run:
    """An epoch that has begun: its frame is in the raw topic, its stream flows."""

    stamp: EpochStamp
    lineage: Lineage
    plan: Plan
    confirmed: Lsn
    acks: Mapping[str, Ack]
    producer: Any  # aiokafka is not typed
    beginning: int
    next_offset: int
    history: HistoryCheck | None


async def connect_side(config: PipelineConfig) -> SideConnection:
    return await SideConnection.open(config.source, f"tidegate {config.pipeline}")


async def check(config: PipelineConfig, side: SideConnection) -> Checked:
    """After the examination: what is looked at here is also used."""
    slot = await read_slot(side, config.source.slot.name)
    if slot is not None:
        check_slot(slot, config.source.database, may_be_invalidated=may_replace(config))
    topic = await ensure_raw_topic(config.kafka, config.raw_topic)
    return Checked(await version_of(side.fetch), topic.topic_id, slot)


async def begin(
    config: PipelineConfig, checked: Checked, side: SideConnection, stream: ReplicationStream, exported: Exported
) -> Run:
    log = await read_raw_log(config.kafka, config.raw_topic.name, checked.topic_id)
    lineage = await _read_lineage(config)
    source = await _identity(config, stream)
    server = await promotion.look(side, stream, source.timeline, checked.server_version, checked.slot)
    known = known_generation(source, log, lineage)
    await _check_history(config, server, known, log, lineage)
    losses = await look_for_losses(config, known, log, is_standby=server.is_in_recovery)
    slot = SlotMaking(config, side, stream, checked.server_version, losses)
    created = await slot.ensure(checked.slot, exported, has_past=known is not None)
    born = await slot.confirmed()
    generation = generation_of(source, log, lineage, born)
    acks: Mapping[str, Ack] = await gap.read_acks_now(config, generation)
    options = stream_options(config, checked.server_version)
    started = start_lsn(acks, config.required_sinks, log)
    now, required = unix_microseconds() // 1000, tuple(config.required_sinks)
    decide = partial(plan, required=required, topic_id=checked.topic_id, lineage=lineage, now=now)
    slot_start = SlotStart(born, started, Lsn(await wal_end(side)), created)
    history = _history(log, lineage, acks, slot_start.lsn, options)
    if history and has_to_ask(history, partial(losses.skips_to, partial(decide, slot_start, acks, log=log))):
        command = start_command(config, options, history.told.commit_lsn)
        history.ends(slot_start.wal_end)
        again = partial(open_stream, config)
        await slot.reading(ask(stream, again, command, history, side, config.source.slot.name))
    judged = history
    await slot.start(start_command(config, options, started))
    log = await read_raw_log(config.kafka, config.raw_topic.name, checked.topic_id)
    if log.newest is not None and log.newest.generation != generation:
        raise TransientError(
            "another reader wrote into the raw topic meanwhile", code="EPOCH_RACE", remedy="The reader starts again."
        )
    confirmed = await slot.confirmed()
    slot_start = SlotStart(confirmed, started, Lsn(await wal_end(side)), created)
    is_beyond = log.tail is not None and slot_start.lsn > log.tail.safe_lsn
    try:
        behind = partial(losses.plan, slot_start, log=log, lineage=lineage, now=now)
        ahead = partial(decide, slot_start, log=log)
        decided, acks = await losses.decided(
            generation, ahead, behind, acks, is_beyond=is_beyond, wal_end=slot_start.wal_end
        )
    except StreamError:
        await _check_topic_id(config, checked)
        raise
    branch = branch_of(server, generation, log, lineage, acks)
    history = _history(log, lineage, acks, slot_start.lsn, options)
    if history and history.is_ahead_of(decided.skip_to) and not history.is_settled_by(judged):
        raise TransientError(
            "that it has to ask the server shows only now", code="EPOCH_RACE", remedy="The reader starts again."
        )
    since = options_since(options, log.told, lineage, (decided.position, *(ack.position for ack in acks.values())))
    record = _record(decided, slot_start.lsn, history, (options, since), checked, branch)
    stamp = EpochStamp(generation, decided.number, secrets.token_bytes(_NONCE_BYTES), log.end)
    await _let_go(config, lineage, acks)
    said = _lineage(generation, decided, required, acks, record)
    await _say(config, said)
    producer = await _begin_epoch(config, checked, stamp, decided, record)
    lineage = replace(said, branch=branch.settled())
    return Run(stamp, lineage, decided, confirmed, acks, producer, log.beginning, log.end + 1, history)


def _record(
    decided: Plan,
    start: Lsn,
    history: HistoryCheck | None,
    asked: tuple[StreamOptions, Lsn],
    checked: Checked,
    branch: Branch,
) -> EpochRecord:
    return EpochRecord(
        mode=decided.mode,
        start_lsn=start,
        tail=history.told.position if history else decided.position,
        options=asked[0],
        options_since=asked[1],
        previous=decided.previous,
        topic_id=checked.topic_id,
        server_version=checked.server_version,
        software=f"tidegate-reader {version('tidegate-reader')}",
        branch=branch,
        gap=decided.gap,
    )


def _lineage(
    generation: Generation, decided: Plan, required: tuple[str, ...], acks: Mapping[str, Ack], record: EpochRecord
) -> Lineage:
    unacked = tuple(sink for sink in required if sink not in acks)
    place = generation, decided.number, record.topic_id, decided.kept_from
    return Lineage(*place, required, unacked, record.options, record.branch, record.options_since)


async def _let_go(config: PipelineConfig, lineage: Lineage | None, acks: Mapping[str, Ack]) -> None:
    """Until the slot was ours, the reader before us may have taken over a file that we have not read."""
    now = await _read_lineage(config)
    if now is not None and now.required != (lineage.required if lineage else now.required):
        raise TransientError(
            "another reader has counted on other sinks meanwhile",
            code="EPOCH_RACE",
            remedy="The reader starts again, by the file as it is now.",
        )
    await tombstone(config, lineage, acks)


async def _check_history(
    config: PipelineConfig, server: Promoted, generation: Generation | None, log: RawLog, lineage: Lineage | None
) -> None:
    """Before anything is made on a server whose history is another one."""
    refuse_unpromoted(server)
    if generation is not None:
        is_asked = is_step(server, generation, log, lineage)
        acks = await gap.acks_of_all(config, generation) if is_asked else {}
        branch_of(server, generation, log, lineage, acks)


def _history(
    log: RawLog, past: Lineage | None, acks: Mapping[str, Ack], start: Lsn, options: StreamOptions
) -> HistoryCheck | None:
    """Retention may have taken the epoch frame; what it asked for is then known from where it was said last. If it took
    every frame, the sinks still know their last transaction, though not by whom it was asked for."""
    if log.told is None or log.tail is None:
        known, since = (past.options, past.options_since) if past else (None, ZERO)
        told = told_by_sinks(acks.values(), known, since)
        return HistoryCheck(told, start, options) if told else None
    is_of_told = past is not None and (past.generation, past.epoch) == (log.tail.generation, log.told.epoch)
    told = log.told
    if past is not None and is_of_told and told.options is None:
        told = replace(told, options=past.options, options_since=past.options_since)
    return HistoryCheck(told, start, options)


async def _check_topic_id(config: PipelineConfig, checked: Checked) -> None:
    """The id was looked at before the log was read; what was decided counts only if the log is that topic's."""
    if await current_topic_id(config) != checked.topic_id:
        raise TransientError(
            "the raw topic was made again while the epoch began", code="EPOCH_RACE", remedy="The reader starts again."
        )


async def current_topic_id(config: PipelineConfig) -> str:
    return (await ensure_raw_topic(config.kafka, config.raw_topic)).topic_id


async def _identity(config: PipelineConfig, stream: ReplicationStream) -> SourceIdentity:
    [(system, timeline, *_)] = await stream.execute("IDENTIFY_SYSTEM")
    return SourceIdentity(int(system or 0), int(timeline or 0), config.source.database, config.source.slot.name)


async def _read_lineage(config: PipelineConfig) -> Lineage | None:
    async with connect_async(config.redis) as client:
        return await lineage_now(client, config.pipeline)


async def _say(config: PipelineConfig, lineage: Lineage) -> None:
    """Before the first frame: if the topic is emptied later, this is all that tells that it held something."""
    async with connect_async(config.redis) as client:
        await say_lineage(client, config.pipeline, lineage)


async def _begin_epoch(
    config: PipelineConfig, checked: Checked, stamp: EpochStamp, decided: Plan, record: EpochRecord
) -> Any:
    """The producer of this epoch, its epoch frame acknowledged in the topic that was looked at. Only an epoch frame
    does not know its own offset."""
    header = FrameHeader(
        kind=FrameKind.EPOCH,
        generation=stamp.generation,
        epoch=stamp.number,
        epoch_nonce=stamp.nonce,
        epoch_offset=NO_OFFSET,
        seq=0,
        first=decided.position,
        last=decided.position,
        safe_lsn=decided.safe_lsn,
        created=unix_microseconds(),
    )
    producer = await open_producer(config.kafka, config.raw_topic)
    try:
        data = encode_frame(header, body=(record.encode(),))
        await publish_epoch_frame(producer, config.raw_topic.name, data, stamp.offset)
        reach(Failpoint.READER_EPOCH_BEGUN)
        await _check_topic_id(config, checked)
    except BaseException:
        await close_producer(producer)
        raise
    return producer


async def open_stream(config: PipelineConfig) -> ReplicationStream:
    return await ReplicationStream.connect(replication_conninfo(config.source, f"tidegate {config.pipeline} reader"))
