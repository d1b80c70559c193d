"""A lane that retention has overtaken says from then on what it has never seen: rows of snapshots move no position."""

import pytest
from kit.frames import RawLog, row
from kit.memory_sink import MemorySink, delivery_into
from kit.rewinds import deliver, rewind

from tidegate.checkpoint.writer_acks import least_ack
from tidegate.config.sinks import SinkConfig, SinkType, StartFrom
from tidegate.contracts.missed import Missed
from tidegate_processor.kafka_clients import RawTopicView

SINK = SinkConfig(name="events", type=SinkType.KAFKA_TOPICS)
BEST_EFFORT = SINK.model_copy(update={"required": False})
FROM_NOW = SINK.model_copy(update={"start_from": StartFrom.NOW})


@pytest.fixture
def log() -> RawLog:
    """A transaction at offset 1, rows of a snapshot at 2 to 5, one at 6."""
    log = RawLog()
    log.epoch()
    log.transaction(row(1))
    for number in range(4):
        log.snapshot([b"%d" % number, b"a"])
    log.transaction(row(2))
    return log


def missed(log: RawLog, sink: MemorySink, *, beginning: int = 0, config: SinkConfig = SINK, stop: int = 7) -> Missed:
    delivery = delivery_into(sink, config=config, raw=RawTopicView("topic", beginning, len(log.frames)))
    delivery.feed(list(enumerate(log.frames))[beginning:stop])
    delivery.commit(at_the_end=True)
    ack = delivery.ack()
    assert ack is not None
    return ack.missed


def test_it_is_said_by_every_incarnation_from_then_on(log: RawLog) -> None:
    sink = MemorySink()
    said = [missed(log, sink, stop=3), missed(log, sink, beginning=5), missed(log, sink, beginning=5)]
    assert said == [(0, 0), (3, 5), (3, 5)]


@pytest.mark.parametrize(("config", "expected"), [(BEST_EFFORT, (0, 0)), (FROM_NOW, (0, 0)), (SINK, (0, 2))])
def test_a_new_lane_has_missed_only_what_it_was_to_have(
    log: RawLog, config: SinkConfig, expected: tuple[int, int]
) -> None:
    log.frames[2:] = []
    log.epoch(2, refeed_from=log.safe_lsn)
    assert missed(log, MemorySink(), beginning=2, config=config) == expected


def test_a_rewind_to_what_is_left_does_not_forget_it(log: RawLog) -> None:
    sink = MemorySink()
    missed(log, sink, stop=3)
    assert rewind(log, sink, beginning=5, may_skip=True).missed == (3, 5)
    assert deliver(log, sink, beginning=5).ack().missed == (3, 5)  # type: ignore[union-attr]


def test_of_several_writers_what_any_has_missed_counts(log: RawLog) -> None:
    one, other = MemorySink(), MemorySink()
    missed(log, one, stop=3)
    acks = [deliver(log, one, beginning=5).ack(), deliver(log, other).ack()]
    least = least_ack(acks)
    assert least is not None
    assert least.missed == (3, 5)


def test_two_stretches_are_one_with_what_lies_between() -> None:
    assert Missed().and_from(5, 9).and_from(20, 30).and_from(7, 7) == (5, 30)
