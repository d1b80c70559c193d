"""Which tables a snapshot is of, once: what is published when it starts, or what was asked for of that.

Invariant: the plan is durable before the first row, and a snapshot that goes on after a crash keeps it.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from tidegate.clock import unix_microseconds
from tidegate.config.values import SnapshotMode
from tidegate.contracts.snapshot_request import join_table, split_table
from tidegate.contracts.snapshot_status import SnapshotKind, SnapshotState
from tidegate.errors import ConfigError, TidegateError, TransientError
from tidegate_reader.snapshot import catalogue
from tidegate_reader.snapshot.readers import MOST_BREAKS
from tidegate_reader.snapshot.records import SnapshotRecord, TableRecord

if TYPE_CHECKING:
    from tidegate.config.pipeline import PipelineConfig
    from tidegate_reader.snapshot.catalogue import Published
    from tidegate_reader.snapshot.exported import Exported
    from tidegate_reader.snapshot.job import Job
    from tidegate_reader.snapshot.link import ReadingLink
    from tidegate_reader.snapshot.readers import Readers

EPOCH_OVER = "EPOCH_OVER"
"""A record did not reach the snapshots topic: nothing to do with what was read."""
_BY_CONFIGURATION = "configuration"


def wanted(mode: SnapshotMode, records: Sequence[SnapshotRecord], epoch: int) -> SnapshotRecord | None:
    """What the configuration asks for, unless it has been or is being done."""
    if any(record.kind is SnapshotKind.RESNAPSHOT and not record.state.is_over for record in records):
        return None
    before = [record for record in records if record.kind is SnapshotKind.INITIAL]
    if mode is SnapshotMode.NEVER or any(not record.state.is_over for record in before):
        return None
    if before and mode is not SnapshotMode.ALWAYS:
        return None
    return SnapshotRecord(
        id=secrets.token_hex(16),
        kind=SnapshotKind.INITIAL,
        state=SnapshotState.WAITING,
        by=_BY_CONFIGURATION,
        requested=unix_microseconds(),
        epoch=epoch,
    )


def is_all(mode: SnapshotMode, records: Iterable[SnapshotRecord]) -> bool:
    """Whether a reader that was started for its snapshot alone has nothing left to do. One that has failed, or that a
    person has paused, may still be resumed."""
    own = [record.state for record in records if record.kind is not SnapshotKind.REQUESTED]
    return mode is SnapshotMode.INITIAL_ONLY and set(own) <= {SnapshotState.DONE, SnapshotState.CANCELLED}


def ends_the_reader(mode: SnapshotMode, record: SnapshotRecord, error: TidegateError) -> bool:
    """Or the snapshot has failed, and the stream goes on. `initial_only` has no other aim: its next start goes on."""
    if error.code == EPOCH_OVER:
        return True
    if record.state is SnapshotState.CANCELLED:
        return False
    if mode is SnapshotMode.INITIAL_ONLY:
        return record.kind is not SnapshotKind.REQUESTED
    return record.kind is SnapshotKind.INITIAL and isinstance(error, ConfigError)


async def plan_tables(
    job: Job, config: PipelineConfig, exported: Exported | None, readers: Readers
) -> list[TableRecord]:
    """Looks at the catalogue as the snapshot sees it; gives the tables that are new in the plan. A connection
    that can't be had is tried for as long as one that reads."""
    if exported is not None and exported.link is not None:
        return await _plan(job, config, exported.link, readers.server_version)
    breaks = 0
    while True:
        try:
            async with readers.asking() as link:
                return await _plan(job, config, link, readers.server_version)
        except TransientError as error:
            breaks += 1
            if breaks > MOST_BREAKS:
                raise
            await readers.rest(job, error, breaks)


async def _plan(job: Job, config: PipelineConfig, link: ReadingLink, server_version: int) -> list[TableRecord]:
    listed = await catalogue.published(link.execute, config.publication_names, server_version)
    wanted = listed if job.record.has_plan else chosen(job.record.tables, listed)
    planned = []
    for table in wanted:
        if job.record.has_plan and table.relation_id not in job.tables:
            continue
        if (shape := await catalogue.table_shape(link.execute, table)) is None:
            continue
        job.published[table.relation_id], job.shapes[table.relation_id] = table, shape
        if table.relation_id not in job.tables:
            heaps, rows = await catalogue.heaps(link.execute, table.relation_id)
            planned.append(
                TableRecord(
                    snapshot=job.record.id,
                    relation_id=table.relation_id,
                    schema=table.schema,
                    table=table.name,
                    state=SnapshotState.WAITING,
                    heaps=heaps,
                    has_key=shape.has_key,
                    tells_updates=table.tells_updates,
                    estimated_rows=rows,
                )
            )
    for known in job.tables.values():
        if known.relation_id not in job.published and known.state is SnapshotState.RUNNING:
            await _look_at_what_is_gone(job, known, link)
    return planned


def chosen(tables: Sequence[str], listed: list[Published]) -> list[Published]:
    if not tables:
        return listed
    by_name = {(table.schema, table.name): table for table in listed}
    asked = [split_table(name) for name in tables]
    missing = [join_table(*name) for name in asked if name not in by_name]
    if missing:
        raise ConfigError(
            f"a snapshot was asked for of tables that are not published: {', '.join(missing)}",
            code="SNAPSHOT_UNPUBLISHED",
            remedy="Add them to the publication first; of a partitioned table name what is published, root or leaf.",
        )
    return [by_name[name] for name in asked]


async def _look_at_what_is_gone(job: Job, table: TableRecord, link: ReadingLink) -> None:
    """No longer published since the plan was made: there is nothing to read, and its end is said while it is there."""
    as_it_is = catalogue.Published(
        table.relation_id, table.schema, table.table,
        columns=None, has_generated=False, where=None, tells_updates=True, version="",
    )  # fmt: skip
    if (shape := await catalogue.table_shape(link.execute, as_it_is)) is not None:
        job.shapes[table.relation_id] = shape
