"""Sinks that keep their place elsewhere than in Kafka: while a dead letter can't be written, nothing is committed."""

from dataclasses import replace
from pathlib import Path

import pytest
from kit.frames import RawLog, row
from kit.sink_rigs import NOWHERE, RIGS, SINK, Rig, cursor_behind, wal_frames

from tidegate.clock import unix_microseconds
from tidegate.contracts.dead_letter import FrameAddress
from tidegate.errors import TransientError
from tidegate.position import BEGINNING
from tidegate_processor import kafka_clients
from tidegate_processor.dead_letters import dead_letters
from tidegate_processor.sinks.base import Sink


@pytest.fixture(params=["file", "pg_table"])
def rig(request: pytest.FixtureRequest, tmp_path: Path, prefix: str, kafka) -> Rig:
    more = {"postgres": request.getfixturevalue("postgres")} if request.param == "pg_table" else {}
    return RIGS[request.param](prefix, kafka.bootstrap, "redis://127.0.0.1:1", tmp_path, **more)


def deliver(sink: Sink, log: RawLog) -> None:
    (frame,) = wal_frames(log)
    try:
        sink.open()
        receipt = sink.write(frame, BEGINNING)
        address = FrameAddress("topic", 1, 1, 1)
        sink.write_dead_letters(
            dead_letters(receipt.rejected, pipeline="shop", lane=SINK, generation="g", frame=address)
        )
        sink.commit(cursor_behind(frame))
    finally:
        sink.close()


def test_the_rows_beside_a_letter_wait_until_it_can_be_written(rig: Rig, monkeypatch) -> None:
    log = RawLog()
    log.epoch()
    log.transaction(row(1, "one"), replace(row(2), new=(b"2", b"\xff\xfe")), row(3, "three"))
    with monkeypatch.context() as impatient:
        impatient.setattr(kafka_clients, "_CALL_SECONDS", 0.5)
        impatient.setattr(kafka_clients, "_COORDINATOR_SECONDS", 0.5)
        began = unix_microseconds()
        with pytest.raises(TransientError) as refused:
            deliver(rig.make(rig.configured(kafka=NOWHERE)), log)
    assert refused.value.code
    assert rig.rows() == {}
    assert rig.cursor() is None

    deliver(rig.make(), log)

    assert rig.rows() == {1: "one", 3: "three"}
    assert [letter.position.ordinal for letter in rig.letters()] == [1]
    assert rig.letters()[0].time >= began
