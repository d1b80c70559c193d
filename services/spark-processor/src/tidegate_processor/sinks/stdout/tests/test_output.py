"""What stands in the way of standard output, and what is on it."""

import json
import os
from pathlib import Path

import pytest
from kit.frames import RawLog, row
from kit.sink_rigs import StdoutRig, cursor_behind, wal_frames

from tidegate.errors import TransientError
from tidegate.position import BEGINNING
from tidegate_processor.sinks.stdout import writer
from tidegate_processor.sinks.stdout.config import STDOUT_VARIABLE


@pytest.fixture
def rig(prefix: str, kafka, tmp_path: Path) -> StdoutRig:
    return StdoutRig(prefix, kafka.bootstrap, "redis://127.0.0.1:1", tmp_path)


def test_a_line_is_an_event_also_where_a_value_holds_a_newline(rig: StdoutRig) -> None:
    log = RawLog()
    log.epoch()
    log.transaction(row(1, "two\nlines"), row(2, "\u2028 and \x85"))
    (frame,) = wal_frames(log)
    sink = rig.make()
    sink.open()

    receipt = sink.write(frame, BEGINNING)
    sink.commit(cursor_behind(frame))
    sink.close()

    lines = rig.output.read_bytes().split(b"\n")
    assert [json.loads(line)["payload"]["row"]["note"] for line in lines[:-1]] == ["two\nlines", "\u2028 and \x85"]
    assert (lines[-1], receipt.bytes) == (b"", rig.output.stat().st_size)


def test_nobody_who_reads_ends_the_lane_instead_of_holding_it(rig: StdoutRig, monkeypatch) -> None:
    monkeypatch.setattr(writer, "_BLOCKED_SECONDS", 0.2)
    pipe = rig.folder / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    log = RawLog()
    log.epoch()
    log.transaction(*(row(at, "x" * 500) for at in range(1000)))
    (frame,) = wal_frames(log)
    monkeypatch.setenv(STDOUT_VARIABLE, str(pipe))
    sink = rig.make_as_it_is()
    sink.open()
    sink.write(frame, BEGINNING)

    try:
        with pytest.raises(TransientError) as blocked:
            sink.commit(cursor_behind(frame))
    finally:
        os.close(reader)
        sink.close()
    with pytest.raises(TransientError) as gone:
        rig.make_as_it_is().ping()

    assert (blocked.value.code, gone.value.code) == ("SINK_STDOUT_BLOCKED", "SINK_STDOUT_CLOSED")
    assert rig.cursor() is None
