"""CopyData in, frames out. No socket, no clock of its own, and no look inside a row.

Invariant: the concatenated bodies of the frames it returns are the messages received, once each and in order, less
what the raw topic already has (`skip_to`), Relation and Type messages (they go into the schema section) and
non-transactional messages.

A frame is closed by:

| cause | what follows it |
| --- | --- |
| the next message does not fit | the next frame |
| a changed Relation | a SCHEMA_CHANGE mark |
| the link is empty, and the last close was longer ago than `linger` | a tick |
| the link is empty, and `linger` runs out | a tick |

A BEGIN waits for the transaction's next message, so that a frame never ends in one: a position inside the frame then
always stands for it.
"""

import struct
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from tidegate.contracts.frame import BODY_ENTRY, FrameKind, OpenTransaction
from tidegate.contracts.mark import MarkKind
from tidegate.kafka_client import largest_frame
from tidegate.lsn import Lsn
from tidegate.position import Position
from tidegate_reader.frames import TICK_BYTES, EpochStamp, Piece, SealedFrame, Sealer, Span
from tidegate_reader.history import HistoryCheck
from tidegate_reader.keepalives import Keepalives
from tidegate_reader.shapes import Shape, ShapeBook, section
from tidegate_reader.transactions import TransactionTracker, protocol_broken

ENVELOPE_BYTES = 25  # XLogData before its message: tag, start and end of WAL, clock
_DATA, _SHORTEST_DATA, _HEAD_LESS_ENVELOPE = 0x77, ENVELOPE_BYTES + 6, BODY_ENTRY.size - ENVELOPE_BYTES
_PEEK = struct.Struct(">BQ16xBI").unpack_from
_BEGIN, _COMMIT, _ORIGIN, _RELATION, _TYPE, _TRUNCATE, _MESSAGE = b"BCORYTM"
_ROWS = frozenset(b"IUD")
_TRUNCATE_HEAD = struct.Struct(">xIB")
# Header, two names of up to 63 bytes and checksum: so `max_frame_bytes` holds for the whole frame.
_FRAME_OVERHEAD = 384
_ROOM_FOR_SHAPES = 4


class Framer:
    def __init__(
        self,
        stamp: EpochStamp,
        *,
        max_frame_bytes: int,
        linger_seconds: float,
        position: Position,
        safe_lsn: Lsn,
        skip_to: Position,
        next_seq: int,
        wall_clock: Callable[[], int],
        known: Mapping[int, Shape] | None = None,
        history: HistoryCheck | None = None,
        tracker: Callable[[Position, HistoryCheck | None], TransactionTracker] = TransactionTracker,
    ) -> None:
        self.received_lsn, self.dropped_messages = safe_lsn, 0
        self.recent: deque[tuple[Lsn, int]] = deque(maxlen=4096)
        """Commit LSN and xid of the last transactions."""
        self.sealer = Sealer(stamp, next_seq=next_seq, safe_lsn=safe_lsn, wall_clock=wall_clock)
        self.shapes = ShapeBook(known or {})
        self._linger, self._transaction = linger_seconds, tracker(skip_to, history)
        self._base, self._last_ordinal = position, -1
        self._safe_lsn, self.keepalives = safe_lsn, Keepalives(safe_lsn)
        self.room = max_frame_bytes - _FRAME_OVERHEAD
        self._most_room = largest_frame(max_frame_bytes) - _FRAME_OVERHEAD
        self._pending: list[Piece] = []
        self._start_frame()

    @property
    def position(self) -> Position:
        return self._base if self._last_ordinal < 0 else Position(self._transaction.commit_lsn, self._last_ordinal)

    @property
    def passed_lsn(self) -> Lsn:
        """Every transaction that ends at or below it has been fed."""
        return max(self._safe_lsn, self.keepalives.lsn)

    def pause(self, now: float) -> Span | None:
        """Where a frame from elsewhere may stand, the open one closed; nowhere inside a transaction."""
        if self._transaction.is_open:
            return None
        self._close(now)
        return Span(self.position, self.position, self._safe_lsn, None)

    def feed(self, batch: Iterable[Piece], now: float) -> list[SealedFrame]:
        """What one look at the socket brought."""
        pieces = iter(batch)
        while (data := self._take_rows(pieces)) is not None:
            self._step(data, now)
        return self.sealer.take()

    def _take_rows(self, pieces: Iterator[Piece]) -> Piece | None:
        """Rows of tables that the frame knows, which nearly every change is (1.3 CPU-s per million of them hang on this
        loop), up to the first piece that is anything else or does not fit: that is given back."""
        transaction, append, pack, room = self._transaction, self._body.append, BODY_ENTRY.pack, self._room - self._size
        flows = transaction.is_open and not transaction.is_skipping and not self._pending
        relations, size, rows = self._relations if flows else {}, 0, 0
        try:
            for data in pieces:
                if (length := len(data)) < _SHORTEST_DATA:
                    return data
                kind, start, tag, relation_id = _PEEK(data)
                entry = length + _HEAD_LESS_ENVELOPE
                if relation_id not in relations or tag not in _ROWS or size + entry > room or kind != _DATA:
                    return data
                append(pack(length - ENVELOPE_BYTES, start))
                append(data[ENVELOPE_BYTES:])
                size, rows = size + entry, rows + 1
        finally:
            if rows:
                transaction.ordinal += rows
                self._last_ordinal = transaction.ordinal - 1
                self._changes += rows
                self._size += size
        return None

    def _step(self, data: Piece, now: float) -> None:
        if len(data) < _SHORTEST_DATA or data[0] != _DATA:
            heard = self.keepalives.hear(data, in_transaction=self._transaction.is_open)
            self.received_lsn = max(self.received_lsn, heard)
            self._transaction.passes(heard)
            return
        _, start, tag, relation_id = _PEEK(data)
        if tag not in _ROWS:
            self._other(tag, start, bytes(data[ENVELOPE_BYTES:]), now)
        elif not self._transaction.count():
            self._add_change(start, data[ENVELOPE_BYTES:], (relation_id,), now)

    def empty_link(self, now: float) -> list[SealedFrame]:
        """Nothing more to read: close if the time has come."""
        if now >= self.sealer.at + self._linger:
            self._close(now)
            if self._keepalive_is_news and now >= self.keepalives.due_at:
                self._safe_lsn = max(self._safe_lsn, self.keepalives.lsn)
                self.keepalives.framed_at = now
                self._empty_frame(now)
            if self.sealer.tick_owed:
                self._empty_frame(now, min_bytes=TICK_BYTES)
        return self.sealer.take()

    def deadline(self) -> float | None:
        """When `empty_link` will have something to do."""
        if self._body or self.sealer.tick_owed:
            return self.sealer.at + self._linger
        return self.keepalives.due_at if self._keepalive_is_news else None

    def finish(self, now: float) -> list[SealedFrame]:
        """What is left at the end of the run."""
        self._close(now)
        if self.sealer.tick_owed:
            self._empty_frame(now, min_bytes=TICK_BYTES)
        return self.sealer.take()

    def _other(self, tag: int, start: int, message: bytes, now: float) -> None:
        try:
            if tag == _BEGIN:
                self._on_begin(start, message)
            elif tag == _COMMIT:
                self._on_commit(start, message, now)
            elif tag == _ORIGIN:
                self._wait_for_change(start, message)
            elif tag == _RELATION:
                self._on_relation(message, now)
            elif tag == _TYPE:
                self.shapes.learn_type(message)
            elif tag == _TRUNCATE:
                self._on_truncate(start, message, now)
            elif tag == _MESSAGE:
                self._on_message(start, message, now)
            else:
                protocol_broken(f"a message {chr(tag)!r} that was not asked for")
        except struct.error:
            protocol_broken(f"a message {chr(tag)!r} cut short")

    def _on_begin(self, start: int, message: bytes) -> None:
        self._transaction.begin(message)
        self.recent.append((self._transaction.commit_lsn, self._transaction.xid))
        self._wait_for_change(start, message)

    def _wait_for_change(self, start: int, message: bytes) -> None:
        if not self._transaction.is_skipping:
            self._pending += (BODY_ENTRY.pack(len(message), start), message)

    def _on_commit(self, start: int, message: bytes, now: float) -> None:
        position, end_lsn, skip = self._transaction.commit(message)
        if not skip:
            self._add(start, message, position, None, now)
            self._base, self._last_ordinal = position, -1
        self._safe_lsn = Lsn(max(self._safe_lsn, end_lsn))
        self.received_lsn = max(self.received_lsn, end_lsn)

    def _on_truncate(self, start: int, message: bytes, now: float) -> None:
        count, _ = _TRUNCATE_HEAD.unpack_from(message)
        relation_ids = struct.unpack_from(f">{count}I", message, _TRUNCATE_HEAD.size)
        if not self._transaction.count():
            self._add_change(start, message, relation_ids, now)

    def _on_message(self, start: int, message: bytes, now: float) -> None:
        if not message[1] & 1:
            self.dropped_messages += 1
        elif not self._transaction.count():
            self._add_change(start, message, (), now)

    def _on_relation(self, message: bytes, now: float) -> None:
        previous, current = self.shapes.learn_relation(message)
        if previous == current:
            return
        # In the skipped region the mark is in the raw topic already, before the change it announced.
        is_skipped = self._transaction.skips_next
        if previous is None or not is_skipped:
            self.shapes.note(current, previous, self._next_position())
        if previous is not None:
            self._close(now)
            if not is_skipped:
                self._schema_change(previous, current, now)

    def _add_change(self, start: int, message: Piece, relation_ids: Sequence[int], now: float) -> None:
        position = Position(self._transaction.commit_lsn, self._transaction.ordinal - 1)
        self._add(start, message, position, relation_ids, now)
        self._last_ordinal = position.ordinal

    def _add(
        self, start: int, message: Piece, position: Position, relation_ids: Sequence[int] | None, now: float
    ) -> None:
        """`relation_ids` is none for what is no change: a COMMIT."""
        needed = relation_ids or ()
        pieces = [*self._pending, BODY_ENTRY.pack(len(message), start), message]
        size = sum(map(len, pieces))
        new = self.shapes.size_of({each for each in needed if each not in self._relations})
        if self._size + size + new > self._room_with(new):
            self._close(now)
        if not self._body:
            self._first, self._opened = position, self._opened_before(position)
        for relation_id in needed:
            if relation_id not in self._relations:
                self._relations[relation_id] = shape = self.shapes.shape(relation_id)
                self._size += shape.size
                self._room = self._room_with(shape.size)
        self._pending = []
        self._changes += relation_ids is not None
        self._others += len(pieces) // 2 - (relation_ids is not None)
        if not self._body and self._size + size > self._room:
            # One message larger than a frame. Only the last part moves the position.
            body, schema = b"".join(pieces), section(self._relations.values())
            self.sealer.seal_in_parts(FrameKind.WAL, now, self._span(), position, schema, body, self.room)
            self._start_frame()
        else:
            self._body += pieces
            self._size += size

    def _room_with(self, shapes_bytes: int) -> int:
        """Shapes bring room with them, or a frame of a thousand tables holds two changes for each."""
        return min(self._room + _ROOM_FOR_SHAPES * shapes_bytes, self._most_room)

    def _opened_before(self, position: Position) -> OpenTransaction | None:
        """The transaction that a frame starting with this message starts in the middle of."""
        return None if self._pending else self._transaction.opened(position.ordinal)

    def _close(self, now: float) -> None:
        if self._body:
            schema = section(self._relations.values())
            self.sealer.seal(FrameKind.WAL, now, self._span(), schema=schema, body=self._body)
            self._start_frame()

    def _schema_change(self, previous: Shape, current: Shape, now: float) -> None:
        span = Span(self._next_position(), self.position, self._safe_lsn, self._opened_now())
        mark = current.mark(MarkKind.SCHEMA_CHANGE)
        self.sealer.seal(FrameKind.MARK, now, span, schema=previous.before(current), body=(mark,))

    def _next_position(self) -> Position:
        transaction = self._transaction
        return Position(transaction.commit_lsn, transaction.ordinal) if transaction.is_open else self.position

    @property
    def _keepalive_is_news(self) -> bool:
        return self.keepalives.lsn > self.sealer.safe_lsn and not self._transaction.is_open

    def _empty_frame(self, now: float, *, min_bytes: int = 0) -> None:
        span = Span(self.position, self.position, self._safe_lsn, self._opened_now())
        self.sealer.seal(FrameKind.WAL, now, span, min_bytes=min_bytes)

    def _opened_now(self) -> OpenTransaction | None:
        return None if self._pending else self._transaction.open_transaction()

    def _start_frame(self) -> None:
        self._body: list[Piece] = []
        self._relations: dict[int, Shape] = {}
        self._size = self._changes = self._others = 0
        self._room = self.room

    def _span(self) -> Span:
        return Span(
            self._first, self.position, self._safe_lsn, self._opened, self._changes, self._changes + self._others
        )
