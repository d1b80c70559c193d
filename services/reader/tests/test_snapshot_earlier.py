"""A commit that the stream has had before anybody sees it: no snapshot of a later epoch brings the row before it."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from kit.snapshots import replica_of
from kit.wait import wait

from tidegate.contracts.names import snapshots_key
from tidegate.contracts.snapshot_status import decode_snapshot_status
from tidegate.stack.postgres import Postgres

INITIAL = "snapshot.mode=initial"


def test_one_that_waits_for_a_standby_is_waited_for_by_the_next_epoch_too(
    own_postgres: Postgres, fleet_on: Callable[[str], Any]
) -> None:
    fleet = fleet_on(own_postgres.dsn())
    fleet.sql(f'ALTER DATABASE "{fleet.name}" SET synchronous_commit = local')
    fleet.sql("INSERT INTO orders (note) SELECT 'older' FROM generate_series(1, 100)")
    process = fleet.reader()
    with waiting(fleet, "UPDATE orders SET note = 'newer' WHERE id = 1"):
        wait(lambda: fleet.valid_records()[-1].frame.header.safe_lsn >= fleet.wal_end(), 30, "the stream has it")
        fleet.ack_everything()
        confirmed = fleet.valid_records()[-1].frame.header.safe_lsn
        wait(lambda: fleet.confirmed() >= confirmed, 30, "the source has let go of it")
        fleet.stop(process)
        fleet.reader(INITIAL)
        wait(lambda: "open when the reader began" in waits_for(fleet), 30, "it is waited for, and that is told")
        assert "snapshot_done" not in fleet.log()
    wait(lambda: "snapshot_done" in fleet.log(), 30, "the table is complete")
    rows = replica_of(fleet.valid_records()).named("orders")
    assert (len(rows), rows[(b"1",)][1]) == (100, b"newer")


def test_one_that_is_really_open_is_not_waited_for_where_commits_wait_for_nobody(fleet: Any) -> None:
    fleet.sql("INSERT INTO orders (note) SELECT 'older' FROM generate_series(1, 100)")
    fleet.stop(fleet.reader())
    with psycopg.connect(fleet.dsn) as connection:
        connection.execute("UPDATE orders SET note = 'newer' WHERE id = 1")
        fleet.reader(INITIAL)
        wait(lambda: "snapshot_done" in fleet.log(), 30, "the table is complete")
        connection.commit()
    wait(lambda: replica_of(fleet.valid_records()).named("orders")[(b"1",)][1] == b"newer", 30, "the change has come")


def waits_for(fleet: Any) -> str:
    with fleet.redis() as client:
        values = client.hvals(snapshots_key(fleet.name))
    return "; ".join(decode_snapshot_status(value).waits_for for value in values)


@contextmanager
def waiting(fleet: Any, statement: str) -> Iterator[None]:
    """Its commit waits, until there is no standby any more that it waits for."""

    waits, enough = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'", threading.Event()

    def commit() -> None:
        """Sessions know of the standby before the server waits for it."""
        with psycopg.connect(fleet.dsn, autocommit=True) as connection:
            connection.execute("SET synchronous_commit = on")
            while not enough.wait(0.05):
                connection.execute(statement.encode())

    names_a_standby(fleet, "nobody")
    committing = threading.Thread(target=commit)
    committing.start()
    try:
        wait(lambda: fleet.sql(waits) == [(1,)], 30, "the commit waits")
        enough.set()
        yield
    finally:
        enough.set()
        names_a_standby(fleet, "")
        committing.join()


def names_a_standby(fleet: Any, name: str) -> None:
    fleet.sql(f"ALTER SYSTEM SET synchronous_standby_names = '{name}'")
    fleet.sql("SELECT pg_reload_conf()")
    wait(lambda: fleet.sql("SHOW synchronous_standby_names") == [(name,)], 10, "the server knows")
