"""What the reader does while Redis, Kafka or the network of its neighbours is away: late, never lost, never early."""

import json
import os
import signal
import threading
from typing import Any

import pytest
from kit.raw_topic import inserted
from kit.reader_trials import TIMES, setting
from kit.wait import wait

from tidegate.contracts.names import audit_key
from tidegate.contracts.status import State
from tidegate.errors import ExitCode
from tidegate.lsn import parse_lsn

_TIMEOUTS = ("1s", "0", "60s", "5min")
_SENDER = "SELECT active_pid FROM pg_replication_slots WHERE slot_name = %s"


def test_without_redis_everything_goes_on_but_the_gate(fleet: Any, redis: Any) -> None:
    reader = fleet.reader()
    before = fleet.confirmed()
    redis.kill()
    try:
        fleet.sql("INSERT INTO orders (note) VALUES ('a')")
        wait(lambda: inserted(fleet) == ["a"], 10, "the row is in the raw topic")
        wait(lambda: "acks_unreadable" in fleet.log(), 10, "the reader has noticed")
        assert (reader.poll(), fleet.confirmed()) == (None, before)
    finally:
        redis.start()
    last = fleet.records()[-1]
    fleet.ack(last)
    wait(lambda: fleet.confirmed() == last.frame.header.safe_lsn, 10, "acks are read again")


def test_acks_that_are_gone_after_a_restart_of_redis_move_nothing_back(fleet: Any, redis: Any) -> None:
    fleet.reader()
    fleet.sql("INSERT INTO orders (note) VALUES ('a')")
    wait(lambda: inserted(fleet) == ["a"], 10, "the row is in the raw topic")
    last = fleet.records()[-1]
    fleet.ack(last)
    wait(lambda: fleet.confirmed() == last.frame.header.safe_lsn, 10, "the slot follows the ack")
    with fleet.redis() as client:
        client.flushall()
    fleet.sql("INSERT INTO orders (note) VALUES ('b')")
    wait(lambda: inserted(fleet) == ["a", "b"], 10, "the second row is in the raw topic")
    heard = fleet.last_heard()
    wait(lambda: fleet.last_heard() > heard, 10, "the server has had a status since")
    assert fleet.confirmed() == last.frame.header.safe_lsn


def test_a_kafka_that_dies_ends_the_epoch_and_the_next_one_has_every_change_once(fleet: Any, kafka: Any) -> None:
    reader = fleet.reader("raw_topic.ack_timeout=5s")
    fleet.sql("INSERT INTO orders (note) VALUES ('a')")
    wait(lambda: inserted(fleet) == ["a"], 10, "the row is in the raw topic")
    kafka.kill()
    try:
        fleet.sql("INSERT INTO orders (note) VALUES ('b')")
        assert fleet.exit_code(reader, within_seconds=60) == ExitCode.RETRY
        assert fleet.status().state is State.FAILED
    finally:
        kafka.start()
    fleet.reader()
    fleet.sql("INSERT INTO orders (note) VALUES ('c')")
    wait(lambda: len(inserted(fleet)) >= 3, 20, "all rows are in the raw topic")
    assert inserted(fleet) == ["a", "b", "c"]


@pytest.mark.timeout(60 if TIMES == 1 else 600)
@pytest.mark.parametrize("turn", range(TIMES))
def test_statuses_go_out_while_the_raw_topic_takes_nothing(turn: int, fleet: Any, kafka: Any, in_docker: bool) -> None:
    """M25. More than the pipe holds, and a broker that stands still: the source is not read, and does not notice,
    whatever timeout the server has. Then sinks ack ten frames a second, and the gate follows them only."""
    if in_docker:
        pytest.skip("a container's processes cannot be stopped from here")
    many = TIMES > 1
    with setting(fleet, "wal_sender_timeout", _TIMEOUTS[turn % len(_TIMEOUTS)]):
        reader = fleet.reader("raw_topic.max_in_flight=1MiB", "raw_topic.ack_timeout=5m")
        fleet.sql("ALTER TABLE orders ALTER note SET STORAGE EXTERNAL")
        fleet.sql("INSERT INTO orders (note) VALUES ('first')")
        wait(lambda: inserted(fleet) == ["first"], 10, "the table's shape is known")
        sender = fleet.sql(_SENDER, fleet.slot)
        broker = kafka.pid
        os.kill(broker, signal.SIGSTOP)
        try:
            rows, size = (10_000, 100_000) if many else (20_000, 1_000)
            fleet.sql("INSERT INTO orders (note) SELECT repeat('x', %s) FROM generate_series(1, %s)", size, rows)
            wait(lambda: fleet.status().in_flight_bytes >= 2**18, 10, "the pipe is full")
            for _ in range((40 if turn else 150) if many else 3):
                heard = fleet.last_heard()
                wait(lambda heard=heard: fleet.last_heard() > heard, 3, "statuses go on")
            assert reader.poll() is None
        finally:
            os.kill(broker, signal.SIGCONT)
        mark = parse_lsn(fleet.sql("SELECT pg_current_wal_lsn()::text")[0][0])
        wait(lambda: fleet.status().produced_lsn >= mark, 120, "all is in the raw topic")
        records = fleet.valid_records()
        for record in records[-10:]:
            fleet.ack(record)
            assert fleet.confirmed() <= record.frame.header.safe_lsn
            threading.Event().wait(0.1)  # The pace is what is tried.
        wait(lambda: fleet.confirmed() >= records[-1].frame.header.safe_lsn, 10, "the gate follows the acks")
        assert fleet.sql(_SENDER, fleet.slot) == sender, "the link was given up"
        assert len(inserted(fleet)) == rows + 1


def test_a_sink_that_is_not_required_any_more_is_written_down_before_the_gate_forgets_it(fleet: Any) -> None:
    fleet.settings["sinks"].append({"name": "slow", "type": "kafka_topics"})
    reader = fleet.reader()
    fleet.sql("INSERT INTO orders (note) VALUES ('a')")
    wait(lambda: inserted(fleet) == ["a"], 10, "the row is in the raw topic")
    last = fleet.records()[-1]
    fleet.ack(last)
    wait(lambda: fleet.status().gate_holder == "slow", 10, "the gate waits for the other sink")
    fleet.stop(reader)
    fleet.settings["sinks"].pop()
    fleet.reader()
    wait(lambda: fleet.confirmed() >= last.frame.header.safe_lsn, 10, "the slot follows the sink that is left")
    with fleet.redis() as client:
        [(_, entry)] = client.xrange(audit_key(fleet.name))
    told = json.loads(entry[b"entry"])
    assert (told["operation"], told["path"], told["acked"]) == ("sinkRemoved", "/sinks/slow", "nothing")
    assert "sink_no_longer_required" in fleet.log()
