"""One lane's way from raw records to durable events and an ack.

| state    | on records                                   | on stop, or on a newer incarnation      |
| -------- | -------------------------------------------- | --------------------------------------- |
| running  | take, decode, route, write; commit where one | commit what is written, ack: drained    |
|          | of the source ends (`portion`); then ack     |                                         |
| drained  | left alone, the next incarnation reads them  | -                                       |

The commit unit is the whole frame. The ack is written after the sink's commit has returned and never before; an ack
that Redis does not take is only late, the next one says more. A frame without events writes nothing to the sink; its
cursor is committed now and then, so that a restart does not read the idle hours again. The offset in the ack is the
committed cursor's, so that reader and lane mean the same frames when the log is trimmed.
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import replace

from tidegate.clock import from_postgres, unix_microseconds
from tidegate.config.sinks import SinkConfig
from tidegate.config.values import ToastPolicy
from tidegate.contracts.ack import Ack
from tidegate.contracts.cursor import Cursor
from tidegate.contracts.dead_letter import FrameAddress
from tidegate.contracts.epoch import EpochMode, EpochRecord
from tidegate.contracts.frame import FrameHeader, FrameKind
from tidegate.contracts.lineage import Lineage
from tidegate.errors import StreamError
from tidegate.failpoints import Failpoint, reach
from tidegate.lsn import Lsn
from tidegate.position import BEGINNING, Position
from tidegate_processor.counters import Counters
from tidegate_processor.dead_letters import dead_letters
from tidegate_processor.decode import skip_partial_transaction
from tidegate_processor.epoch_walk import Seen
from tidegate_processor.gaps import Gaps, rows_may_be_older
from tidegate_processor.ingest import Ingest, Taken
from tidegate_processor.kafka_clients import RawTopicView
from tidegate_processor.place import Place, Standing, check_not_truncated, cursor_missing
from tidegate_processor.portion import Portion
from tidegate_processor.refused_rows import RefusedRows
from tidegate_processor.schema_changes import ShapePolicy
from tidegate_processor.sinks.base import CURSOR_KEPT_SECONDS, Sink
from tidegate_processor.snapshots import ReadBack, Snapshots, no_log

_IDLE_COMMIT_SECONDS = 10.0


class Delivery:
    """Sans Spark and sans Redis: fed with records, it writes to its sink and says what may be acked."""

    def __init__(
        self,
        pipeline: str,
        config: SinkConfig,
        sink: Sink,
        *,
        look: Callable[[], RawTopicView],
        acked: Callable[[str], Ack | None],
        lineage: Callable[[], Lineage | None],
        config_epoch: str,
        incarnation: int,
        read_back: ReadBack = no_log,
        head: Callable[[], Seen | None] = lambda: None,
    ) -> None:
        """`look` looks at the raw topic, `acked` tells what this sink has acked in a generation, `lineage` where the
        reader works; `read_back` reads again what lies before, `head` the log's first frame."""
        self.counters = Counters()
        self._pipeline, self._config, self._sink = pipeline, config, sink
        self._acked = acked
        self._config_epoch, self._incarnation = config_epoch, incarnation
        cursor = sink.open()
        reach(Failpoint.LANE_FENCED)
        raw = look()  # after the fence: until then the stage before may have gone on with a log that grew
        self._has = Standing(cursor.position, cursor.safe_lsn, cursor.rewound_from) if cursor else Standing()
        self._place = Place(config, raw, self._has, cursor, acked=acked, lineage=lineage, head=head)
        self._gaps = Gaps(config.name, self._place, self.counters)
        check_not_truncated(cursor, raw)
        self.ingest = Ingest(cursor, raw.id, lambda: look().id, beginning=raw.beginning, comes_in=self._comes_in)
        self._snapshots = Snapshots(raw.id, read_back, self._commit_before_this)
        self._rewound_epoch = cursor.rewound_epoch if cursor and cursor.topic_id == raw.id else 0
        self._is_within_a_frame = False
        self._shapes = ShapePolicy(config, cursor.refused if cursor else ())
        self._refused = RefusedRows(config, self._shapes)
        self._taken_offset = self.ingest.next_offset - 1 if self.ingest.next_offset is not None else -1
        self._taken_in = self.ingest.epoch, self.ingest.epoch_nonce, cursor.seq if cursor else 0
        self._uncommitted = Portion()
        self._last_commit = time.monotonic()
        self._committed = cursor

    @property
    def position(self) -> Position:
        return self._has.position

    @property
    def safe_lsn(self) -> Lsn:
        return self._has.safe_lsn

    @property
    def raw_offset(self) -> int:
        return self._taken_offset

    def feed(self, records: Iterable[tuple[int, bytes | None]]) -> None:
        for offset, value in records:
            for taken in self._judged(offset, value):
                self._deliver(taken)
                self._uncommitted.ends(is_whole=self.safe_lsn > self.position.commit_lsn)
                if self._uncommitted.is_full:
                    self._commit()
        if not self.ingest.has_place and self.ingest.next_offset is not None:
            self._place.look(self.ingest.sees_from or 0, self.ingest.next_offset)

    def commit(self, *, at_the_end: bool = False, more_waits: bool = False) -> bool:
        """Whether everything taken so far is durable now, and may be acked: else it ends within a transaction of the
        source, or is little for what it costs (`portion`). `at_the_end` of an input all is committed: the next one may
        be another worker's."""
        if not at_the_end and not self._uncommitted.may_end_now(more_waits=more_waits):
            return False
        self._commit(at_the_end=at_the_end)
        return True

    def _commit(self, *, at_the_end: bool = False) -> None:
        idle_long = time.monotonic() - self._last_commit > _IDLE_COMMIT_SECONDS
        is_due = idle_long or at_the_end or not self._stands_here  # the first one says where the lane has begun
        if self._uncommitted.has_events or (is_due and self._has_moved()):
            cursor = self._cursor()
            begun = time.monotonic()
            self._sink.commit(cursor)
            took = time.monotonic() - begun
            self.counters.commit_seconds += took
            self._uncommitted.committed(took)
            reach(Failpoint.LANE_COMMITTED)
            self._committed, self._last_commit = cursor, time.monotonic()
        now = unix_microseconds()
        self.counters.latencies += [(now - commit_time) / 1e6 for commit_time in self._uncommitted.commit_times]
        self._uncommitted.clear()

    @property
    def has_cursor(self) -> bool:
        return self._committed is not None

    def has_come_to(self, offset: int) -> bool:
        """Whether its cursor stands there, or beyond."""
        return self._committed is not None and self._committed.next_offset >= offset

    @property
    def _stands_here(self) -> bool:
        """Whether the committed cursor is about this topic, not about one that was there before."""
        return self._committed is not None and self._committed.topic_id == self.ingest.topic_id

    def _has_moved(self) -> bool:
        if self._committed is None or not self._stands_here:
            return self.counters.frames > 0
        is_old = time.monotonic() - self._last_commit > CURSOR_KEPT_SECONDS
        return is_old or (self.counters.frames > 0 and self._next_offset() > self._committed.next_offset)

    def _next_offset(self) -> int:
        resume = None if self._is_within_a_frame else self.ingest.resume_offset
        return max(resume or 0, self._taken_offset + 1)

    def _commit_before_this(self) -> None:
        """Within a frame that will take long: the sink's open transaction would be aborted meanwhile."""
        self._is_within_a_frame = True
        self._commit()
        self._is_within_a_frame = False

    def ack(self) -> Ack | None:
        """Of what is committed; only to be asked for right after a `commit` that did so."""
        committed = self._committed
        if committed is None or (self._stands_here and self.ingest.epoch < self._rewound_epoch):
            return None
        return Ack(
            sink=self._config.name,
            generation=committed.generation,
            epoch=self.ingest.epoch if self._stands_here and self.ingest.has_place else committed.newest_epoch,
            topic_id=committed.topic_id,
            offset=committed.next_offset - 1,
            position=self.position,
            safe_lsn=self.safe_lsn,
            time=unix_microseconds(),
            config_epoch=committed.config_epoch,
            refused=committed.refused,
            missed=committed.missed,
        )

    def close(self) -> None:
        self._sink.close()

    def _judged(self, offset: int, value: bytes | None) -> list[Taken]:
        try:
            return list(self.ingest.feed(offset, value))
        except StreamError:
            self._commit()  # what stands before the fault is good
            raise

    def _deliver(self, taken: Taken) -> None:
        frame, header = taken.frame, taken.frame.header
        if taken.epoch is not None and taken.epoch.mode is EpochMode.REFEED:
            self._place.check_no_gap(header, taken.epoch)
        passes_gap = self._gaps.passes(taken, self._has)
        self._snapshots.remember(taken)
        if header.kind is FrameKind.MARK and self._is_told(taken):
            if self._sink.capabilities.follows:
                self._commit_before_this()  # no row of the former shape is to meet what a person alters there
            self._write(taken, self.position)
        if header.kind is FrameKind.SNAPSHOT:
            # They move no position: which of them are delivered is said by the cursor's offset alone.
            self._write(replace(taken, frame=self._snapshots.rows(taken)), BEGINNING)
        if header.kind is FrameKind.WAL:
            if self._has.has_nothing:
                self._has.position = skip_partial_transaction(frame) or BEGINNING
            self._write(taken, self.position)
        self.counters.frames += 1
        self._has.position = max(self._has.position, header.last)
        self._has.safe_lsn = max(self._has.safe_lsn, header.safe_lsn)
        self._taken_offset, self._taken_in = taken.offset, (header.epoch, header.epoch_nonce, header.seq)
        if passes_gap and self._config.toast is ToastPolicy.PREVIOUS:
            self.commit(at_the_end=True)
            raise rows_may_be_older()

    def _is_told(self, taken: Taken) -> bool:
        try:
            return self._shapes.is_told(taken.frame, self.position, self._sink.capabilities)
        except StreamError:
            self.ingest.next_offset = taken.offset  # the next incarnation begins at the mark
            self.commit(at_the_end=True)
            raise

    @property
    def waits_for(self) -> str:
        """What has to happen before this lane can go on; empty if nothing has to."""
        if self.ingest.hole_at is not None:
            return f"a new epoch of the reader: frames are missing before raw offset {self.ingest.hole_at}"
        if self._place.was_looked_for and not self.ingest.has_place:
            return "the reader to feed again what the raw topic does not hold any more"
        return ""

    def _comes_in(self, header: FrameHeader, record: EpochRecord | None) -> bool:
        if not self.has_cursor and self.counters.frames == 0:
            self._check_no_past(header.generation.id)
        return self._place.comes_in(header, record, self.ingest.sees_from or 0)

    def _check_no_past(self, generation: str) -> None:
        """A missing cursor is never guessed: what has acked has had one. Kafka forgets it with a topic that is deleted:
        then the ack stands for it, and what lay between the two is sent twice."""
        if (acked := self._acked(generation)) is None:
            return
        if acked.topic_id == self.ingest.topic_id:
            self._sink.close()
            raise cursor_missing(self._config.name, is_back=self._sink.open() is not None)
        self._has.position, self._has.safe_lsn = acked.position, acked.safe_lsn
        self._shapes.recall(acked.refused)

    def _write(self, taken: Taken, after: Position) -> None:
        header = taken.frame.header
        frame, refused = self._refused.taken_out(taken.frame, after)
        begun = time.monotonic()
        receipt = self._sink.write(frame, after)
        self.counters.write_seconds += time.monotonic() - begun
        reach(Failpoint.LANE_WRITTEN)
        rejections = (*refused, *receipt.rejected)
        if rejections:
            letters = dead_letters(
                rejections,
                pipeline=self._pipeline,
                lane=self._config.name,
                generation=header.generation.id,
                frame=FrameAddress(self.ingest.topic_id, taken.offset, header.epoch, header.seq),
            )
            self._sink.write_dead_letters(letters)
            self.counters.dead_letters += len(letters)
        self.counters.events += receipt.events
        self.counters.bytes += receipt.bytes
        # What a sink does at a mark has to be durable, event or not, and soon: it may hold a lock.
        events = receipt.events + len(rejections) + (header.kind is FrameKind.MARK)
        self._uncommitted.add(events, receipt.bytes, receipt.partitions)
        if receipt.newest_commit_time is not None and header.kind is FrameKind.WAL:
            self.counters.last_commit_time = from_postgres(receipt.newest_commit_time)
            self._uncommitted.commit_times.append(self.counters.last_commit_time)

    def _cursor(self) -> Cursor:
        epoch, nonce, seq = self._taken_in  # a frame that is only passed over is no place
        return Cursor(
            generation=self.ingest.generation or "",
            topic_id=self.ingest.topic_id,
            epoch=epoch,
            epoch_nonce=nonce.hex(),
            seq=seq,
            next_offset=self._next_offset(),
            position=self.position,
            safe_lsn=self.safe_lsn,
            config_epoch=self._config_epoch,
            incarnation=self._incarnation,
            rewound_from=self._has.rewound_from if self._has.is_rewound else None,
            refused=self._shapes.refused,
            rewound_epoch=self._rewound_epoch if epoch < self._rewound_epoch else 0,
            missed=self._place.missed(self.ingest.sees_from),
        )
