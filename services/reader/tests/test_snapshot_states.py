"""Snapshots that a person has stopped, or that failed: nothing is read that nobody waits for, and nothing is lost."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tidegate.config.values import SnapshotMode
from tidegate.contracts.ack import Ack
from tidegate.contracts.snapshot_status import SnapshotKind, SnapshotState
from tidegate.lsn import Lsn
from tidegate.position import BEGINNING
from tidegate_reader.snapshot.coordinator import Snapshots
from tidegate_reader.snapshot.records import SnapshotRecord
from tidegate_reader.snapshot.store import Kept

ID = "ab" * 16
BEGINS = 20
"""Where retention left the raw topic."""


class Store:
    async def write(self, *records: object) -> None:
        pass

    async def forget(self, *what: object) -> None:
        pass


def quiet(*_: object, **__: object) -> None:
    pass


def snapshots(state: SnapshotState, ack_offset: int = 15) -> tuple[Snapshots, dict[str, Ack]]:
    """One, of rows that stood behind offset 10; the only sink has acked what stands at `ack_offset`."""
    end = 50 if state.is_over else 0
    record = SnapshotRecord(
        id=ID, kind=SnapshotKind.REQUESTED, state=state, by="somebody", requested=1, has_plan=True, topic_id="one",
        first_offset=10, end_offset=end, finished=end,
    )  # fmt: skip
    acks = {"orders": Ack("orders", "g", 1, "one", ack_offset, BEGINNING, Lsn(0), 0)}
    config = SimpleNamespace(snapshot=SimpleNamespace(mode=SnapshotMode.NEVER))
    around = SimpleNamespace(
        config=config,
        log=SimpleNamespace(info=quiet, warning=quiet),
        progress=SimpleNamespace(),
        health=SimpleNamespace(up=quiet, degraded=quiet),
    )
    at_start = (acks, ("orders",), "one", BEGINS)
    parts = (around, None, SimpleNamespace(), Store(), Kept({ID: record}), None, 2, at_start, None, quiet)
    return Snapshots(*cast(Any, parts)), acks


@pytest.mark.parametrize("state", list(SnapshotState))
def test_a_stopped_snapshot_is_not_read_again_whatever_retention_took(state: SnapshotState) -> None:
    """A cancelled, paused or failed one was read by itself at the next start, against what a person had said."""
    subject, acks = snapshots(state)
    stopped = state in (SnapshotState.CANCELLED, SnapshotState.PAUSED, SnapshotState.FAILED)
    asyncio.run(subject._begin())
    assert (subject.top() is None) is stopped
    assert subject.jobs[ID].record.state is (state if stopped else SnapshotState.WAITING)
    assert not subject.lost(acks, BEGINS), "once is enough"


@pytest.mark.parametrize("state", [SnapshotState.PAUSED, SnapshotState.FAILED])
def test_a_stopped_snapshot_of_which_rows_are_gone_begins_anew_once_it_is_resumed(state: SnapshotState) -> None:
    subject, _ = snapshots(state)
    asyncio.run(subject._begin())
    assert not subject.jobs[ID].record.has_plan
    assert not subject.jobs[ID].record.topic_id


def test_nobody_is_stopped_for_rows_of_a_cancelled_snapshot() -> None:
    subject, acks = snapshots(SnapshotState.CANCELLED)
    assert not subject.lost(acks, BEGINS)


def test_a_failed_snapshot_that_goes_on_is_delivered_only_when_its_new_rows_are() -> None:
    """What it had sent when it failed was acked, and what came after passed for that."""

    async def scenario() -> None:
        subject, acks = snapshots(SnapshotState.FAILED, ack_offset=60)
        await subject.acked(acks)
        assert subject.jobs[ID].record.is_delivered
        await subject.change(subject.jobs[ID], SnapshotState.RUNNING)
        await subject.acked(acks)
        assert not subject.jobs[ID].record.is_delivered

    asyncio.run(scenario())
