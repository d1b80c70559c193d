"""All snapshots of one run of the reader: what was asked for, carried out one after the other, and written down.

    configuration, requests ─▶ jobs ─▶ readers (COPY) ─▶ outlet ─▶ … durable ─▶ recorder ─▶ snapshots topic
                                └ exported: before the stream (`precede`) │ windows: beside it (`run`)

Invariant: whatever dies, the snapshots topic and the slot tell what is left to be read. It is never more than once
under one name, and what is recorded as done is durable.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tidegate.clock import unix_microseconds
from tidegate.contracts.snapshot_status import SnapshotKind, SnapshotState
from tidegate.errors import ConfigError, TransientError
from tidegate_reader.snapshot.catalogue import published
from tidegate_reader.snapshot.delivery import is_delivered, is_lost
from tidegate_reader.snapshot.exported import Exported
from tidegate_reader.snapshot.job import Job, is_complete
from tidegate_reader.snapshot.levelling import take_over, tell, turn
from tidegate_reader.snapshot.marks import Marks
from tidegate_reader.snapshot.outlet import Outlet
from tidegate_reader.snapshot.planning import EPOCH_OVER, chosen, ends_the_reader, is_all, plan_tables, wanted
from tidegate_reader.snapshot.readers import Readers
from tidegate_reader.snapshot.records import SnapshotRecord, TableRecord, failed, gone_on, over, unread
from tidegate_reader.snapshot.store import Kept, Store

if TYPE_CHECKING:
    from tidegate.config.pipeline import PipelineConfig
    from tidegate.contracts.ack import Ack
    from tidegate.contracts.gap import Gap
    from tidegate_reader.framer import Framer
    from tidegate_reader.publisher import Publisher
    from tidegate_reader.snapshot.desk import SnapshotDesk
    from tidegate_reader.surroundings import Surroundings

_LOOK_SECONDS = 0.2


class Snapshots:
    def __init__(
        self,
        around: Surroundings,
        outlet: Outlet,
        readers: Readers,
        store: Store,
        kept: Kept,
        exported: Exported,
        epoch: int,
        at_start: tuple[Mapping[str, Ack], Sequence[str], str, int],
        gap: Gap | None,
        desk: Callable[[Snapshots], SnapshotDesk],
    ) -> None:
        """`at_start`: acks, required sinks, id of the raw topic and where it begins. `gap`: if its frame is left."""
        self._at_start, self._gap = at_start, gap
        self._required = at_start[1]
        self.desk = desk(self)
        self._around, self._outlet, self._readers, self._store = around, outlet, readers, store
        self._exported, self._epoch = exported, epoch
        self._mode = around.config.snapshot.mode
        self._reading: Job | None = None
        self.jobs = {each.id: Job(each, kept.tables.get(each.id, {})) for each in kept.snapshots.values()}
        self._news, self._preceded = asyncio.Event(), asyncio.Event()
        self._marks = Marks(outlet)
        readers.on_finished, readers.on_piece = self._finished, self._begins

    def follow(self, config: PipelineConfig) -> None:
        """Sinks may have come or gone."""
        self._required = config.required_sinks
        self.desk.follow(config)

    async def _begin(self) -> None:
        """What the configuration asks for is written down before anything of it is read."""
        for job in list(self.jobs.values()):  # the desk is at work already, and may add one
            if is_lost(job.record, *self._at_start):
                await self._read_again(job)
        await take_over(self, self._gap, self._store)
        tell(self._around, self.jobs.values())
        record = wanted(self._mode, [job.record for job in self.jobs.values()], self._epoch)
        if record is not None:
            await self.add(record)
        await self._stop_if_that_was_all()

    async def precede(self, framer: Framer, publisher: Publisher) -> None:
        """Before the stream, as long as the exported snapshot lasts. Rows join the log, nothing else does."""
        await self._begin()
        job = self.top()
        if job is None or not self._exported.is_held or job.record.kind is SnapshotKind.REQUESTED:
            await self._exported.close()
            self._preceded.set()
            return
        reading = asyncio.create_task(self._read_exported(job), name="snapshot_exported")
        try:
            while not reading.done():
                frames = self._outlet.take(framer, time.monotonic(), is_alone=True)
                if frames:
                    await publisher.publish(frames)
                    await asyncio.sleep(0)
                elif self._around.stop.is_set():
                    return
                else:
                    await self._outlet.until_something_may_go_or(reading, _LOOK_SECONDS)
            reading.result()
        finally:
            reading.cancel()
            await asyncio.wait([reading])
            self._outlet.clear()
            await self._exported.close()
            self._preceded.set()

    async def run(self) -> None:
        """For the life of the epoch."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._carry_out(), name="snapshot_jobs")
            tasks.create_task(self.desk.run(), name="snapshot_desk")

    async def _carry_out(self) -> None:
        """Beside the stream."""
        await self._preceded.wait()
        await self._end_what_was_cancelled()
        while True:
            job = self.top()
            if job is None:
                self._news.clear()
                await self._news.wait()
                continue
            try:
                await self._read(job, exported=None)
            except (ConfigError, TransientError) as error:
                if ends_the_reader(self._mode, job.record, error):
                    raise
                self._around.log.failure("snapshot_failed", error)
                is_cancelled = job.record.state is SnapshotState.CANCELLED
                await self._end(job, job.record if is_cancelled else failed(job.record, error, unix_microseconds()))

    async def _end_what_was_cancelled(self) -> None:
        """By a reader that died before the log said so."""
        for job in list(self.jobs.values()):
            if job.record.state is SnapshotState.CANCELLED and job.tables:
                try:
                    await plan_tables(job, self._around.config, None, self._readers)
                except (ConfigError, TransientError) as error:
                    self._around.log.failure("snapshot_tables_unknown", error)
                await self._end(job, job.record)

    def top(self) -> Job | None:
        """The one that is read now."""
        runnable = [job for job in self.jobs.values() if job.is_runnable]
        return min(runnable, key=turn, default=None)

    async def check_names(self, tables: Sequence[str]) -> None:
        """Raises if one of them is not published now."""
        async with self._readers.asking() as link:
            listed = await published(link.execute, self._around.config.publication_names, self._readers.server_version)
        chosen(tables, listed)

    async def add(self, record: SnapshotRecord) -> None:
        """Durable when it returns."""
        await self._store.write(record)
        self.jobs[record.id] = Job(record)
        self._tell(self.jobs[record.id], "snapshot_asked")
        self._news.set()

    async def change(self, job: Job, state: SnapshotState) -> None:
        """Paused, resumed or cancelled; pieces that are being read are finished first."""
        job.set(state)
        if state is SnapshotState.CANCELLED:
            job.record = over(job.record, state, unix_microseconds())
        elif state is SnapshotState.RUNNING:
            job.record = gone_on(job.record)
        await self._store.write(job.record)
        tell(self._around, self.jobs.values())
        if state is not SnapshotState.CANCELLED:
            self._tell(job, f"snapshot_{state}")
        elif job is not self._reading:
            await self._end(job, job.record)
        self._news.set()

    async def acked(self, acks: Mapping[str, Ack]) -> None:
        """What every required sink has is never read again."""
        for job in list(self.jobs.values()):
            record = job.record
            if record.end_offset and not record.is_delivered and is_delivered(record, acks, self._required):
                job.record = replace(record, is_delivered=True)
                await self._store.write(job.record)

    def lost(self, acks: Mapping[str, Ack], beginning: int) -> list[str]:
        """Snapshots of which a required sink lacks rows that the raw topic, which begins there, does not hold."""
        required, topic_id = self._required, self._at_start[2]
        return [job.record.id for job in self.jobs.values() if is_lost(job.record, acks, required, topic_id, beginning)]

    async def _read_again(self, job: Job) -> None:
        """From the beginning: what was read is gone, or may be. One that was stopped, once it is resumed."""
        await self._store.forget(job.record.id, job.tables)
        job.tables.clear()
        job.record = unread(job.record)
        await self._store.write(job.record)
        self._around.log.warning("snapshot_lost_in_raw_topic", snapshot=job.record.id)

    async def _read_exported(self, job: Job) -> None:
        limit = self._around.config.snapshot.max_transaction_age.total_seconds()
        try:
            async with asyncio.timeout(limit):
                await self._read(job, exported=self._exported)
        except TimeoutError:
            self._around.log.warning("snapshot_export_given_up", code="SNAPSHOT_TOO_OLD", seconds=limit)
        except (ConfigError, TransientError) as error:
            if error.code == EPOCH_OVER or (isinstance(error, ConfigError) and not job.is_because_of_a_gap):
                raise
            self._around.log.warning("snapshot_export_given_up", code=error.code)
        finally:
            job.given_back()

    async def _read(self, job: Job, exported: Exported | None) -> None:
        """Until it is done, or another one comes first."""
        self._reading = job
        try:
            await self._read_until_done(job, exported)
        finally:
            self._reading = None
        if job.record.state is SnapshotState.CANCELLED:
            await self._end(job, job.record)

    async def _read_until_done(self, job: Job, exported: Exported | None) -> None:
        await self._start(job, exported)
        await self._mark_ended(job)
        while self.top() is job and not job.is_read:
            pieces_left = await self._readers.read(job, exported, lambda: self.top() is job)
            await self._mark_ended(job)
            if exported is not None and not pieces_left:
                return
        if job.is_read and job.is_runnable:
            await self._end(job, over(job.record, SnapshotState.DONE, unix_microseconds()))

    async def _start(self, job: Job, exported: Exported | None) -> None:
        planned = await plan_tables(job, self._around.config, exported, self._readers)
        for table in planned:
            job.tables[table.relation_id] = table
        await self._store.write(*planned)
        if job.record.state is SnapshotState.WAITING or not job.record.has_plan:
            job.record = replace(
                job.record,
                # It may have been paused or cancelled while the tables were looked at.
                state=SnapshotState.RUNNING if job.is_runnable else job.record.state,
                has_plan=True,
                tables_planned=len(job.tables),
                started=job.record.started or unix_microseconds(),
                topic_id=self._at_start[2],
                first_offset=self._outlet.durable_offset,
            )
            await self._store.write(job.record)
            self._tell(job, "snapshot_started", tables=len(job.tables), is_exported=exported is not None)
        else:  # what is left of a snapshot that a death or a pause has cut is read under others, and this says so
            self._tell(job, "snapshot_goes_on", rows=job.rows, is_exported=exported is not None)

    async def _mark_ended(self, job: Job) -> None:
        for table in job.tables.values():
            if table.state.is_over or (table.relation_id in job.published and not is_complete(table)):
                continue
            await self._marks.ended(job, table)
            await self._store.write(table)
            self._tell(job, f"snapshot_table_{table.state}", table=f"{table.schema}.{table.table}", rows=table.rows)

    async def _begins(self, job: Job, table: TableRecord) -> None:
        if await self._marks.started(job, table):
            await self._store.write(table)

    async def _finished(self, job: Job, table: TableRecord, rows: int, size: int) -> None:
        """A piece of it is durable."""
        self._around.metrics.snapshot_rows.add(rows)
        self._around.metrics.snapshot_bytes.add(size)
        if job.record.state is not SnapshotState.CANCELLED:
            await self._store.write(table)

    async def _end(self, job: Job, record: SnapshotRecord) -> None:
        """Its tables are forgotten, what is known of it is kept."""
        if record.state is SnapshotState.CANCELLED:
            await self._marks.cancelled(job, job.tables.values())
        job.record = job.summed_up(record, self._outlet.durable_offset)
        await self._store.write(job.record)
        if record.state is not SnapshotState.FAILED:
            await self._store.forget(job.record.id, job.tables)
        self._tell(job, f"snapshot_{record.state}", rows=job.rows, size=job.size)
        tell(self._around, self.jobs.values())
        await self._stop_if_that_was_all()

    async def _stop_if_that_was_all(self) -> None:
        if is_all(self._mode, [job.record for job in self.jobs.values()]):
            await self.desk.say_the_last()
            self._around.stop.set()

    def _tell(self, job: Job, event: str, **fields: object) -> None:
        self._around.log.info(event, snapshot=job.record.id, kind=job.record.kind, by=job.record.by, **fields)
