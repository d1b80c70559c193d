"""The way of one writer's share, where a lane has several. docs/decisions/0066 proves it.

| state | on records | next |
| --- | --- | --- |
| beside the others | delivers its share | |
| | at a frame that is for all it commits what was before, and says that it stands there: | |
| | writer 0 waits until all others do | alone |
| | another | ceded |
| alone | delivers everything, and commits all writers' cursors | beside, at its next input |
| ceded | takes nothing, commits and acks nothing: writer 0 moves its cursor | opened anew, at its next input |

Invariant: whoever is not writer 0 opens after that one has, in each incarnation: until then the writer 0 before may
still commit cursors that are not its own.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from tidegate.config.sinks import SinkConfig
from tidegate.contracts.ack import Ack
from tidegate.position import Position
from tidegate_processor.commit import Delivery
from tidegate_processor.frame_queue import Record
from tidegate_processor.ingest import Taken
from tidegate_processor.kafka_clients import RawTopicView
from tidegate_processor.meeting import Meeting
from tidegate_processor.seat import Seat
from tidegate_processor.share import Share
from tidegate_processor.sinks.base import Sink


class WriterDelivery(Delivery):
    def __init__(
        self,
        pipeline: str,
        config: SinkConfig,
        sink: Sink,
        *,
        seat: Seat,
        meeting: Meeting,
        look: Callable[[], RawTopicView],
        **others: Any,  # as Delivery takes them
    ) -> None:
        self.has_ceded = False
        self._seat, self._meeting, self._share = seat, meeting, Share(seat, config)
        self._input_ended = False
        seat.sit_down()
        if not seat.is_first:
            meeting.await_first()
        super().__init__(pipeline, config, sink, look=look, **others)
        self._arrive(self.ingest.next_offset or 0)

    def feed(self, records: Iterable[Record]) -> None:
        if self._input_ended:
            self._seat.sit_down()
            self._input_ended = False
        for record in records:
            if not self.has_ceded:
                super().feed([record])

    def commit(self, *, at_the_end: bool = False, more_waits: bool = False) -> bool:
        self._meeting.remind()
        self._input_ended |= at_the_end
        return not self.has_ceded and super().commit(at_the_end=at_the_end, more_waits=more_waits)

    def has_come_to(self, offset: int) -> bool:
        return self.has_ceded or super().has_come_to(offset)

    def ack(self) -> Ack | None:
        """What its cursor says and no more: frames in which nothing was its own count once a commit has passed them."""
        ack = None if self.has_ceded else super().ack()
        if ack is None or self._committed is None:
            return None
        return replace(ack, position=self._committed.position, safe_lsn=self._committed.safe_lsn)

    def _deliver(self, taken: Taken) -> None:
        if not self._seat.is_alone and self._share.is_for_all(taken.frame, self.position):
            self._gather(taken)
        if self.has_ceded:
            return
        super()._deliver(taken)
        self._seat.passed(taken.frame.header.last)

    def _commit(self, *, at_the_end: bool = False) -> None:
        before = self._committed
        super()._commit(at_the_end=at_the_end)
        self._seat.has_moved_all = self._seat.is_alone and (self._seat.has_moved_all or self._committed is not before)

    def _gather(self, taken: Taken) -> None:
        self._commit_before_this()
        self._arrive(taken.offset)
        if not self._seat.is_first:
            self.has_ceded = True
            self.ingest.next_offset = taken.offset  # so that whatever comes next is beyond it, and it is opened anew
            return
        positions = self._meeting.await_all(self._seat.writers, self.ingest.topic_id, taken.offset)
        self._seat.be_alone([positions[writer] for writer in range(self._seat.writers)])

    def _has_moved(self) -> bool:
        """Also behind frames that are void alone: all writers' cursors agree where all have read the same."""
        stands_before = self._committed is not None and self._next_offset() > self._committed.next_offset
        return super()._has_moved() or (self._stands_here and stands_before)

    def _arrive(self, offset: int) -> None:
        self._meeting.arrive(self._seat.writer, self.ingest.topic_id, offset, self.position)

    def _write(self, taken: Taken, after: Position) -> None:
        frame, after = self._share.of(taken.frame, after)
        super()._write(replace(taken, frame=frame), after)
