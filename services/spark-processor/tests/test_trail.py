"""What a lane tells of sampled transactions: below the reader's span, once each, when they are acked."""

from types import SimpleNamespace
from typing import Any

import pytest
from kit.frames import COMMIT_TIME, GENERATION, RawLog, row
from kit.memory_sink import MemorySink
from kit.spans import Kept

from tidegate.checkpoint import redis_store
from tidegate.checkpoint.store import AckOutcome
from tidegate.config.sinks import Operation, Route, SinkConfig, SinkType
from tidegate.config.tables import TablePattern
from tidegate.errors import TransientError
from tidegate.lsn import Lsn, format_lsn
from tidegate.observability.trace_context import Sampler, trace_of
from tidegate_processor import control
from tidegate_processor import trail as module
from tidegate_processor.commit import Delivery
from tidegate_processor.control import LaneLink
from tidegate_processor.kafka_clients import RawTopicView
from tidegate_processor.trail import Trail, open_trail

SINK = SinkConfig(name="events", type=SinkType.KAFKA_TOPICS)
FIRST = Lsn(0x1010)


class Rig:
    """A delivery and its link as the stage has them, but for Spark and Redis."""

    def __init__(self, sink: MemorySink | None = None, config: SinkConfig = SINK, ratio: float = 1.0) -> None:
        self.kept = Kept()
        settings: Any = SimpleNamespace(
            config=SimpleNamespace(pipeline="shop"),
            writer=0,
            writers=1,
            sink="events",
            incarnation=4,
            config_epoch="",
            trigger="realtime",
            spark_ui="",
        )
        self.trail = Trail(settings, self.kept, Sampler(ratio))  # type: ignore[arg-type]
        self.link = self.trail.link(None)  # type: ignore[arg-type]
        self.sink = sink or MemorySink(config=config)
        self.delivery = Delivery(
            "shop",
            config,
            self.trail.sink(self.sink),
            look=lambda: RawTopicView("topic", 0, 1000),
            acked=lambda _: None,
            lineage=lambda: None,
            config_epoch="c1",
            incarnation=4,
        )

    def feed(self, log: RawLog, start: int = 0, stop: int | None = None) -> None:
        self.delivery.feed(enumerate(log.frames[start:stop], start))
        self.delivery.commit()
        self.link.acknowledge(self.delivery.ack())


@pytest.fixture(autouse=True)
def redis_away(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Acks are taken until it says otherwise."""
    away: list[bool] = []

    def write(*_: object) -> AckOutcome:
        if away:
            raise TransientError("Redis is away", code="REDIS_AWAY")
        return AckOutcome.ACCEPTED

    assert redis_store.write_ack is control.write_ack
    monkeypatch.setattr(control, "write_ack", write)
    return away


def log_of(*sizes: int) -> RawLog:
    log = RawLog()
    log.epoch()
    for size in sizes:
        log.transaction(*(row(number) for number in range(size)))
    return log


def test_a_lane_s_spans_are_children_of_the_reader_s() -> None:
    rig = Rig()
    rig.feed(log_of(2))

    context = trace_of(system_id=GENERATION.system_identifier, commit_lsn=FIRST, xid=700, commit_time=COMMIT_TIME)
    [lane] = rig.kept.named("lane")
    steps = [rig.kept.named(name)[0] for name in ("written", "committed", "acked")]
    assert (lane.trace_id, lane.parent_id) == (context.trace_id, context.span_id)
    assert {(each.trace_id, each.parent_id) for each in steps} == {(lane.trace_id, lane.span_id)}
    assert lane.start == steps[0].start <= steps[0].end <= steps[1].start <= steps[1].end == steps[2].start
    assert steps[2].end == lane.end
    assert lane.attributes == {
        "tidegate.sink": "events",
        "tidegate.incarnation": 4,
        "tidegate.commit_lsn": format_lsn(FIRST),
        "tidegate.xid": 700,
        "tidegate.frames": 1,
    }


def test_one_across_frames_and_commits_is_told_once_when_the_last_of_it_is_acked() -> None:
    log = log_of()
    log.split_transaction([row(1)], [row(2)])
    rig = Rig()
    rig.feed(log, stop=2)
    assert rig.kept.spans == []
    rig.feed(log, start=2)

    [lane] = rig.kept.named("lane")
    assert lane.attributes["tidegate.frames"] == 2


def test_only_what_is_sampled_is_told() -> None:
    log, rig = log_of(*[1] * 100), Rig(ratio=0.25)
    rig.feed(log)

    lsns = [Lsn(FIRST + 0x40 * each) for each in range(100)]
    expected = [format_lsn(lsn) for lsn in lsns if Sampler(0.25).takes(lsn)]
    assert [span.attributes["tidegate.commit_lsn"] for span in rig.kept.named("lane")] == expected
    assert 0 < len(expected) < 100


def test_while_acks_are_late_nothing_is_told_to_be_acked(redis_away: list[bool]) -> None:
    log, rig = log_of(1, 1), Rig()
    redis_away.append(True)
    rig.feed(log, stop=2)
    assert rig.kept.spans == []
    redis_away.clear()
    rig.feed(log, start=2)

    assert len(rig.kept.named("lane")) == 2


def test_what_a_failed_commit_takes_back_is_told_by_who_delivers_it() -> None:
    log, sink = log_of(1), MemorySink()
    sink.fail_next_commit = True
    first = Rig(sink)
    with pytest.raises(TransientError):
        first.feed(log)
    first.delivery.close()
    second = Rig(sink)
    second.feed(log)

    assert (first.kept.spans, len(second.kept.named("lane"))) == ([], 1)


def test_a_lane_that_takes_nothing_of_a_frame_tells_nothing_of_it() -> None:
    nothing = Route(tables=(TablePattern.parse("other.*"),), operations=(Operation.INSERT,))
    rig = Rig(config=SINK.model_copy(update={"routes": (nothing,)}))
    rig.feed(log_of(2))

    assert rig.kept.spans == []


def test_more_than_may_be_on_the_way_is_dropped_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_ON_THE_WAY", 3)
    rig = Rig()
    rig.feed(log_of(1, 1, 1, 1, 1))

    assert (len(rig.kept.named("lane")), rig.kept.dropped) == (3, 2 * 4)
    assert rig.link._figures(rig.delivery)["dropped_spans"] == 8


def test_without_tracing_sink_and_link_are_what_they_would_be() -> None:
    settings: Any = SimpleNamespace(
        config=SimpleNamespace(pipeline="shop", tracing=None),
        writer=0,
        writers=1,
        sink="e",
        incarnation=1,
        config_epoch="",
        trigger="",
        spark_ui="",
    )
    made, sink = open_trail(settings), MemorySink()

    assert made.sink(sink) is sink
    assert type(made.link(None)) is LaneLink  # type: ignore[arg-type]
