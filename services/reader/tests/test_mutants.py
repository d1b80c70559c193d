"""The trials that a wrong reader must not survive, on the real reader and on readers with one planted mistake each.

The real reader passes every trial. Some of the mutants are tried every time, and all of them with
`TIDEGATE_TESTS_TRIALS` above 1; each must be noticed in its first trial. The table is printed.
"""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from confluent_kafka import Producer
from kit import reader_mutants
from kit.raw_topic import administer, inserted
from kit.reader_mutants import MUTANTS
from kit.reader_trials import add, caught_up, produced
from kit.wait import DeadlinePassedError, wait

from tidegate.contracts.ack import Ack
from tidegate.contracts.frame import FrameKind, body_messages, encode_frame
from tidegate.contracts.names import ack_key
from tidegate.errors import ExitCode
from tidegate.lsn import Lsn, parse_lsn
from tidegate.pgoutput.decode import decode_message
from tidegate.pgoutput.messages import Commit

ALL = int(os.environ.get("TIDEGATE_TESTS_TRIALS", "1")) > 1
QUICK = ("confirms_on_receive", "skips_by_the_lsn_of_a_change", "swaps_two_rows", "swallows_a_producer_error")


def gate(fleet: Any) -> None:
    """M14: one of two required sinks has acked, the other's place in Redis holds another generation's ack."""
    fleet.settings["sinks"].append({"name": "slow", "type": "kafka_topics"})
    fleet.sql("CREATE TABLE elsewhere (filler text)")
    fleet.reader()
    before = fleet.confirmed()
    fleet.sql("INSERT INTO orders (note) VALUES ('a')")
    wait(lambda: inserted(fleet) == ["a"], 10, "the row is in the raw topic")
    last = fleet.records()[-1]
    header = last.frame.header
    foreign = Ack("slow", "f" * 32, 1, "any", last.offset, header.last, header.safe_lsn, time.time_ns() // 1000)
    with fleet.redis() as client:
        client.hset(ack_key(fleet.name, header.generation.id), "slow", foreign.encode())
    fleet.ack(last)
    fleet.sql("INSERT INTO elsewhere SELECT repeat('x', 1000) FROM generate_series(1, 500)")
    end = fleet.wal_end()
    wait(lambda: fleet.status().received_lsn >= end, 20, "a keepalive has said how far the server is")
    for _ in range(2):
        heard = fleet.last_heard()
        wait(lambda heard=heard: fleet.last_heard() > heard, 10, "the server has had a status since")
    assert fleet.confirmed() == before


def interleaved(fleet: Any) -> None:
    """M03: A opens and writes, B commits; the reader is away; A commits. A's row lies below B's commit in the WAL."""
    reader = fleet.reader()
    with psycopg.connect(fleet.dsn) as early:
        early.execute("INSERT INTO orders (id, note) VALUES (2, 'early')")
        fleet.sql("INSERT INTO orders (id, note) VALUES (1, 'late')")
        wait(lambda: inserted(fleet) == ["late"], 10, "the later one is in the raw topic")
        fleet.ack_everything()
        fleet.stop(reader)
        early.commit()
    fleet.reader()
    produced(fleet)
    assert inserted(fleet) == ["late", "early"]


def order(fleet: Any) -> None:
    """M04: small transactions back to back and a larger one; each frame says how far it confirms."""
    fleet.reader()
    fleet.sql("INSERT INTO orders (note) SELECT n::text FROM generate_series(1, 50) n")
    add(fleet, 5)
    produced(fleet)
    caught_up_now(fleet)
    for frame in fleet.frames():
        if frame.header.kind is FrameKind.WAL and not frame.header.parts:
            ends = [each.end_lsn for each in map(decode_message, bodies(frame)) if isinstance(each, Commit)]
            assert frame.header.safe_lsn >= max(ends, default=0)


def bodies(frame: Any) -> list[bytes]:
    return [body for _, body in body_messages(frame)]


def caught_up_now(fleet: Any) -> None:
    """`produced` has waited: what is not there now is missing."""
    assert len(inserted(fleet)) == fleet.sql("SELECT count(*) FROM orders")[0][0]
    caught_up(fleet)


def too_large(fleet: Any) -> None:
    """M12: the broker refuses one frame for good. Nothing behind it counts, and nothing is confirmed."""
    fleet.settings["sinks"][0]["required"] = False  # so that what is in the raw topic is confirmed
    reader = fleet.reader("raw_topic.ack_timeout=5s")
    fleet.sql("INSERT INTO orders (note) VALUES ('small')")
    produced(fleet)
    largest_message(fleet, 1_000)
    before = written_lsn(fleet)
    fleet.sql("INSERT INTO orders (note) VALUES (repeat('x', 3000))")
    wait(lambda: reader.poll() is not None or fleet.confirmed() > before, 20, "the reader has met it")
    assert fleet.confirmed() <= before
    assert fleet.exit_code(reader) == ExitCode.RETRY
    assert "never retrieved" not in fleet.log()
    largest_message(fleet, 1_048_588)
    fleet.reader()
    produced(fleet)
    caught_up_now(fleet)


def written_lsn(fleet: Any) -> Lsn:
    return parse_lsn(fleet.sql("SELECT pg_current_wal_insert_lsn()::text")[0][0])


def largest_message(fleet: Any, size: int) -> None:
    settings = {"max.message.bytes": str(size)}
    administer(fleet.bootstrap, "alter_configs", [ConfigResource(ConfigResourceType.TOPIC, fleet.topic, settings)])


def second_writer(fleet: Any) -> None:
    """M13: somebody else writes into the raw topic, bytes that are right in themselves."""
    reader = fleet.reader()
    fleet.sql("INSERT INTO orders (note) VALUES ('a')")
    wait(lambda: inserted(fleet) == ["a"], 10, "the row is in the raw topic")
    frame = fleet.records()[-1].frame
    producer = Producer({"bootstrap.servers": fleet.bootstrap})
    producer.produce(fleet.topic, encode_frame(frame.header, frame.schema, (frame.body,)), partition=0)
    assert producer.flush(10) == 0
    before = written_lsn(fleet)
    fleet.sql("INSERT INTO orders (note) VALUES ('b')")
    wait(lambda: reader.poll() is not None or fleet.status().produced_lsn > before, 20, "the reader has met it")
    assert fleet.status().produced_lsn <= before
    assert fleet.exit_code(reader) == ExitCode.RETRY
    assert fleet.status().failure.code == "EPOCH_OVER"


TRIALS: dict[str, Callable[[Any], None]] = {each.__name__: each for each in (gate, interleaved, order, too_large)}
TRIALS["second_writer"] = second_writer


@pytest.mark.parametrize("name", TRIALS)
def test_the_reader_passes(name: str, fleet: Any) -> None:
    TRIALS[name](fleet)


@pytest.mark.parametrize("name", MUTANTS if ALL else QUICK)
def test_a_mutant_is_noticed(name: str, fleet: Any, capsys: pytest.CaptureFixture[str]) -> None:
    trial, _ = MUTANTS[name]
    fleet.program = (str(Path(reader_mutants.__file__)), name)
    with pytest.raises((AssertionError, DeadlinePassedError)) as noticed:
        TRIALS[trial](fleet)
    assert "UNCLASSIFIED" not in fleet.log(), "it died of its own clumsiness"
    with capsys.disabled():
        print(f"\n{name:42} {trial:14} killed in the first trial: {str(noticed.value).partition(chr(10))[0][:60]}")
