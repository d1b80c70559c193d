"""Whoever reads standard output takes longer than brokers leave a transaction open, or longer than its holder is the
newest one."""

import json
import os
import select
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from kit.deliveries import deliver, feed
from kit.frames import RawLog, row
from kit.sink_rigs import SINK, StdoutRig
from kit.wait import wait

from tidegate.errors import TransientError
from tidegate_processor.sinks.shared import lane_producer, transactional
from tidegate_processor.sinks.stdout.config import STDOUT_VARIABLE
from tidegate_processor.sinks.stdout.writer import StdoutSink
from tidegate_processor.speaking import Speak, nobody_listens

ROWS = 1500
LONGEST_SILENCE_SECONDS = 5.0
# Brokers look for transactions that are too old every ten seconds.
SLOW_SECONDS = 13.0


class Pipe:
    def __init__(self, folder: Path) -> None:
        self.path = folder / "pipe"
        os.mkfifo(self.path)
        self._end = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK)  # else who writes finds nobody there
        os.set_blocking(self._end, True)
        self.taken = b""

    def read(self, slow_seconds: float) -> None:
        """A piece now and then at first, then all of it, to its end."""
        slow_until = time.monotonic() + slow_seconds
        while piece := os.read(self._end, 64 * 1024):
            self.taken += piece
            if time.monotonic() < slow_until:
                threading.Event().wait(0.8)  # the pace is what is tried

    def close(self) -> None:
        os.close(self._end)


@pytest.fixture
def rig(prefix: str, kafka, tmp_path: Path) -> StdoutRig:
    return StdoutRig(prefix, kafka.bootstrap, "redis://127.0.0.1:1", tmp_path)


@pytest.fixture
def pipe(tmp_path: Path, monkeypatch) -> Iterator[Pipe]:
    pipe = Pipe(tmp_path)
    monkeypatch.setenv(STDOUT_VARIABLE, str(pipe.path))
    yield pipe
    pipe.close()


@pytest.fixture
def log() -> RawLog:
    """Far more than a pipe holds, and a row that is no text."""
    log = RawLog()
    log.epoch()
    log.transaction(*(row(at, "x" * 1000) for at in range(ROWS)), replace(row(ROWS), new=(b"7", b"\xff")))
    return log


def sink_of(rig: StdoutRig, speak: Speak = nobody_listens) -> StdoutSink:
    return StdoutSink(rig.config, rig.config.sink(SINK), speak)


def test_a_slow_reader_gets_each_line_once(rig: StdoutRig, pipe: Pipe, log: RawLog, monkeypatch) -> None:
    """Brokers had aborted the transaction before all was read, and the same lines came again: for ever."""
    monkeypatch.setattr(transactional, "_TRANSACTION_TIMEOUT_MS", 2_000)
    monkeypatch.setattr(lane_producer, "LINGER_MS", 100)
    spoken: list[float] = []
    lane = deliver(sink_of(rig, lambda: spoken.append(time.monotonic())))
    reading = threading.Thread(target=pipe.read, args=(SLOW_SECONDS,))
    reading.start()
    spoken.append(time.monotonic())
    feed(lane, log)
    spoken.append(time.monotonic())
    lane.close()
    reading.join(20)

    ids = [json.loads(line)["payload"]["row"]["id"] for line in pipe.taken.splitlines()]
    assert ids == list(range(ROWS))
    assert [letter.code for letter in rig.letters()] == ["VALUE_NOT_UTF8"]
    assert rig.cursor() is not None
    assert spoken[-1] - spoken[0] > SLOW_SECONDS - 1
    assert max(later - sooner for sooner, later in pairwise(spoken)) < LONGEST_SILENCE_SECONDS


def test_whoever_was_overtaken_while_it_prints_prints_nothing_more(rig: StdoutRig, pipe: Pipe, log: RawLog) -> None:
    failures: list[TransientError] = []
    old, new = deliver(sink_of(rig)), sink_of(rig)

    def print_all() -> None:
        try:
            feed(old, log)
        except TransientError as error:
            failures.append(error)

    printing = threading.Thread(target=print_all)
    printing.start()
    wait(lambda: _is_full(pipe), 10, "the pipe is full")
    assert new.open() is None
    printing.join(8)
    new.close()
    old.close()
    pipe.read(0)

    assert [failure.code for failure in failures] == ["SINK_KAFKA_UNAVAILABLE"]
    assert pipe.taken.count(b"\n") < ROWS


def _is_full(pipe: Pipe) -> bool:
    end = os.open(pipe.path, os.O_WRONLY | os.O_NONBLOCK)
    try:
        return not select.select((), (end,), (), 0)[1]
    finally:
        os.close(end)
