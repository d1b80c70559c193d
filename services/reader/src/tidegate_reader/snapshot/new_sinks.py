"""Sinks that begin with a snapshot (`from: snapshot`): one is taken for each, once its lane has a place in the log.

    lane comes in at the log's end ─▶ its first ack ─▶ a snapshot of its tables, beside the stream

Invariant: rows are read after the lane has its place, so what changes later comes to it by the stream; and it is
written down in whose name they are read, so that it happens once. Where none can be read, that is written down.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import TYPE_CHECKING

from tidegate.clock import unix_microseconds
from tidegate.config.values import StartFrom
from tidegate.contracts.snapshot_request import join_table
from tidegate.contracts.snapshot_status import SnapshotKind, SnapshotState
from tidegate.events import Operation
from tidegate_reader.snapshot.catalogue import published
from tidegate_reader.snapshot.records import SnapshotRecord, failed, over
from tidegate_reader.snapshot.refusals import beside_a_standby

if TYPE_CHECKING:
    from tidegate.config.pipeline import PipelineConfig
    from tidegate.config.sinks import SinkConfig
    from tidegate.contracts.ack import Ack
    from tidegate_reader.snapshot.catalogue import Published
    from tidegate_reader.snapshot.coordinator import Snapshots
    from tidegate_reader.snapshot.readers import Readers


class NewSinks:
    def __init__(self, config: PipelineConfig, snapshots: Snapshots, readers: Readers) -> None:
        self._snapshots, self._readers = snapshots, readers
        self.follow(config)

    def follow(self, config: PipelineConfig) -> None:
        """By this configuration from now on; who has had a snapshot is known by its name, and gets no second one."""
        self._config = config
        self._waiting = [sink for sink in config.sinks if sink.start_from is StartFrom.SNAPSHOT]

    async def look(self, acks: Mapping[str, Ack]) -> None:
        for sink in [sink for sink in self._waiting if sink.name in acks]:
            if not any(job.record.by == _owner(sink) for job in self._snapshots.jobs.values()):
                await self._ask(sink)
            self._waiting = [each for each in self._waiting if each.name != sink.name]

    async def _ask(self, sink: SinkConfig) -> None:
        async with self._readers.asking() as link:
            listed = await published(link.execute, self._config.publication_names, self._readers.server_version)
            [(is_standby,)] = await link.execute("SELECT pg_is_in_recovery()")
        now = unix_microseconds()
        record = SnapshotRecord(
            id=secrets.token_hex(16),
            kind=SnapshotKind.REQUESTED,
            state=SnapshotState.WAITING,
            by=_owner(sink),
            requested=now,
            tables=tuple(join_table(table.schema, table.name) for table in listed if _takes(sink, table)),
        )
        if not record.tables:  # it would be one of them all
            record = over(record, SnapshotState.DONE, now)
        elif is_standby == "t":
            record = failed(record, beside_a_standby(), now)
        await self._snapshots.add(record)


def _owner(sink: SinkConfig) -> str:
    return f"sink {sink.name}"


def _takes(sink: SinkConfig, table: Published) -> bool:
    """By its routes; a configuration that was checked elsewhere has no methods."""
    return not sink.routes or any(
        Operation.SNAPSHOT in route.operations and any(each.matches(table.schema, table.name) for each in route.tables)
        for route in sink.routes
    )
