"""A lane that is rewound, over a log in memory, with the code that a processor does it by."""

from dataclasses import replace
from typing import Any

from kit.frames import RawLog, row
from kit.memory_sink import MemorySink, delivery_into

from tidegate.config.sinks import SinkConfig, SinkType
from tidegate.contracts.ack import Ack
from tidegate.contracts.cursor import Cursor
from tidegate.contracts.epoch import EpochRecord, PreviousEpoch, decode_epoch
from tidegate.contracts.frame import FrameKind, decode_frame
from tidegate.contracts.request import Asked, LaneRequest
from tidegate.lsn import Lsn
from tidegate.pgoutput.messages import Insert
from tidegate_processor.commit import Delivery
from tidegate_processor.epoch_walk import Seen
from tidegate_processor.kafka_clients import RawTopicView
from tidegate_processor.rewind import Terms, set_back

SINK = SinkConfig(name="events", type=SinkType.KAFKA_TOPICS)
REWIND = LaneRequest("r", Asked.REWIND, "somebody", 0)


class MemoryLog:
    """The frames of a RawLog, from `beginning` on; epoch frames say where the one before ended."""

    def __init__(self, log: RawLog, beginning: int = 0) -> None:
        self.id, self.beginning, self.end = "topic", beginning, len(log.frames)
        self._log = log

    def at(self, offset: int) -> Seen | None:
        at = max(offset, self.beginning)
        if at >= self.end:
            return None
        frame = decode_frame(self._log.frames[at])
        epoch = decode_epoch(frame.body) if frame.header.kind is FrameKind.EPOCH else None
        return Seen(at, frame.header, None if epoch is None else self._told(at, epoch))

    def offset_since(self, time: int) -> int | None:
        return time if time < self.end else None

    def _told(self, at: int, epoch: EpochRecord) -> EpochRecord:
        if at == 0 or epoch.previous is None:
            return epoch
        last = decode_frame(self._log.frames[at - 1]).header
        began = at - 1 if last.kind is FrameKind.EPOCH else last.epoch_offset
        return replace(epoch, previous=PreviousEpoch(last.epoch, began, last.seq, at - 1))


def written() -> RawLog:
    """Two epochs: transactions 1 to 3 at offsets 1 to 3, 4 and 5 at 5 and 6."""
    log = RawLog()
    log.epoch()
    for number in (1, 2, 3):
        log.transaction(row(number))
    log.epoch()
    for number in (4, 5):
        log.transaction(row(number))
    return log


def lsn(log: RawLog, offset: int) -> Lsn:
    return decode_frame(log.frames[offset]).header.first.commit_lsn


def deliver(
    log: RawLog, sink: MemorySink, *, beginning: int = 0, stop: int | None = None, acked: Ack | None = None
) -> Delivery:
    raw = RawTopicView("topic", beginning, len(log.frames))
    delivery = delivery_into(sink, config=SINK, raw=raw, acked=lambda _: acked)
    delivery.feed(list(enumerate(log.frames))[beginning:stop])
    delivery.commit(at_the_end=True)
    return delivery


def rewind(
    log: RawLog, sink: MemorySink, *, beginning: int = 0, acked: Ack | None = None, may_skip: bool = False, **to: Any
) -> Cursor:
    terms = Terms(replace(REWIND, **to), 2, "c1", may_skip)
    return set_back(sink, MemoryLog(log, beginning), terms, lambda _: acked)


def rows(sink: MemorySink) -> list[int]:
    return [int(change.message.new[0]) for change in sink.delivered if isinstance(change.message, Insert)]
