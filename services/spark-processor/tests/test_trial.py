"""A sink is tried with the newest rows, and keeps nothing of them."""

import pytest
from kit.frames import RawLog, row
from kit.memory_sink import MemorySink

from tidegate.contracts.frame import Frame, decode_frame
from tidegate.errors import ConfigError
from tidegate_processor.trial import try_out


class Log:
    def __init__(self, log: RawLog) -> None:
        self.beginning, self.end = 0, len(log.frames)
        self._log = log

    def frame_at(self, offset: int) -> tuple[int, Frame] | None:
        return offset, decode_frame(self._log.frames[offset])


def written(*notes: str) -> Log:
    log = RawLog()
    log.epoch()
    for number, note in enumerate(notes):
        log.transaction(row(number, note))
    log.tick()
    return Log(log)


def test_the_newest_rows_are_written_and_dropped() -> None:
    sink = MemorySink()
    assert try_out(sink, written("a", "b")).events == 1
    assert (sink.delivered, sink.commits, sink.cursor) == ([], 0, None)


def test_rows_that_would_be_dead_letters_are_told_by_their_code() -> None:
    sink = MemorySink(lambda change: b"poison" in change.raw)
    with pytest.raises(ConfigError) as refused:
        try_out(sink, written("fine", "poison"))
    assert (refused.value.code, sink.dead_letters) == ("POISON", [])


def test_without_rows_there_is_nothing_to_try_with() -> None:
    with pytest.raises(ConfigError) as refused:
        try_out(MemorySink(), written())
    assert refused.value.code == "SINK_TRIAL_EMPTY"
