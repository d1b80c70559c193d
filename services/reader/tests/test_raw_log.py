"""How far the raw topic had come, the frame says that reaches furthest: a re-feed that was cut short ends lower."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from kit.frames import COMMIT_TIME, OPTIONS, RawLog, row

from tidegate.contracts.frame import FrameKind
from tidegate.lsn import Lsn
from tidegate_reader import raw_log

LOW = Lsn(0x1000)
TOPIC_ID = "topic-now"


class Consumer:
    def __init__(self, frames: list[bytes], beginning: int = 0) -> None:
        self._frames, self._beginning, self._at = frames, beginning, 0

    async def beginning_offsets(self, partitions: list[Any]) -> dict[Any, int]:
        return {partitions[0]: self._beginning}

    async def end_offsets(self, partitions: list[Any]) -> dict[Any, int]:
        return {partitions[0]: len(self._frames)}

    def seek(self, partition: Any, offset: int) -> None:
        self._at = offset

    async def getmany(self, partition: Any, *, timeout_ms: int, max_records: int) -> dict[Any, list[Any]]:
        found = list(enumerate(self._frames))[self._at : self._at + max_records]
        self._at += len(found)
        return {partition: [SimpleNamespace(offset=offset, value=value) for offset, value in found]}


def cut_short(sent_again: int) -> tuple[RawLog, Lsn, Lsn]:
    """Where the last transaction commits, and what was covered before the re-feed."""
    log = RawLog(topic_id=TOPIC_ID)
    log.epoch()
    for number in range(3):
        log.transaction(row(number))
    last, covered = log.position.commit_lsn, log.safe_lsn
    log.safe_lsn = LOW
    log.epoch(refeed_from=LOW)
    for number in range(sent_again):
        log.transaction(row(number))
    return log, last, covered


def found(log: RawLog, beginning: int = 0) -> raw_log.RawLog:
    return asyncio.run(raw_log._read(Consumer(log.frames, beginning), "raw", TOPIC_ID))


def test_a_re_feed_that_was_cut_short_does_not_hide_what_the_raw_topic_had() -> None:
    log, last, covered = cut_short(sent_again=1)

    known = found(log)

    assert known.tail is not None
    assert known.told is not None
    told = known.told
    assert (last, covered, (700, COMMIT_TIME), 1) == (told.commit_lsn, told.safe_lsn, told.transaction, told.epoch)
    assert known.tail.number == 2


def test_a_re_feed_that_has_come_as_far_is_what_counts() -> None:
    log, last, _ = cut_short(sent_again=3)

    told = found(log).told

    assert told is not None
    assert (last, 2) == (told.commit_lsn, told.epoch)


def test_where_the_window_begins_behind_it_the_epoch_frame_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its xid is not known, nor by which epoch it was asked for; but that it was there, and since when the options are
    the same."""
    log, last, _ = cut_short(sent_again=2)
    monkeypatch.setattr(raw_log, "WINDOW", 2)

    told = found(log).told

    assert told is not None
    assert (last, last + 1, last + 1) == (told.commit_lsn, told.safe_lsn, told.reached)
    assert (told.transaction, told.options, told.epoch) == (None, OPTIONS, None)
    assert told.has_last


def test_an_epoch_frame_that_was_written_for_the_topic_before_is_void() -> None:
    """Lanes pass it over: a reader that took it for the tail went on where no lane could come in."""
    late = RawLog(topic_id="topic-before")
    late.epoch()

    known = found(late)

    assert (known.first, known.tail) == (None, None)
    assert known.newest is known.foreign is not None
    assert (known.foreign.epoch, known.beginning) == (1, 0)


@pytest.mark.parametrize("window", [256, 2])
def test_what_stands_behind_such_a_frame_is_the_beginning(window: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(raw_log, "WINDOW", window)
    late, log = RawLog(topic_id="topic-before"), RawLog(topic_id=TOPIC_ID)
    late.epoch()
    log.frames += late.frames
    log.epoch(2)
    for number in range(3):
        log.transaction(row(number))

    known = found(log)

    assert known.first is not None
    assert known.tail is not None
    assert (known.first.kind, known.first.epoch) == (FrameKind.EPOCH, 2)
    assert (log.position, 3) == (known.tail.position, known.tail.last_seq)


def test_an_epoch_frame_in_a_log_that_was_lost_under_it_is_void() -> None:
    """It says what came before it, and something else is there: rewound lanes went on behind what it skipped."""
    log = RawLog(topic_id=TOPIC_ID)
    log.epoch()
    log.transaction(row(1))
    log.epoch()
    log.frames = log.frames[-1:]

    known = found(log)

    assert known.tail is None
    assert known.foreign is not None
    assert known.foreign.epoch == 2
