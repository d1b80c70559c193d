"""The kit's own promise: real servers, and a database that leaves nothing behind."""

from contextlib import closing

import psycopg
from kit.servers import Database, drop_database
from kit.wait import wait

from tidegate.stack.kafka import broker_answers


def test_each_server_answers(postgres, kafka, redis):
    """What a fixture hands out takes requests, with the credentials it names."""
    import redis as client

    with psycopg.connect(postgres.dsn()) as connection:
        assert connection.execute("SHOW wal_level").fetchone() == ("logical",)
    assert broker_answers(kafka.host, kafka.port)
    with client.Redis.from_url(redis.url) as connection:
        assert connection.ping()


def test_a_database_is_dropped_with_a_slot_in_use(postgres, prefix):
    """A test that fails with its reader still streaming does not keep WAL for the rest of the session."""
    dsn = postgres.ensure_database(prefix)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", [prefix])
        with closing(psycopg.connect(f"{dsn}?replication=database", autocommit=True)) as streaming:
            streaming.pgconn.send_query(
                f"START_REPLICATION SLOT \"{prefix}\" LOGICAL 0/0 (proto_version '1', publication_names 'p')".encode()
            )
            active = "SELECT active FROM pg_replication_slots WHERE slot_name = %s"
            wait(lambda: connection.execute(active, [prefix]).fetchone() == (True,), 10, "the slot is in use")
            drop_database(postgres.dsn(), prefix)
    with psycopg.connect(postgres.dsn()) as connection:
        left = "SELECT count(*) FROM pg_replication_slots WHERE slot_name = %s"
        assert connection.execute(left, [prefix]).fetchone() == (0,)


def test_a_database_is_empty_and_ones_own(database: Database):
    """No table of an earlier test is there."""
    with psycopg.connect(database.dsn) as connection:
        tables = connection.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").fetchone()
    assert tables == (0,)
