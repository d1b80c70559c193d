"""The reader, top to bottom. It passes values between stages and decides nothing.

PostgreSQL ─stream─▶ intake (framer) ─frames─▶ publisher ─▶ raw topic
     ▲                                            │ acknowledged
     └──────── feedback ◀── confirmed ── gate ◀───┴──── acks (Redis)

One TaskGroup: the first task that fails ends the run, and its error says whether starting again helps.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack, suppress
from typing import TYPE_CHECKING

from tidegate.clock import unix_microseconds
from tidegate.contracts.epoch import EpochMode
from tidegate.contracts.gap import Gap
from tidegate.contracts.status import State
from tidegate.errors import TransientError
from tidegate.failpoints import Failpoint, reach
from tidegate.lsn import format_lsn
from tidegate_reader.acks import AckWatch
from tidegate_reader.configuration_watch import ConfigurationWatch
from tidegate_reader.examination import examine
from tidegate_reader.feedback import Feedback, Levels, answering
from tidegate_reader.framer import Framer
from tidegate_reader.gate import Gate
from tidegate_reader.heartbeat import Heartbeat
from tidegate_reader.intake import Intake
from tidegate_reader.keeper import Keeper
from tidegate_reader.opening import Run, begin, check, connect_side, open_stream
from tidegate_reader.publication_watch import PublicationWatch
from tidegate_reader.publisher import Publisher, close_producer
from tidegate_reader.raw_watch import RawLook, RawWatch
from tidegate_reader.required_sinks import RequiredSinks
from tidegate_reader.schema_topic import SchemaTopic, read_shapes
from tidegate_reader.shapes import Shape
from tidegate_reader.slot_wait import telling_whom_it_waits_for
from tidegate_reader.snapshot.coordinator import Snapshots
from tidegate_reader.snapshot.exported import Exported
from tidegate_reader.snapshot.making import SnapshotParts, make_outlet, make_snapshots
from tidegate_reader.snapshot.store import read_kept
from tidegate_reader.source_watch import SourceWatch
from tidegate_reader.sources.postgres_wal.session import SideConnection
from tidegate_reader.sources.postgres_wal.stream import ReplicationStream
from tidegate_reader.surroundings import Surroundings
from tidegate_reader.takeover import wait_for_slot
from tidegate_reader.trail import Untraced, make_trail
from tidegate_reader.wal_watch import WalWatch

if TYPE_CHECKING:
    from tidegate.config.kafka import RawTopic

# Together with the producer's close and the last report less than the five seconds that a stop may take.
DRAIN_SECONDS = 2.0
GOODBYE_SECONDS = 0.5


async def run(around: Surroundings) -> None:
    """Until it is told to stop (returns) or something fails (raises our error, or a group of them)."""
    async with AsyncExitStack() as resources:
        side = await connect_side(around.config)
        resources.push_async_callback(side.close)
        await examine(around, side)
        await wait_for_slot(around, side)
        checked = await check(around.config, side)
        stream = await open_stream(around.config)
        resources.callback(stream.close)
        async with answering(stream), telling_whom_it_waits_for(around, side):
            exported = Exported(around.config)
            resources.push_async_callback(exported.close)
            opened = await begin(around.config, checked, side, stream, exported)
            resources.push_async_callback(close_producer, opened.producer)
            raw_look = RawLook(around.config)
            resources.push_async_callback(raw_look.close)
            await raw_look.open()
            known = await read_shapes(around.config, opened.stamp.generation.id, opened.plan.position)
            kept = await read_kept(around.config, opened.stamp.generation.id)
        _announce(around, opened)
        await _flow(around, opened, side, stream, raw_look, known, SnapshotParts(exported, kept, checked))


async def _flow(
    around: Surroundings,
    opened: Run,
    side: SideConnection,
    stream: ReplicationStream,
    raw_look: RawLook,
    known: Mapping[int, Shape],
    parts: SnapshotParts,
) -> None:
    config = around.config
    durable, history = opened.plan.safe_lsn, opened.history
    gate = Gate(config.required_sinks, confirmed=opened.confirmed, durable=durable, history=history)
    trail = make_trail(around.tracing, config.tracing, opened.stamp)
    framer = _make_framer(config.raw_topic, opened, known, trail)
    feedback = trail.feedback(stream, lambda: Levels(framer.received_lsn, gate.confirmed), around.metrics)
    keeper = Keeper(gate, feedback, around.progress, around.metrics)
    outlet = make_outlet(around, opened, stream)
    publisher = Publisher(
        opened.producer,
        config.raw_topic,
        next_offset=opened.next_offset,
        on_durable=trail.before(outlet.before(keeper.durable)),
        on_flight=keeper.in_flight,
    )
    schemas = SchemaTopic(opened.producer, config.pipeline, opened.stamp.generation.id)
    intake = Intake(stream, framer, publisher, feedback, around.metrics, around.progress, schemas, outlet)
    snapshots = make_snapshots(around, opened, side, framer, keeper, outlet, parts)
    acks = AckWatch(around, opened.stamp.generation.id, keeper.acked)
    required = RequiredSinks(keeper, opened.lineage, lambda _: around.reporter.report())
    said = lambda: required.lineage  # noqa: E731
    raw_watch = RawWatch(config, opened, keeper, raw_look.beginning, around.progress, snapshots.lost, said)
    watch = ConfigurationWatch(around, side, required, snapshots)

    keeper.acked(opened.acks)
    around.reporter.lineage = said
    async with asyncio.TaskGroup() as tasks:
        intaking = tasks.create_task(_read_all(around, snapshots, framer, publisher, intake), name="intake")
        background = [
            tasks.create_task(publisher.settle(), name="settle"),
            tasks.create_task(feedback.run(), name="feedback"),
            tasks.create_task(acks.poll(), name="acks_poll"),
            tasks.create_task(acks.subscribe(), name="acks_subscribe"),
            tasks.create_task(Heartbeat(side, around).run(), name="heartbeat"),
            tasks.create_task(SourceWatch(side, config, around.progress).run(), name="source_watch"),
            tasks.create_task(WalWatch(side, around).run(), name="wal_watch"),
            tasks.create_task(PublicationWatch(side, around).run(), name="publication_watch"),
            tasks.create_task(raw_watch.run(), name="raw_watch"),
            tasks.create_task(watch.run(), name="configuration"),
            tasks.create_task(snapshots.run(), name="snapshots"),
            tasks.create_task(_stop(around, stream, intaking), name="stop"),
        ]
        await asyncio.wait([intaking])
        for task in background:
            task.cancel()
    await _say_goodbye(stream, feedback)


def _make_framer(raw_topic: RawTopic, opened: Run, known: Mapping[int, Shape], trail: Untraced) -> Framer:
    return Framer(
        opened.stamp,
        max_frame_bytes=raw_topic.max_frame,
        linger_seconds=raw_topic.linger.total_seconds(),
        position=opened.plan.position,
        safe_lsn=opened.plan.safe_lsn,
        skip_to=opened.plan.skip_to,
        next_seq=1,
        wall_clock=unix_microseconds,
        known=known,
        history=opened.history,
        tracker=trail.tracker,
    )


async def _read_all(
    around: Surroundings, snapshots: Snapshots, framer: Framer, publisher: Publisher, intake: Intake
) -> None:
    """Rows that were there before the slot, if it was made for them; then the stream."""
    await snapshots.precede(framer, publisher)
    await intake.run(around.stop)


async def _stop(around: Surroundings, stream: ReplicationStream, intaking: asyncio.Task[None]) -> None:
    """What is not in the raw topic by then is sent again after the next start."""
    await around.stop.wait()
    around.progress.state = State.DRAINING
    around.health.down("reader", "stopping")
    stream.wake()
    await asyncio.sleep(DRAIN_SECONDS)
    around.log.warning("drain_cut_short", seconds=DRAIN_SECONDS)
    intaking.cancel()


async def _say_goodbye(stream: ReplicationStream, feedback: Feedback) -> None:
    """The last status, and our end of the stream, so that the server lets the slot go at once."""
    with suppress(TransientError, TimeoutError):
        async with asyncio.timeout(GOODBYE_SECONDS):
            reach(Failpoint.READER_GOODBYE)
            await feedback.send()
            await stream.end()


def _announce(around: Surroundings, opened: Run) -> None:
    stamp, plan, progress = opened.stamp, opened.plan, around.progress
    progress.generation, progress.epoch, progress.state = stamp.generation.id, stamp.number, State.RUNNING
    progress.raw_offset, progress.produced_lsn = stamp.offset, plan.safe_lsn
    progress.received_lsn, progress.confirmed_lsn = plan.safe_lsn, opened.confirmed
    for component in ("reader", "source", "raw_topic", "acks", "wal", "configuration"):
        around.health.up(component)
    if plan.gap is not None and plan.mode is EpochMode.RESNAPSHOT:
        _announce_gap(around, plan.gap)
    around.log.info(
        "epoch_begun",
        generation=stamp.generation.id,
        epoch=stamp.number,
        mode=plan.mode,
        offset=stamp.offset,
        position=str(plan.position),
        confirmed=format_lsn(opened.confirmed),
    )
    around.reporter.hurry()


def _announce_gap(around: Surroundings, gap: Gap) -> None:
    """Each lane says where its own sink stood."""
    around.metrics.gaps.add()
    around.progress.resnapshot = gap.snapshot
    around.log.error(
        "gap_announced",
        code=f"GAP_{gap.reason.upper()}",
        goes_on=format_lsn(gap.lsn),
        snapshot=gap.snapshot,
        remedy="Changes up to there are in no sink, nor will they be; all tables are read again. What was deleted "
        "meanwhile stays in sinks that keep rows by key: docs/operations/slot-lost.md.",
    )
