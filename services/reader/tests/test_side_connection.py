"""Questions beside the stream, while others change what they are about."""

import asyncio
from typing import Any

import psycopg
import pytest
from kit.pipelines import source_of
from kit.wait import wait_async

from tidegate.config.source import PostgresSource
from tidegate_reader.sources.postgres_wal.session import SideConnection

_WAITS = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'tidegate beside' AND wait_event_type = 'Lock'"


def test_a_table_that_is_dropped_while_the_catalogue_is_looked_at_fails_nobody(
    database: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asyncio.run(_asked_while_dropped(database.dsn, source_of(database.dsn, monkeypatch.setenv)))


async def _asked_while_dropped(dsn: str, source: PostgresSource) -> None:
    with psycopg.connect(dsn, autocommit=True) as watching, psycopg.connect(dsn) as dropping:
        watching.execute("CREATE TABLE stays (id int PRIMARY KEY); CREATE TABLE goes (id int PRIMARY KEY)")
        watching.execute("CREATE PUBLICATION p FOR ALL TABLES")
        side = await SideConnection.open(source, "tidegate beside")
        try:
            dropping.execute("DROP TABLE goes")
            asking = asyncio.create_task(side.fetch("SELECT tablename FROM pg_publication_tables ORDER BY tablename"))
            await wait_async(lambda: watching.execute(_WAITS).fetchone() == (1,), 10, "it waits for whoever drops it")
            dropping.commit()
            assert await asking == [("stays",)]
        finally:
            await side.close()
