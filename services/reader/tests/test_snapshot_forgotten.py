"""The topic that keeps how far snapshots are is lost: rows come again, none is missing, and it is said."""

from typing import Any

from kit.raw_topic import administer
from kit.snapshots import replica_of, snapshot_marks
from kit.wait import wait

from tidegate.contracts.mark import MarkKind
from tidegate.contracts.names import snapshots_key, snapshots_topic
from tidegate.contracts.snapshot_status import SnapshotKind, SnapshotState, SnapshotStatus, decode_snapshot_status

INITIAL = "snapshot.mode=initial"


def completed(fleet: Any) -> int:
    return sum(mark.kind is MarkKind.SNAPSHOT_COMPLETED for mark in snapshot_marks(fleet.frames()))


def rows(fleet: Any) -> set[tuple[bytes, ...]]:
    return set(replica_of(fleet.valid_records()).named("orders").values())


def source_rows(fleet: Any) -> set[tuple[bytes, ...]]:
    return {(str(number).encode(), note.encode()) for number, note in fleet.sql("SELECT id, note FROM orders")}


def test_all_is_read_again_and_nothing_newer_is_overwritten(fleet: Any) -> None:
    fleet.sql("INSERT INTO orders (note) SELECT 'row ' || n FROM generate_series(1, 500) n")
    process = fleet.reader(INITIAL)
    wait(lambda: completed(fleet) == 1, 30, "the table is read")
    fleet.stop(process)
    fleet.sql("UPDATE orders SET note = 'newer' WHERE id < 10")
    fleet.sql("DELETE FROM orders WHERE id > 490")
    administer(fleet.bootstrap, "delete_topics", [snapshots_topic(fleet.name)])
    fleet.reader(INITIAL)
    wait(lambda: completed(fleet) == 2, 30, "the table is read again")
    wait(lambda: rows(fleet) == source_rows(fleet), 30, "all is as in the source")
    assert "snapshots_topic_lost" in fleet.log()


def test_a_first_start_has_lost_nothing(fleet: Any) -> None:
    fleet.stop(fleet.reader())
    assert "snapshots_topic_lost" not in fleet.log()
    fleet.reader()
    assert "snapshots_topic_lost" not in fleet.log()


def test_what_nobody_knows_any_more_is_not_shown_as_running(fleet: Any) -> None:
    lost = SnapshotStatus(
        id="ab" * 16, kind=SnapshotKind.REQUESTED, state=SnapshotState.RUNNING, by="somebody", requested=1, rows=7
    )
    with fleet.redis() as client:
        client.hset(snapshots_key(fleet.name), mapping={lost.id: lost.encode(), "odd": b"not a status"})
        fleet.reader()

        def shown() -> SnapshotStatus | None:
            status = decode_snapshot_status(client.hget(snapshots_key(fleet.name), lost.id))
            return status if status.state is SnapshotState.FAILED else None

        told = wait(shown, 20, "it is shown as failed")
    assert (told.code, told.rows) == ("SNAPSHOT_FORGOTTEN", 7)
