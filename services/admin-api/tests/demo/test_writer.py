"""The shop on a real PostgreSQL: what it says it changed is what the WAL says."""

from random import Random

import psycopg
from kit.servers import Database
from kit.wait import wait

from tidegate_admin.demo.ledger import Ledger
from tidegate_admin.demo.shop import TABLES, Shop
from tidegate_admin.demo.writer import Writer


def test_changes_are_told_as_postgresql_makes_them(database: Database) -> None:
    """Same tables, same operations, same number, in the same order, as a slot sees."""
    with psycopg.connect(database.dsn, autocommit=True) as connection:
        cursor = connection.cursor()
        cursor.execute("SET synchronous_commit = on")  # a slot reads what is flushed
        shop = Shop(Random(1))
        shop.open(cursor)
        publication = ", ".join(TABLES)
        cursor.execute(f"CREATE PUBLICATION p FOR TABLE {publication}")
        cursor.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", [database.name])
        told = [change for _ in range(60) for change in shop.choose()(cursor)]
        cursor.execute(
            "SELECT data FROM pg_logical_slot_get_binary_changes(%s, NULL, NULL,"
            " 'proto_version', '1', 'publication_names', 'p')",
            [database.name],
        )
        kinds = [bytes(row[0])[:1] for row in cursor if bytes(row[0])[:1] in (b"I", b"U", b"D")]
    assert len(told) > 60
    assert [change.operation[:1].encode() for change in told] == kinds


def test_the_writer_waits_for_the_slot_and_ends_behind_its_last_commit(database: Database) -> None:
    """What is written before there is a slot is nobody's to deliver."""
    ledger = Ledger()
    writer = Writer(database.dsn, database.name, ledger, changes_a_second=500, seed=1)
    writer.start()
    try:
        with psycopg.connect(database.dsn, autocommit=True) as connection:
            wait(lambda: _tables(connection) == len(TABLES), 10, "the tables are there")
            assert ledger.balance().written == 0
            connection.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", [database.name])
            wait(lambda: ledger.balance().written > 50, 20, "the shop writes")
            writer.stop()
            row = connection.execute("SELECT pg_current_wal_lsn() - '0/0'::pg_lsn").fetchone()
    finally:
        writer.stop()
    assert writer.failure is None
    assert writer.end_lsn is not None
    assert row is not None
    assert 0 < writer.end_lsn <= row[0]


def test_a_database_that_goes_away_is_a_failure_with_a_remedy() -> None:
    writer = Writer("postgresql://nobody@127.0.0.1:1/none", "slot", Ledger())
    writer.start()
    writer.stop()
    assert writer.failure is not None
    assert writer.failure.code == "DEMO_WRITER_FAILED"


def _tables(connection: "psycopg.Connection[tuple[int]]") -> int:
    row = connection.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").fetchone()
    return row[0] if row else 0


def test_a_shop_with_many_orders_forgets_the_oldest() -> None:
    """A demo left running for a week stays small."""
    shop = Shop(Random(1), orders=dict.fromkeys(range(400), 1))
    assert shop.choose() == shop.forget_order
