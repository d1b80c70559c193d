"""Readings side by side, as many as there may be connections: each frame is looked at once for each of them."""

from typing import Any

import pytest
from kit.frames import RawLog, row

from tidegate.columns.windows import Window
from tidegate.config.snapshot import MOST_CONNECTIONS
from tidegate.contracts.frame import FrameKind
from tidegate_processor.ingest import Ingest
from tidegate_processor.snapshots import Snapshots, no_log

ROUNDS = 5


@pytest.fixture
def noted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many frames windows were told of."""
    counts, note = [0], Window.note

    def counting(self: Window, frame: Any) -> None:
        counts[0] += 1
        note(self, frame)

    monkeypatch.setattr(Window, "note", counting)
    return counts


class Lane:
    def __init__(self) -> None:
        self.log, self.snapshots = RawLog(), Snapshots("topic", no_log, lambda: None)
        self._ingest, self._fed = Ingest(None, "topic", lambda: "topic"), 0
        self.log.epoch()

    def begin(self, readings: int) -> list[dict[str, Any]]:
        begun = []
        for reading in range(1, readings + 1):
            self.log.transaction(row(reading))
            begun.append({"reading": reading, "low": self.log.position, "low_offset": len(self.log.frames)})
        return begun

    def read(self, reading: dict[str, Any], first_row: int) -> None:
        self.log.transaction(row(1000 + first_row))
        self.log.snapshot((b"1000000", b"x"), first_row=first_row, **reading)

    def work(self) -> None:
        for offset, value in list(enumerate(self.log.frames))[self._fed :]:
            for taken in self._ingest.feed(offset, value):
                self.snapshots.remember(taken)
                if taken.frame.header.kind is FrameKind.SNAPSHOT:
                    self.snapshots.rows(taken)
        self._fed = len(self.log.frames)


def test_all_connections_read_side_by_side_and_no_frame_is_looked_at_again(noted: list[int]) -> None:
    lane = Lane()
    for cut_off in lane.begin(4):
        lane.read(cut_off, 0)
    readings = lane.begin(MOST_CONNECTIONS)
    for first_row in range(ROUNDS):
        for reading in readings:
            lane.read(reading, first_row)
    lane.work()

    assert noted[0] <= (MOST_CONNECTIONS + 4) * (MOST_CONNECTIONS * ROUNDS + MOST_CONNECTIONS + 8)


def test_readings_that_were_cut_off_by_the_end_of_their_reader_take_no_place(noted: list[int]) -> None:
    lane = Lane()
    for reading in lane.begin(3):
        lane.read(reading, 0)
    lane.work()
    assert len(lane.snapshots._windows) == 3

    lane.log.epoch()
    lane.work()

    assert len(lane.snapshots._windows) == 0
