"""What the reader refuses, how it says so, and that it never starts afresh silently."""

import asyncio
from typing import Any

import psycopg
import pytest
from aiokafka.admin import NewTopic
from aiokafka.structs import TopicPartition
from kit.raw_topic import administer, inserted
from kit.wait import wait

from tidegate.contracts.status import State
from tidegate.errors import ExitCode


def test_every_mistake_in_the_file_is_told_at_once(fleet: Any) -> None:
    fleet.settings["kafka"] = {"bootstrap": "nowhere"}
    fleet.settings["sinks"][0]["colour"] = "red"
    assert fleet.exit_code(fleet.start()) == ExitCode.CONFIGURATION
    assert "kafka.bootstrap" in fleet.log()
    assert "colour" in fleet.log()


def test_every_finding_at_source_and_raw_topic_is_told_at_once(fleet: Any) -> None:
    fleet.sql("CREATE TABLE keyless (note text)")
    fleet.settings["source"]["publication"]["tables"] = ["public.keyless", "public.absent", "missing.*"]
    administer(fleet.bootstrap, "create_topics", [NewTopic(fleet.topic, 2, 1)])
    assert fleet.exit_code(fleet.start()) == ExitCode.CONFIGURATION
    log = fleet.log()
    for code in ("REPLICA_IDENTITY", "TABLE_UNKNOWN", "RAW_TOPIC_PARTITIONS"):
        assert code in log
    assert all(name in log for name in ("keyless", "absent", "missing"))
    assert fleet.status().state is State.FAILED
    assert not fleet.sql("SELECT FROM pg_publication")
    assert not fleet.sql(f"SELECT FROM pg_replication_slots WHERE slot_name = '{fleet.slot}'")


def test_given_publications_must_exist_all_of_them(fleet: Any) -> None:
    fleet.settings["source"]["publication"] = {"manage": False, "names": ["one", "two"]}
    assert fleet.exit_code(fleet.start()) == ExitCode.CONFIGURATION
    assert all(f"publication {name} does not exist" in fleet.log() for name in ("one", "two"))


def test_a_vanished_slot_is_lost_and_not_made_again(fleet: Any) -> None:
    reader = fleet.reader()
    fleet.stop(reader)
    fleet.sql(f"SELECT pg_drop_replication_slot('{fleet.slot}')")
    assert fleet.exit_code(fleet.start()) == ExitCode.LOST
    assert fleet.status().failure.code == "SLOT_MISSING"
    assert not fleet.sql(f"SELECT FROM pg_replication_slots WHERE slot_name = '{fleet.slot}'")


def test_a_slot_made_again_by_hand_is_lost_too(fleet: Any) -> None:
    reader = fleet.reader()
    fleet.sql("INSERT INTO orders (note) VALUES ('a')")
    wait(lambda: inserted(fleet) == ["a"], 10, "the row is in the raw topic")
    fleet.stop(reader)
    fleet.sql(f"SELECT pg_drop_replication_slot('{fleet.slot}')")
    fleet.sql("INSERT INTO orders (note) VALUES ('between')")
    fleet.sql(f"SELECT pg_create_logical_replication_slot('{fleet.slot}', 'pgoutput')")
    assert fleet.exit_code(fleet.start()) == ExitCode.LOST
    assert fleet.status().failure.code == "GAP_LOST"


def test_a_slot_of_another_database_is_refused(fleet: Any, postgres: Any) -> None:
    with psycopg.connect(postgres.dsn(), autocommit=True) as elsewhere:
        elsewhere.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", [fleet.slot])
        try:
            assert fleet.exit_code(fleet.start()) == ExitCode.CONFIGURATION
        finally:
            elsewhere.execute("SELECT pg_drop_replication_slot(%s)", [fleet.slot])
    assert "SLOT_FOREIGN" in fleet.log()


def test_a_two_phase_slot_is_refused(fleet: Any) -> None:
    fleet.sql(f"SELECT pg_create_logical_replication_slot('{fleet.slot}', 'pgoutput', false, true)")
    assert fleet.exit_code(fleet.start()) == ExitCode.CONFIGURATION
    assert "SLOT_TWO_PHASE" in fleet.log()


def test_a_raw_topic_made_again_is_fed_again_in_the_same_generation(fleet: Any) -> None:
    reader = fleet.reader()
    fleet.sql("INSERT INTO orders (note) VALUES ('a')")
    wait(lambda: inserted(fleet) == ["a"], 10, "the row is in the raw topic")
    before = fleet.status().generation
    fleet.stop(reader)
    administer(fleet.bootstrap, "delete_topics", [fleet.topic])
    fleet.reader()
    wait(lambda: inserted(fleet) == ["a"], 10, "the row is there again")
    assert fleet.status().generation == before


def test_somebody_else_writing_ends_the_epoch_and_loses_nothing(fleet: Any) -> None:
    reader = fleet.reader()
    fleet.sql("INSERT INTO orders (note) VALUES ('a')")
    wait(lambda: inserted(fleet) == ["a"], 10, "the row is in the raw topic")
    asyncio.run(_write_again(fleet))
    fleet.sql("INSERT INTO orders (note) VALUES ('b')")
    assert fleet.exit_code(reader) == ExitCode.RETRY
    assert fleet.status().failure.code == "EPOCH_OVER"
    fleet.reader()
    wait(lambda: len(inserted(fleet)) >= 2, 10, "the second row is in the raw topic")
    assert inserted(fleet) == ["a", "b"]


def test_a_fast_shutdown_of_the_server_is_let_through(fleet: Any, postgres: Any) -> None:
    reader = fleet.reader()
    fleet.sql("INSERT INTO orders (note) VALUES ('a')")
    wait(lambda: inserted(fleet) == ["a"], 10, "the row is in the raw topic, un-acked")
    postgres.stop()
    try:
        assert fleet.exit_code(reader, within_seconds=10) == ExitCode.RETRY
        assert fleet.status().failure.code in ("SOURCE_SHUTTING_DOWN", "SOURCE_LINK_BROKEN", "SOURCE_FAILED")
    finally:
        postgres.start()
    fleet.reader()
    fleet.sql("INSERT INTO orders (note) VALUES ('b')")
    wait(lambda: len(inserted(fleet)) >= 2, 10, "the second row is in the raw topic")
    assert inserted(fleet) == ["a", "b"]


def test_no_password_and_no_row_value_is_ever_logged(fleet: Any) -> None:
    reader = fleet.reader("log.level=debug")
    fleet.sql("INSERT INTO orders (note) VALUES ('canary-value')")
    wait(lambda: inserted(fleet) == ["canary-value"], 10, "the row is in the raw topic")
    fleet.sql(f"SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = '{fleet.slot}'")
    assert fleet.exit_code(reader) == ExitCode.RETRY
    secrets = [fleet.environment()[name] for name in ("SOURCE_PASSWORD", "REDIS_PASSWORD")]
    for canary in ("canary-value", *filter(None, secrets)):
        assert canary not in fleet.log()


@pytest.mark.parametrize("statement", ["DROP PUBLICATION"])
def test_a_dropped_publication_is_noticed(fleet: Any, statement: str) -> None:
    reader = fleet.reader()
    fleet.sql(f"{statement} tidegate_{fleet.name}")
    with psycopg.connect(fleet.dsn, autocommit=True) as connection:
        connection.execute("INSERT INTO orders (note) VALUES ('a')")
    assert fleet.exit_code(reader) == ExitCode.LOST
    assert fleet.status().failure.code == "PUBLICATION_MISSING"


async def _write_again(fleet: Any) -> None:
    """Another writer repeats the last frame: the worst it could do, for its bytes are right."""
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

    consumer = AIOKafkaConsumer(bootstrap_servers=fleet.bootstrap, enable_auto_commit=False)
    producer = AIOKafkaProducer(bootstrap_servers=fleet.bootstrap)
    partition = TopicPartition(fleet.topic, 0)
    await consumer.start()
    await producer.start()
    try:
        consumer.assign([partition])
        end = (await consumer.end_offsets([partition]))[partition]
        consumer.seek(partition, end - 1)
        await producer.send_and_wait(fleet.topic, (await consumer.getone()).value, partition=0)
    finally:
        await producer.stop()
        await consumer.stop()
