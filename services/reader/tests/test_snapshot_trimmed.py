"""Rows of a snapshot that retention takes from the raw topic: no position tells of them, and still none is lost."""

from typing import Any

import pytest
from kit.raw_topic import known_beginning, trim
from kit.snapshots import replica_of, snapshot_marks
from kit.wait import wait

from tidegate.checkpoint.redis_store import read_lineage
from tidegate.contracts.frame import FrameKind
from tidegate.contracts.mark import MarkKind
from tidegate.contracts.missed import Missed
from tidegate.contracts.snapshot import decode_snapshot
from tidegate.errors import ExitCode

INITIAL = "snapshot.mode=initial"
ROWS = 3000


def snapshots(fleet: Any) -> list[Any]:
    return [each for each in fleet.valid_records() if each.frame.header.kind is FrameKind.SNAPSHOT]


def is_complete(fleet: Any) -> bool:
    return any(mark.kind is MarkKind.SNAPSHOT_COMPLETED for mark in snapshot_marks(fleet.frames()))


def read_whole(fleet: Any, *more: str) -> Any:
    fleet.sql("INSERT INTO orders (note) SELECT 'before ' || n FROM generate_series(1, %s) n", ROWS)
    reader = fleet.reader(INITIAL, *more)
    wait(lambda: is_complete(fleet), 30, "the table is read")
    return reader


def test_a_running_reader_notices_them_and_they_are_read_again(fleet: Any) -> None:
    """The sink has acked nothing, and finds everything else that it needs: only rows are gone."""
    reader = read_whole(fleet)
    trim(fleet, upto=snapshots(fleet)[-1].offset + 1)
    assert fleet.exit_code(reader) == ExitCode.RETRY
    assert fleet.status().failure.code == "RAW_TOPIC_OVERTAKES_SNAPSHOT"
    fleet.reader(INITIAL)
    assert_read_again(fleet)


@pytest.mark.parametrize("is_running", [True, False])
def test_a_sink_that_came_in_behind_them_before_the_reader_noticed_has_them_in_the_end(
    fleet: Any, is_running: bool
) -> None:
    reader = read_whole(fleet)
    rows, last = snapshots(fleet), fleet.valid_records()[-1]
    with fleet.redis() as client:
        lineage = read_lineage(client, fleet.name)
    assert lineage is not None
    if not is_running:
        fleet.stop(reader)
    begins = trim(fleet, upto=rows[-1].offset + 1)
    fleet.ack(last, topic_id=lineage.topic_id, missed=Missed(rows[0].offset, begins))
    if is_running:
        assert fleet.exit_code(reader) == ExitCode.RETRY
    fleet.reader(INITIAL)
    assert_read_again(fleet)


def assert_read_again(fleet: Any) -> None:
    def rows() -> int:
        return sum(decode_snapshot(each.frame.body).head.rows for each in snapshots(fleet))

    wait(lambda: rows() == ROWS, 30, "read again")
    assert {key[0] for key in replica_of(fleet.valid_records()).named("orders")} == {
        str(number).encode() for number in range(1, ROWS + 1)
    }
    assert all(decode_snapshot(each.frame.body).head.has_window for each in snapshots(fleet))


def test_rows_that_every_required_sink_has_may_go(fleet: Any, unused_port: int) -> None:
    reader = read_whole(fleet, f"reader.http=127.0.0.1:{unused_port}")
    last = fleet.valid_records()[-1]
    with fleet.redis() as client:
        lineage = read_lineage(client, fleet.name)
    assert lineage is not None
    fleet.ack(last, topic_id=lineage.topic_id)
    begins = trim(fleet, upto=last.offset)
    wait(lambda: known_beginning(unused_port) == begins, 15, "the reader has looked")
    again = trim(fleet, upto=begins + 1)
    wait(lambda: known_beginning(unused_port) == again, 15, "the reader has looked once more")
    assert reader.poll() is None
