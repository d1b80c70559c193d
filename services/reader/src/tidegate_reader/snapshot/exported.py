"""The snapshot that the server exports while it makes the slot, held by a connection of its own.

    CREATE_REPLICATION_SLOT … export ─▶ import here, at once ─▶ export again ─▶ readers import, a piece at a time

Invariant: what is exported here is the slot's consistent point, to the transaction: rows that it shows and changes that
the slot sends make the whole, without a gap and without anything twice. It holds no lock, and readers hold theirs for
one piece. Lost, it is never made again: what is left is read in windows.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from tidegate.config.values import SnapshotMode
from tidegate.contracts.snapshot import SnapshotHead
from tidegate_reader.snapshot.link import ReadingLink
from tidegate_reader.snapshot.reading import BEGIN, import_snapshot, look
from tidegate_reader.snapshot.seen import Seen

if TYPE_CHECKING:
    from tidegate.config.pipeline import PipelineConfig


class Exported:
    def __init__(self, config: PipelineConfig) -> None:
        self._config = config
        self._since = 0.0
        self.link: ReadingLink | None = None
        self.name = ""
        self.seen = Seen(0, 0, frozenset(), 0)

    @property
    def is_wanted(self) -> bool:
        return self._config.snapshot.mode is not SnapshotMode.NEVER

    @property
    def is_held(self) -> bool:
        return self.link is not None

    @property
    def age_seconds(self) -> float:
        return time.monotonic() - self._since if self.is_held else 0.0

    async def hold(self, name: str) -> None:
        """Before anything else is said on the connection that made the slot."""
        self.link = await ReadingLink.open(self._config.source, f"tidegate {self._config.pipeline} snapshot")
        await self.link.execute(BEGIN)
        await import_snapshot(self.link, name)
        self.seen = await look(self.link)
        [(exported,)] = await self.link.execute("SELECT pg_export_snapshot()")
        self.name, self._since = str(exported), time.monotonic()

    def head(self, head: SnapshotHead) -> SnapshotHead:
        """Rows precede every change of the stream."""
        return SnapshotHead(head.snapshot, head.relation_id, head.reading, 0, 0, self.seen.read_at)

    async def close(self) -> None:
        if self.link is not None:
            link, self.link = self.link, None
            link.close()
