"""What the reader does while Redis, Kafka or the network of its neighbours is away: late, never lost, never early."""

import json
import os
import signal
from typing import Any

import pytest
from kit.raw_topic import inserted
from kit.wait import wait

from tidegate.contracts.names import audit_key
from tidegate.contracts.status import State
from tidegate.errors import ExitCode


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


def test_statuses_go_out_while_the_raw_topic_takes_nothing(fleet: Any, kafka: Any, in_docker: bool) -> None:
    """More than the pipe holds, and a broker that stands still: the source is not read, and does not notice."""
    if in_docker:
        pytest.skip("a container's processes cannot be stopped from here")
    reader = fleet.reader("raw_topic.max_in_flight=1MiB")
    fleet.sql("INSERT INTO orders (note) VALUES ('first')")
    wait(lambda: inserted(fleet) == ["first"], 10, "the table's shape is known")
    broker = kafka.pid
    os.kill(broker, signal.SIGSTOP)
    try:
        fleet.sql("INSERT INTO orders (note) SELECT repeat('x', 1000) FROM generate_series(1, 20000)")
        wait(lambda: fleet.status().in_flight_bytes >= 2**18, 10, "the pipe is full")
        for _ in range(3):
            heard = fleet.last_heard()
            wait(lambda heard=heard: fleet.last_heard() > heard, 3, "statuses go on")
        assert reader.poll() is None
    finally:
        os.kill(broker, signal.SIGCONT)
    wait(lambda: len(inserted(fleet)) == 20_001, 30, "all rows are in the raw topic")


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
