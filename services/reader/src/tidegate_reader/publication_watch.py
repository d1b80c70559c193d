"""Looks at what is published: a publication that vanishes ends the run, a table that comes or goes is told.

The server follows ALTER PUBLICATION by itself, and so does the stream. What it cannot say is that the rows a new table
had before are not in the stream, and that a removed one will be silent from now on.
"""

import asyncio

from tidegate.quoting import qualified
from tidegate_reader.sources.postgres_wal.failures import publication_missing
from tidegate_reader.sources.postgres_wal.session import SideConnection
from tidegate_reader.surroundings import Surroundings

_MAX_TOLD = 20


class PublicationWatch:
    def __init__(self, side: SideConnection, around: Surroundings) -> None:
        self._side, self._progress, self._log = side, around.progress, around.log
        self._names = list(around.config.publication_names)
        self._look_seconds = around.config.reader.look_every.total_seconds()
        self._tables: frozenset[str] | None = None

    async def run(self) -> None:
        while True:
            await self.look()
            await asyncio.sleep(self._look_seconds)

    async def look(self) -> None:
        [(found,)] = await self._side.fetch(
            "SELECT count(*) FROM pg_publication WHERE pubname = ANY(%s)", [self._names]
        )
        if found < len(set(self._names)):
            raise publication_missing()
        rows = await self._side.fetch(
            "SELECT DISTINCT schemaname, tablename FROM pg_publication_tables WHERE pubname = ANY(%s)", [self._names]
        )
        self._note(frozenset(qualified(*row) for row in rows))

    def _note(self, tables: frozenset[str]) -> None:
        before, self._tables = self._tables, tables
        self._progress.published_tables = len(tables)
        if before is None or before == tables:
            return
        added, removed = sorted(tables - before), sorted(before - tables)
        self._log.warning(
            "publication_changed",
            added=added[:_MAX_TOLD],
            removed=removed[:_MAX_TOLD],
            note="rows that an added table had before are not in the stream; take a snapshot of it for them",
        )
