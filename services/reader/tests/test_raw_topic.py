"""What the reader does when the raw topic loses something under it: retention, an operator, all of it at once."""

import asyncio
import time
from typing import Any

from aiokafka import AIOKafkaProducer
from kit.raw_topic import administer, inserted, known_beginning, trim
from kit.wait import wait

from tidegate.checkpoint.redis_store import read_lineage
from tidegate.contracts.epoch import EpochMode, decode_epoch
from tidegate.contracts.frame import FrameKind
from tidegate.contracts.lineage import Lineage
from tidegate.contracts.names import schemas_topic
from tidegate.errors import ExitCode


def test_a_trimmed_raw_topic_is_fed_again(fleet: Any) -> None:
    reader = fleet.reader()
    _two_rows(fleet)
    fleet.stop(reader)
    trim(fleet)
    fleet.reader()
    wait(lambda: inserted(fleet) == ["a", "b"], 10, "both rows are there again")
    assert _modes(fleet) == [EpochMode.REFEED]


def test_retention_that_overtakes_a_required_sink_is_noticed_by_a_running_reader(fleet: Any, unused_port: int) -> None:
    """And a sink that stays away does not make the reader start over and over."""
    reader = fleet.reader()
    _two_rows(fleet)
    trim(fleet)
    assert fleet.exit_code(reader) == ExitCode.RETRY
    assert fleet.status().failure.code == "RAW_TOPIC_OVERTAKES"
    again = fleet.reader(f"reader.http=127.0.0.1:{unused_port}")
    wait(lambda: inserted(fleet) == ["a", "b"], 10, "both rows are there again")
    begins = trim(fleet, upto=next(r.offset for r in fleet.records() if r.frame.header.kind is FrameKind.EPOCH))
    fleet.sql("INSERT INTO orders (note) VALUES ('c')")
    wait(lambda: inserted(fleet) == ["a", "b", "c"], 10, "the third row is in the raw topic")
    wait(lambda: known_beginning(unused_port) == begins, 15, "it has looked again")
    assert again.poll() is None


def test_retention_that_takes_what_everybody_has_changes_nothing(fleet: Any, unused_port: int) -> None:
    reader = fleet.reader(f"reader.http=127.0.0.1:{unused_port}")
    _two_rows(fleet)
    last = fleet.records()[-1]
    fleet.ack(last, topic_id=_lineage(fleet).topic_id)
    wait(lambda: fleet.confirmed() == last.frame.header.safe_lsn, 10, "the slot follows the ack")
    begins = trim(fleet, upto=last.offset)
    wait(lambda: known_beginning(unused_port) == begins, 15, "the reader has looked again")
    assert reader.poll() is None


def test_a_raw_topic_made_again_after_confirmations_goes_on_in_its_generation(fleet: Any) -> None:
    reader = fleet.reader()
    _two_rows(fleet)
    before = fleet.status()
    last = fleet.records()[-1]
    fleet.ack(last)
    wait(lambda: fleet.confirmed() == last.frame.header.safe_lsn, 10, "the slot has moved since its birth")
    fleet.stop(reader)
    administer(fleet.bootstrap, "delete_topics", [fleet.topic])
    fleet.reader()
    fleet.sql("INSERT INTO orders (note) VALUES ('c')")
    wait(lambda: inserted(fleet)[-1:] == ["c"], 10, "the next row is in the new topic")
    after = fleet.status()
    assert (after.generation, after.epoch) == (before.generation, before.epoch + 1)


def test_a_slot_that_went_together_with_the_raw_topic_is_not_made_again(fleet: Any) -> None:
    fleet.stop(fleet.reader())
    administer(fleet.bootstrap, "delete_topics", [fleet.topic])
    fleet.sql(f"SELECT pg_drop_replication_slot('{fleet.slot}')")
    assert fleet.exit_code(fleet.start()) == ExitCode.LOST
    failure = fleet.status().failure
    assert failure.code == "SLOT_MISSING"
    assert "tidegate pipelines forget" in failure.remedy


def test_a_reader_whose_clock_is_hours_ahead_is_not_refused(fleet: Any) -> None:
    """By their writer's time, brokers take no record of more than an hour ahead: the reader failed for ever."""
    fleet.stop(fleet.reader())
    ahead = int((time.time() + 7_200) * 1000)
    for topic in (fleet.topic, schemas_topic(fleet.name)):
        asyncio.run(_send(fleet.bootstrap, topic, ahead))


def _two_rows(fleet: Any) -> None:
    fleet.sql("INSERT INTO orders (note) VALUES ('a')")
    fleet.sql("INSERT INTO orders (note) VALUES ('b')")
    wait(lambda: inserted(fleet) == ["a", "b"], 10, "both rows are in the raw topic")


def _lineage(fleet: Any) -> Lineage:
    with fleet.redis() as client:
        found = read_lineage(client, fleet.name)
    assert found is not None
    return found


def _modes(fleet: Any) -> list[EpochMode]:
    return [decode_epoch(each.body).mode for each in fleet.frames() if each.header.kind is FrameKind.EPOCH]


async def _send(bootstrap: str, topic: str, timestamp_ms: int) -> None:
    async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
        await producer.send_and_wait(topic, b"late", key=b"late", timestamp_ms=timestamp_ms)
