"""Sampled transactions leave spans; whatever is not sampled, or not traced at all, is not touched."""

import asyncio
import time
from collections.abc import Sequence
from typing import Any

import pytest
from kit.spans import Kept

from tidegate.clock import unix_microseconds
from tidegate.contracts.generation import Generation
from tidegate.events import POSTGRES_EPOCH_UNIX_US
from tidegate.lsn import Lsn
from tidegate.observability.trace_context import Sampler, trace_of
from tidegate.pgoutput.encode import encode_message
from tidegate.pgoutput.messages import Begin, Commit, LogicalMessage, Message
from tidegate.pgoutput.wire import XLogData, encode_envelope
from tidegate.position import BEGINNING, MAX_ORDINAL, Position
from tidegate_reader import trail as module
from tidegate_reader.feedback import Feedback, Levels
from tidegate_reader.framer import Framer
from tidegate_reader.frames import EpochStamp, SealedFrame
from tidegate_reader.metrics import ReaderMetrics
from tidegate_reader.progress import Progress
from tidegate_reader.trail import Trail, Untraced, make_trail
from tidegate_reader.transactions import TransactionTracker

STAMP = EpochStamp(Generation(7, 1, "d", "tidegate_shop", b"n" * 16), 3, b"e" * 16, 0)
COMMITTED = unix_microseconds() - POSTGRES_EPOCH_UNIX_US - 1_000_000
LARGE = 900


class Rig:
    def __init__(self, ratio: float = 1.0, skip_to: Position = BEGINNING) -> None:
        self.kept = Kept()
        self.trail = Trail(self.kept, Sampler(ratio), STAMP)  # type: ignore[arg-type]
        self.durable: list[int] = []
        self.framer = Framer(
            STAMP,
            max_frame_bytes=5000,
            linger_seconds=0.0,
            position=BEGINNING,
            safe_lsn=Lsn(0),
            skip_to=skip_to,
            next_seq=1,
            wall_clock=unix_microseconds,
            tracker=self.trail.tracker,
        )
        self._told = self.trail.before(lambda frame, offset: self.durable.append(offset))

    def send(self, *messages: Message) -> list[SealedFrame]:
        data = [encode_envelope(XLogData(Lsn(9), Lsn(9), 0, encode_message(message))) for message in messages]
        return [*self.framer.feed(data, 0.0), *self.framer.empty_link(1.0)]

    def acknowledge(self, frames: Sequence[SealedFrame]) -> None:
        for frame in frames:
            self._told(frame, len(self.durable) + 10)


def transaction(lsn: int, changes: int = 2, committed: int = COMMITTED) -> list[Message]:
    change = LogicalMessage(True, Lsn(lsn - 5), "p", b"x" * LARGE)
    return [Begin(Lsn(lsn), committed, 750), *[change] * changes, Commit(Lsn(lsn), Lsn(lsn + 40), committed)]


def test_a_transaction_is_one_span_from_its_commit_to_its_acknowledgement_with_its_steps_below() -> None:
    rig = Rig()
    rig.acknowledge(rig.send(*transaction(1000)))

    context = trace_of(system_id=7, commit_lsn=Lsn(1000), xid=750, commit_time=COMMITTED)
    [root] = rig.kept.named("transaction")
    steps = [rig.kept.named(name)[0] for name in ("received", "framed", "produced")]
    assert (root.trace_id, root.span_id, root.parent_id) == (context.trace_id, context.span_id, 0)
    assert root.start == (COMMITTED + POSTGRES_EPOCH_UNIX_US) * 1000
    assert {(each.trace_id, each.parent_id) for each in steps} == {(context.trace_id, context.span_id)}
    assert [each.end for each in steps] == [*(each.start for each in steps[1:]), root.end]
    assert root.start < steps[0].start <= steps[0].end <= root.end <= time.time_ns()
    assert root.attributes == {
        "tidegate.slot": "tidegate_shop",
        "tidegate.epoch": 3,
        "tidegate.xid": 750,
        "tidegate.commit_lsn": "0/3E8",
        "tidegate.end_lsn": "0/410",
        "tidegate.changes": 2,
        "tidegate.frames": 1,
        "tidegate.raw_offset": 10,
    }


def test_one_of_many_frames_is_one_trace_and_ends_with_the_last_of_them() -> None:
    rig = Rig()
    frames = rig.send(*transaction(1000, changes=30))
    holding = [frame for frame in frames if frame.changes]
    rig.acknowledge(holding[:-1])
    assert len(holding) > 3
    assert rig.kept.spans == []
    rig.acknowledge(holding[-1:])

    [root] = rig.kept.named("transaction")
    assert (root.attributes["tidegate.changes"], root.attributes["tidegate.frames"]) == (30, len(holding))
    assert rig.durable == list(range(10, 10 + len(holding)))


def test_only_what_is_sampled_is_told() -> None:
    rig, lsns = Rig(ratio=0.25), range(1000, 201_000, 1000)
    rig.acknowledge(rig.send(*(message for lsn in lsns for message in transaction(lsn, changes=1))))

    sampled = {trace_of(system_id=7, commit_lsn=Lsn(lsn), xid=750, commit_time=COMMITTED).trace_id
               for lsn in lsns if Sampler(0.25).takes(lsn)}  # fmt: skip
    assert {span.trace_id for span in rig.kept.spans} == sampled
    assert 0 < len(sampled) < len(lsns)


def test_what_the_raw_topic_has_already_is_not_told_again() -> None:
    rig = Rig(skip_to=Position(Lsn(1000), MAX_ORDINAL))
    rig.acknowledge(rig.send(*transaction(1000), *transaction(2000)))

    assert [span.attributes["tidegate.commit_lsn"] for span in rig.kept.named("transaction")] == ["0/7D0"]


def test_a_source_whose_clock_is_ahead_makes_no_span_that_ends_before_it_begins() -> None:
    rig = Rig()
    rig.acknowledge(rig.send(*transaction(1000, committed=COMMITTED + 10**9), *transaction(2000, committed=-(2**62))))

    assert all(0 <= span.start <= span.end for span in rig.kept.spans)


def test_more_than_may_be_on_the_way_is_dropped_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_ON_THE_WAY", 3)
    rig = Rig()
    rig.acknowledge(rig.send(*(message for lsn in range(1000, 6000, 1000) for message in transaction(lsn, changes=1))))

    assert len(rig.kept.named("transaction")) == 3
    assert rig.kept.dropped == 2 * 4


class Stream:
    last_heard = 0.0

    async def send(self, data: bytes) -> None:
        assert data


def test_what_is_confirmed_is_told_once_the_server_has_been_told() -> None:
    rig, metrics = Rig(), ReaderMetrics(Progress("shop", 1), [])
    confirmed = [1039]
    levels = lambda: Levels(Lsn(9000), Lsn(confirmed[0]))  # noqa: E731
    feedback = rig.trail.feedback(Stream(), levels, metrics)  # type: ignore[arg-type]
    rig.acknowledge(rig.send(*transaction(1000)))

    asyncio.run(feedback.send())
    assert rig.kept.named("confirmed") == []
    confirmed[0] = 1040
    asyncio.run(feedback.send())
    asyncio.run(feedback.send())

    [root], [span] = rig.kept.named("transaction"), rig.kept.named("confirmed")
    assert (span.trace_id, span.parent_id, span.start) == (root.trace_id, root.span_id, root.end)


def test_without_tracing_every_part_is_what_it_would_be() -> None:
    made: Any = make_trail(None, None, STAMP)

    def durable(*_: object) -> None:
        """Stands for the keeper's."""

    assert type(made) is Untraced
    assert made.before(durable) is durable
    assert type(made.tracker(BEGINNING, None)) is TransactionTracker
    assert type(made.feedback(Stream(), lambda: None, None)) is Feedback
