"""A source that is a standby: a new sink's snapshot can't be taken beside its stream, and that is written down."""

import asyncio
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tidegate.config.values import StartFrom
from tidegate.contracts.snapshot_status import SnapshotState
from tidegate_reader.snapshot.new_sinks import NewSinks
from tidegate_reader.snapshot.records import SnapshotRecord


@pytest.mark.parametrize(("is_standby", "state"), [("t", SnapshotState.FAILED), ("f", SnapshotState.WAITING)])
def test_a_new_sink_beside_a_standby_is_told_and_not_tried_for(
    is_standby: str, state: SnapshotState, monkeypatch: pytest.MonkeyPatch
) -> None:
    added: list[SnapshotRecord] = []

    async def add(record: SnapshotRecord) -> None:
        added.append(record)

    async def listed(*_: object) -> list[object]:
        return [SimpleNamespace(schema="public", name="orders")]

    async def execute(_query: str) -> list[tuple[str]]:
        return [(is_standby,)]

    @asynccontextmanager
    async def asking():  # type: ignore[no-untyped-def]
        yield SimpleNamespace(execute=execute)

    monkeypatch.setattr("tidegate_reader.snapshot.new_sinks.published", listed)
    sink = SimpleNamespace(name="late", start_from=StartFrom.SNAPSHOT, routes=())
    config = SimpleNamespace(sinks=[sink], publication_names=["p"])
    readers = SimpleNamespace(asking=asking, server_version=180_000)
    parts = (config, SimpleNamespace(jobs={}, add=add), readers)
    asyncio.run(NewSinks(*cast(Any, parts)).look({"late": cast(Any, None)}))
    [record] = added
    assert (record.state, record.code) == (state, "SNAPSHOT_STANDBY" if state is SnapshotState.FAILED else "")
