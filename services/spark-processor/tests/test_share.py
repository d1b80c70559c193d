"""What a writer is given of a frame, which transforms it refuses, and what the lane says of all its writers."""

import json
from dataclasses import replace
from typing import Any

import pytest
from kit import reference
from kit.frames import RawLog, row

from tidegate.config.sinks import SinkConfig
from tidegate.contracts.frame import Frame, decode_frame
from tidegate.contracts.mark import MarkKind
from tidegate.contracts.status import Failure, LaneStatus, State
from tidegate.errors import ConfigError
from tidegate.lsn import Lsn
from tidegate.position import BEGINNING, Position
from tidegate_processor.seat import Seat
from tidegate_processor.share import Share
from tidegate_processor.writer_statuses import put_together


def share(seat: Seat, **settings: Any) -> Share:
    values = {"name": "events", "type": "kafka_topics", "trigger": "batch", "writers": seat.writers, **settings}
    return Share(seat, SinkConfig.model_validate_json(json.dumps(values)))


def frame(rows: int = 10) -> Frame:
    return decode_frame(RawLog().transaction(*(row(number) for number in range(rows))))


def ordinals(given: tuple[Frame, Position]) -> list[int]:
    return [change.position.ordinal for change, _ in reference.row_changes(*given)]


def test_side_by_side_each_row_is_one_writers() -> None:
    shares = [ordinals(share(Seat(writer, 3)).of(frame(), BEGINNING)) for writer in range(3)]

    assert list(range(10)) == sorted(ordinal for each in shares for ordinal in each)


def test_alone_a_writer_delivers_what_nobody_has_yet() -> None:
    whole = frame()
    theirs = ordinals(share(Seat(1, 2)).of(whole, BEGINNING))
    seat = Seat(0, 2)
    lsn = whole.header.last.commit_lsn
    seat.be_alone([Position(lsn, 9), Position(lsn, 3)])

    assert [ordinal for ordinal in theirs if ordinal > 3] == ordinals(share(seat).of(whole, Position(lsn, 9)))


@pytest.mark.parametrize(
    ("kind", "expected"), [(MarkKind.SNAPSHOT_STARTED, True), (MarkKind.SENTINEL, False), (MarkKind.HEARTBEAT, False)]
)
def test_a_mark_that_is_an_event_is_for_all(kind: MarkKind, expected: bool) -> None:
    mark = decode_frame(RawLog().snapshot_mark(kind))

    assert expected == share(Seat(0, 2)).is_for_all(mark, BEGINNING)


def test_a_key_that_a_transform_makes_one_of_many_is_refused() -> None:

    def dropping(column: str) -> list[dict[str, Any]]:
        return [{"type": "drop_columns", "options": {"tables": ["public.orders"], "columns": [column]}}]

    with pytest.raises(ConfigError) as refused:
        share(Seat(0, 2), transforms=dropping("id")).of(frame(), BEGINNING)

    assert refused.value.code == "WRITERS_KEY_TRANSFORMED"
    assert list(range(10)) == ordinals(share(Seat(0, 1), transforms=dropping("note")).of(frame(), BEGINNING))


STATUS = LaneStatus(
    pipeline="shop",
    sink="events",
    state=State.RUNNING,
    pid=1,
    time=10,
    started=1,
    incarnation=7,
    position="05",
    safe_lsn=Lsn(5),
    raw_offset=5,
    events=3,
    frames=4,
)
FAILED = replace(STATUS, state=State.FAILED, failure=Failure("TransientError", "SINK_AWAY", "away", "wait"))


def test_what_the_lane_says_is_the_least_and_the_sum() -> None:
    ahead = replace(STATUS, pid=2, position="09", safe_lsn=Lsn(9), raw_offset=9, events=5, time=12)

    lane = put_together([ahead, STATUS], 2)

    assert lane is not None
    assert (lane.position, lane.safe_lsn, lane.raw_offset, lane.events, lane.frames, lane.time) == (
        "05",
        5,
        5,
        8,
        4,
        12,
    )
    alone = put_together([replace(ahead, is_alone=True), STATUS], 2)
    assert alone is not None
    assert (alone.position, alone.is_alone) == ("09", False)


def test_a_lane_has_drained_when_all_have_and_failed_when_one_has() -> None:
    drained = replace(STATUS, state=State.DRAINED)

    def state(*statuses: LaneStatus) -> State | None:
        lane = put_together(statuses, 2)
        return lane.state if lane is not None else None

    assert [state(drained, STATUS), state(drained, drained)] == [State.RUNNING, State.DRAINED]
    assert state(STATUS) is None
    assert state(FAILED) is State.FAILED
    assert put_together([STATUS, FAILED], 2) == replace(FAILED, events=6)
