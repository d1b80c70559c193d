"""The cursor of a lane that stands for long is committed again, as it is."""

from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from kit.frames import RawLog, row
from kit.memory_sink import MemorySink, delivery_into
from kit.sink_rigs import SINK, KafkaTopicsRig, cursor_behind, wal_frames
from kit.wait import wait

from tidegate.position import BEGINNING
from tidegate_processor import commit, cursor_keeping
from tidegate_processor.cursor_keeping import CursorKeeper, keep
from tidegate_processor.table import LaneState

HOUR, DAY = 3600.0, 86_400.0


@pytest.fixture
def rig(prefix: str, kafka, redis, tmp_path: Path) -> KafkaTopicsRig:
    return KafkaTopicsRig(prefix, kafka.bootstrap, redis.url, tmp_path)


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    named: list[str] = []
    monkeypatch.setattr(cursor_keeping, "keep", lambda _, sink: named.append(sink))
    return named


def commits(bootstrap: str) -> int:
    """Of any group's offsets."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "looks"})
    try:
        return int(consumer.get_watermark_offsets(TopicPartition("__consumer_offsets", 0), timeout=10)[1])
    finally:
        consumer.close()


def test_it_is_committed_again_as_it_is(rig: KafkaTopicsRig) -> None:
    log = RawLog()
    log.epoch()
    log.transaction(row(1))
    frame = wal_frames(log)[0]
    sink = rig.make()
    sink.open()
    sink.write(frame, BEGINNING)
    sink.commit(cursor_behind(frame))
    sink.close()
    before, count = rig.cursor(), commits(rig.kafka)

    keep(rig.config, SINK)

    assert before is not None
    assert rig.cursor() == before
    assert commits(rig.kafka) > count


def test_where_there_is_none_none_is_made(rig: KafkaTopicsRig) -> None:
    keep(rig.config, SINK)
    assert rig.cursor() is None


@pytest.mark.parametrize("state", [LaneState.PAUSED, LaneState.LOST])
def test_of_a_lane_that_stands_for_a_while_and_then_daily(
    state: LaneState, rig: KafkaTopicsRig, kept: list[str]
) -> None:
    now = [0.0]
    keeper = CursorKeeper(lambda: now[0])
    for now[0], count in ((0.0, 0), (60.0, 0), (HOUR, 1), (2 * HOUR, 1), (DAY, 1), (DAY + 2 * HOUR, 2)):
        keeper.look(rig.config, {SINK: state})
        wait(lambda count=count: len(kept) >= count, 10, "it is committed")  # type: ignore[misc]
    keeper.close()
    assert len(kept) == 2


def test_not_of_one_that_runs_nor_for_a_short_pause(rig: KafkaTopicsRig, kept: list[str]) -> None:
    now = [0.0]
    keeper = CursorKeeper(lambda: now[0])
    for now[0], state in ((0.0, LaneState.PAUSED), (500.0, LaneState.RUNNING), (700.0, LaneState.PAUSED)):
        keeper.look(rig.config, {SINK: state})
    keeper.close()
    assert kept == []


def test_a_lane_that_reads_and_is_sent_nothing_commits_daily(monkeypatch: pytest.MonkeyPatch) -> None:
    log, sink = RawLog(), MemorySink()
    log.epoch()
    log.transaction(row(1))
    first = delivery_into(sink)
    first.feed(enumerate(log.frames))
    first.commit()
    idle, count = delivery_into(sink), sink.commits
    idle.commit()
    assert sink.commits == count
    begun = idle._last_commit
    monkeypatch.setattr(commit.time, "monotonic", lambda: begun + DAY + 1)
    idle.commit()
    assert (sink.commits, sink.cursor) == (count + 1, first._committed)
