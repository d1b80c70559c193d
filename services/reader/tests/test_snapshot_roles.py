"""What a snapshot needs of its role: to read, and all rows. It writes into no table, not even one of its own."""

import json
import re
import secrets
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from kit.snapshots import replica_of
from kit.wait import wait

from tidegate.contracts.frame import FrameKind
from tidegate.contracts.names import snapshot_requests_key
from tidegate.contracts.snapshot import decode_snapshot
from tidegate.contracts.snapshot_request import SnapshotAsked, SnapshotRequest


@pytest.fixture
def reading(fleet: Any) -> Any:
    """With a role that may read two tables, one of them without a key, and a publication that is not its own."""
    role, password = f"reading_{secrets.token_hex(4)}", secrets.token_hex(8)
    fleet.sql("CREATE TABLE log (note text)")
    fleet.sql("REVOKE CREATE ON SCHEMA public FROM PUBLIC")
    fleet.sql(f"CREATE ROLE {role} LOGIN REPLICATION PASSWORD '{password}'")
    fleet.sql(f"GRANT SELECT ON orders, log TO {role}")
    fleet.sql("CREATE PUBLICATION theirs FOR TABLE orders, log WITH (publish = 'insert')")
    fleet.variables["READING_PASSWORD"] = password
    fleet.settings["source"] |= {
        "user": role,
        "password": "${env:READING_PASSWORD}",
        "publication": {"manage": False, "names": ["theirs"], "without_identity": "allow"},
    }
    yield fleet
    for process in fleet.processes:
        process.kill()
        process.wait()
    fleet.sql(f"DROP OWNED BY {role} CASCADE")
    fleet.sql(f"DROP ROLE {role}")


def test_a_role_that_may_only_read_takes_one_beside_the_stream_of_a_table_without_a_key_too(reading: Any) -> None:
    reading.sql("INSERT INTO orders (note) SELECT 'row ' || n FROM generate_series(1, 2000) n")
    reading.sql("INSERT INTO log SELECT 'line ' || n FROM generate_series(1, 300) n")
    reading.stop(reading.reader())
    reading.reader("snapshot.mode=initial")
    wait(lambda: "snapshot_done" in reading.log(), 30, "all is read")
    heads = [decode_snapshot(each.body).head for each in reading.frames() if each.header.kind is FrameKind.SNAPSHOT]
    rows = Counter[int]()
    for head in heads:
        rows[head.relation_id] += head.rows
    assert (sorted(rows.values()), all(head.has_window for head in heads)) == ([300, 2000], True)
    assert len(replica_of(reading.valid_records()).named("orders")) == 2000


def test_a_table_of_which_a_policy_hides_rows_is_refused_before_anything_is_made(reading: Any) -> None:
    hide_rows(reading)
    assert reading.exit_code(reading.start("snapshot.mode=initial")) == 2
    assert re.search("PREFLIGHT.*public.*log.*BYPASSRLS", reading.log())
    assert reading.sql("SELECT FROM pg_replication_slots WHERE slot_name = %s", reading.slot) == []


def test_a_policy_that_is_met_while_reading_ends_it_and_no_row_is_left_out_in_silence(reading: Any) -> None:
    """Where the slot is there the snapshot may have been taken: the preflight tells, and the server refuses."""
    hide_rows(reading)
    reading.stop(reading.reader())
    assert reading.exit_code(reading.start("snapshot.mode=initial")) == 2
    assert re.search("reader_failed.*SNAPSHOT_POLICY.*public.*log.*BYPASSRLS", reading.log())
    assert not any(each.header.kind is FrameKind.SNAPSHOT for each in reading.frames())


def test_a_role_that_no_policy_is_for_reads_all(reading: Any) -> None:
    hide_rows(reading)
    reading.sql(f"ALTER ROLE {reading.settings['source']['user']} BYPASSRLS")
    reading.reader("snapshot.mode=initial")
    wait(lambda: "snapshot_done" in reading.log(), 30, "all is read")
    heads = [decode_snapshot(each.body).head for each in reading.frames() if each.header.kind is FrameKind.SNAPSHOT]
    assert sum(head.rows for head in heads) == 2


@pytest.mark.parametrize("mode", ["initial", "initial_only", "always"])
def test_all_tables_that_may_not_be_read_are_named_before_anything_is_made(reading: Any, mode: str) -> None:
    """Of a partitioned table its partitions are read. What is published through its root may be granted there alone."""
    role = reading.settings["source"]["user"]
    reading.sql("CREATE TABLE sales (id int PRIMARY KEY) PARTITION BY RANGE (id)")
    reading.sql("CREATE TABLE sales_low PARTITION OF sales FOR VALUES FROM (0) TO (10)")
    reading.sql("CREATE SCHEMA closed CREATE TABLE inner_one (id int PRIMARY KEY)")
    reading.sql(f"GRANT SELECT ON sales, closed.inner_one TO {role}")
    reading.sql("ALTER PUBLICATION theirs ADD TABLE sales, closed.inner_one")
    reading.sql("ALTER PUBLICATION theirs SET (publish_via_partition_root = true)")
    reading.sql(f"REVOKE SELECT ON log FROM {role}; GRANT SELECT (note) ON log TO {role}")
    assert reading.exit_code(reading.start(f"snapshot.mode={mode}")) == 2
    [problem] = json.loads(reading.log().splitlines()[-1])["problems"]
    assert [name for name in ("inner_one", "log", "orders", "sales_low") if f'"{name}"' in problem] == [
        "inner_one", "log", "sales_low",
    ]  # fmt: skip
    assert "SNAPSHOT_RIGHTS" in problem
    assert reading.sql("SELECT FROM pg_replication_slots WHERE slot_name = %s", reading.slot) == []


def test_a_right_to_all_columns_of_a_table_does_not_let_it_be_read(reading: Any) -> None:
    """The preflight tells where the slot is there: the snapshot may have been taken. Here it was not."""
    role = reading.settings["source"]["user"]
    reading.sql("INSERT INTO log VALUES ('a')")
    reading.sql(f"REVOKE SELECT ON log FROM {role}; GRANT SELECT (note) ON log TO {role}")
    reading.stop(reading.reader())
    assert reading.exit_code(reading.start("snapshot.mode=initial")) == 2
    assert re.search('"warning".*SNAPSHOT_RIGHTS', reading.log())
    assert re.search("reader_failed.*SNAPSHOT_DENIED.*public.*log", reading.log())


def test_a_pipeline_that_only_streams_is_asked_for_no_right_to_read(reading: Any) -> None:
    reading.sql(f"REVOKE SELECT ON orders, log FROM {reading.settings['source']['user']}")
    reading.reader()
    assert "SNAPSHOT_RIGHTS" not in reading.log()


def test_a_request_that_the_source_can_not_answer_now_is_answered_later_and_the_stream_goes_on(reading: Any) -> None:
    """The role had no session left, and the reader ended."""
    reading.sql("INSERT INTO orders (note) VALUES ('a'), ('b')")
    reading.settings["sinks"].append({"name": "late", "type": "kafka_topics", "from": "snapshot"})
    process = reading.reader()
    with sessions(reading, 1):
        reading.ack(reading.valid_records()[-1], sink="late")
        request = SnapshotRequest(secrets.token_hex(16), SnapshotAsked.START, "somebody", time.time_ns() // 1000)
        with reading.redis() as client:
            client.rpush(snapshot_requests_key(reading.name), request.encode())
        wait(lambda: reading.log().count("snapshot_asking_failed") > 2, 20, "both were asked for in vain")
        reading.sql("INSERT INTO orders (note) VALUES ('c')")
        wait(lambda: len(replica_of(reading.valid_records()).changes) == 1, 20, "the stream goes on")
    wait(lambda: reading.log().count("snapshot_done") == 2, 30, "both are read")
    assert process.poll() is None
    assert len(replica_of(reading.valid_records()).named("orders")) == 3


def test_a_snapshot_that_finds_no_session_left_waits_for_one(reading: Any) -> None:
    """It failed at once, where it was planned."""
    reading.sql("INSERT INTO orders (note) VALUES ('a')")
    reading.stop(reading.reader())
    with sessions(reading, 1):
        reading.reader("snapshot.mode=initial")
        wait(lambda: reading.log().count("snapshot_reading_broken") > 1, 20, "it has tried")
    wait(lambda: "snapshot_done" in reading.log(), 30, "all is read")
    assert "snapshot_failed" not in reading.log()


def test_a_role_with_too_few_sessions_is_told_before(reading: Any) -> None:
    with sessions(reading, 7):
        reading.stop(reading.reader("snapshot.connections=3"))
        assert "ROLE_CONNECTIONS" not in reading.log()
        reading.reader("snapshot.connections=4")
        assert re.search("ROLE_CONNECTIONS.*CONNECTION LIMIT 16", reading.log())


@contextmanager
def sessions(reading: Any, limit: int) -> Iterator[None]:
    role = reading.settings["source"]["user"]
    reading.sql(f"ALTER ROLE {role} CONNECTION LIMIT {limit}")
    yield
    reading.sql(f"ALTER ROLE {role} CONNECTION LIMIT -1")


def hide_rows(reading: Any) -> None:
    reading.sql("INSERT INTO log VALUES ('seen'), ('hidden')")
    reading.sql("ALTER TABLE log ENABLE ROW LEVEL SECURITY")
    reading.sql("CREATE POLICY partly ON log USING (note = 'seen')")
