"""Puts the parts of snapshots together for one run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidegate_reader.snapshot.board import Board
from tidegate_reader.snapshot.brakes import Brakes
from tidegate_reader.snapshot.coordinator import Snapshots
from tidegate_reader.snapshot.desk import SnapshotDesk
from tidegate_reader.snapshot.new_sinks import NewSinks
from tidegate_reader.snapshot.outlet import Outlet
from tidegate_reader.snapshot.readers import Readers
from tidegate_reader.snapshot.reading import Windows
from tidegate_reader.snapshot.store import Store, tell_if_lost

if TYPE_CHECKING:
    from tidegate_reader.framer import Framer
    from tidegate_reader.keeper import Keeper
    from tidegate_reader.opening import Checked, Run
    from tidegate_reader.snapshot.exported import Exported
    from tidegate_reader.snapshot.store import Kept
    from tidegate_reader.sources.postgres_wal.session import SideConnection
    from tidegate_reader.sources.postgres_wal.stream import ReplicationStream
    from tidegate_reader.surroundings import Surroundings


@dataclass(frozen=True, slots=True)
class SnapshotParts:
    """What the opening of a run found and made."""

    exported: Exported
    kept: Kept
    checked: Checked


def make_outlet(around: Surroundings, opened: Run, stream: ReplicationStream) -> Outlet:
    """Rows leave most of what may be in flight to the stream."""
    return Outlet(
        opened.stamp.offset,
        in_flight=lambda: around.progress.in_flight_bytes,
        most_in_flight=around.config.raw_topic.max_in_flight // 4,
        wake=stream.wake,
    )


def make_snapshots(
    around: Surroundings,
    opened: Run,
    side: SideConnection,
    framer: Framer,
    keeper: Keeper,
    outlet: Outlet,
    parts: SnapshotParts,
) -> Snapshots:
    config, stamp = around.config, opened.stamp
    tell_if_lost(parts.kept, has_past=stamp.number > 1)
    windows = Windows(side, outlet, lambda: framer.recent, config.pipeline)
    readers = Readers(
        config,
        outlet,
        windows,
        Brakes(side, config.snapshot, config.pipeline, around.progress),
        epoch=stamp.number,
        room=framer.room,
        server_version=parts.checked.server_version,
    )
    store = Store(opened.producer, config.pipeline, stamp.generation.id)
    board = Board(around.progress, parts.exported, readers)
    return Snapshots(
        around,
        outlet,
        readers,
        store,
        parts.kept,
        parts.exported,
        stamp.number,
        (opened.acks, config.required_sinks, opened.lineage.topic_id, opened.beginning),
        opened.plan.gap,
        lambda snapshots: SnapshotDesk(
            around, snapshots, board, side, lambda: keeper.acks, NewSinks(config, snapshots, readers)
        ),
    )
