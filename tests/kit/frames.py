"""Builds what a reader would write: epochs of frames with real pgoutput inside, one transaction a call."""

from collections.abc import Sequence

from tidegate.contracts.epoch import EpochMode, EpochRecord, PreviousEpoch, StreamOptions
from tidegate.contracts.frame import (
    BODY_ENTRY,
    NO_OFFSET,
    FrameHeader,
    FrameKind,
    OpenTransaction,
    SchemaEntry,
    SchemaRole,
    encode_frame,
)
from tidegate.contracts.gap import Gap, GapReason
from tidegate.contracts.generation import Generation
from tidegate.contracts.mark import Mark, MarkKind
from tidegate.contracts.snapshot import SnapshotHead
from tidegate.lsn import Lsn
from tidegate.pgoutput.copy_text import copy_line
from tidegate.pgoutput.encode import encode_message
from tidegate.pgoutput.messages import Begin, Column, Commit, Insert, Message, Relation, ReplicaIdentity
from tidegate.position import BEGINNING, Position, before

INT4, TEXT = 23, 25
ORDERS = Relation(
    16385,
    "public",
    "orders",
    ReplicaIdentity.DEFAULT,
    (Column(1, "id", INT4, -1), Column(0, "note", TEXT, -1)),
)
GENERATION = Generation(7_300_000_000_000_000_001, 1, "shop", "tidegate_shop", bytes(range(16)))
# 2026-01-01 00:00 UTC in PostgreSQL's microseconds.
COMMIT_TIME = 820_454_400_000_000
OPTIONS = StreamOptions(("tidegate_shop",), 1, messages=True)


def row(number: int, note: str = "") -> Insert:
    return Insert(ORDERS.relation_id, (str(number).encode(), note.encode()))


class RawLog:
    """The frames in order; `offset` of a frame is its index here if the topic begins with it."""

    def __init__(self, generation: Generation = GENERATION, topic_id: str = "topic") -> None:
        self.generation = generation
        self.frames: list[bytes] = []
        self.position: Position = BEGINNING
        self.safe_lsn = Lsn(0x1000)
        self._topic_id = topic_id
        self._epoch = self._seq = 0
        self._epoch_offset = NO_OFFSET
        self._nonce = bytes(16)

    def epoch(
        self,
        number: int | None = None,
        *,
        refeed_from: Lsn | None = None,
        gap_to: Lsn | None = None,
        behind: Position | None = None,
    ) -> bytes:
        """`gap_to`: the log goes on there, and what a sink lacks before is nowhere. `behind`: the last one before a
        re-feed."""
        previous = PreviousEpoch(self._epoch, self._epoch_offset, self._seq, len(self.frames) - 1)
        self._epoch = self._epoch + 1 if number is None else number
        self._seq, self._epoch_offset = 0, NO_OFFSET
        self._nonce = self._epoch.to_bytes(16, "big")
        reached, start = self.position, gap_to or refeed_from
        mode = EpochMode.CONTINUE if start is None else EpochMode.RESNAPSHOT if gap_to else EpochMode.REFEED
        if start is not None:
            self.position = behind or before(start)
        if gap_to is not None:
            self.safe_lsn = gap_to
        gap = Gap(gap_to, len(self.frames), bytes(16).hex(), GapReason.SLOT_MISSING) if gap_to else None
        record = EpochRecord(
            mode=mode,
            start_lsn=start or self.safe_lsn,
            tail=reached,
            options=OPTIONS,
            previous=previous if self.frames else None,
            topic_id=self._topic_id,
            server_version=180004,
            software="kit",
            gap=gap,
        )
        frame = self._append(FrameKind.EPOCH, self.position, (), [record.encode()])
        self._epoch_offset = len(self.frames) - 1
        return frame

    def transaction(
        self,
        *rows: Message,
        relation: Relation = ORDERS,
        relations: Sequence[Relation] = (),
        commit_time: int = COMMIT_TIME,
        xid: int = 700,
    ) -> bytes:
        """Of one relation, or of all these."""
        commit_lsn = Lsn(self.safe_lsn + 0x10)
        end_lsn = Lsn(commit_lsn + 0x30)
        messages = [Begin(commit_lsn, commit_time, xid), *rows, Commit(commit_lsn, end_lsn, commit_time)]
        self.position, self.safe_lsn = Position(commit_lsn, len(rows)), end_lsn
        return self._wal(messages, commit_lsn, 0, changes=len(rows), relations=relations or (relation,))

    def split_transaction(self, head: Sequence[Message], tail: Sequence[Message]) -> None:
        """One transaction in two frames; the second one starts in its middle."""
        commit_lsn, end_lsn = Lsn(self.safe_lsn + 0x10), Lsn(self.safe_lsn + 0x40)
        begin = [Begin(commit_lsn, COMMIT_TIME, 700), *head]
        self.position = Position(commit_lsn, len(head) - 1)
        self._wal(begin, commit_lsn, 0, changes=len(head))
        opened = OpenTransaction(700, commit_lsn, COMMIT_TIME, len(head))
        self.position, self.safe_lsn = Position(commit_lsn, len(head) + len(tail)), end_lsn
        end = [*tail, Commit(commit_lsn, end_lsn, COMMIT_TIME)]
        self._wal(end, commit_lsn, len(head), changes=len(tail), opened=opened)

    def in_parts(self, change: Message, parts: int) -> None:
        """One transaction whose only change is a message in parts; BEGIN and COMMIT are frames around it."""
        commit_lsn, end_lsn = Lsn(self.safe_lsn + 0x10), Lsn(self.safe_lsn + 0x40)
        raw = [encode_message(message) for message in (Begin(commit_lsn, COMMIT_TIME, 700), change)]
        body = b"".join(BODY_ENTRY.pack(len(each), commit_lsn) + each for each in raw)
        schema = (SchemaEntry(SchemaRole.CURRENT, encode_message(ORDERS)),)
        size = -(-len(body) // parts)
        for part in range(1, parts + 1):
            if part == parts:
                self.position = Position(commit_lsn, 0)
            piece = body[(part - 1) * size : part * size]
            self._append(FrameKind.WAL, Position(commit_lsn, 0), schema, [piece], changes=1, part=part, parts=parts)
        self.position, self.safe_lsn = Position(commit_lsn, 1), end_lsn
        opened = OpenTransaction(700, commit_lsn, COMMIT_TIME, 1)
        self._wal([Commit(commit_lsn, end_lsn, COMMIT_TIME)], commit_lsn, 1, changes=0, opened=opened)

    def snapshot(
        self,
        *rows: Sequence[bytes | None],
        reading: int = 1,
        first_row: int = 0,
        low: Position | None = None,
        low_offset: int = NO_OFFSET,
        relation: Relation = ORDERS,
        is_last: bool = False,
    ) -> bytes:
        """Rows of a table; with `low` and `low_offset` they are compared with a window."""
        window = (low or BEGINNING, low_offset, is_last)
        head = SnapshotHead(bytes(16), relation.relation_id, reading, first_row, len(rows), COMMIT_TIME, *window)
        body = head.encode() + b"".join(map(copy_line, rows))
        schema = (SchemaEntry(SchemaRole.CURRENT, encode_message(relation)),)
        return self._append(FrameKind.SNAPSHOT, self.position, schema, [body], messages=len(rows))

    def snapshot_mark(self, kind: MarkKind, **more: object) -> bytes:
        details = {
            "schema": "public",
            "table": "orders",
            "relation_id": ORDERS.relation_id,
            "snapshot": bytes(16).hex(),
        }
        schema = (SchemaEntry(SchemaRole.CURRENT, encode_message(ORDERS)),)
        return self._append(FrameKind.MARK, self.position, schema, [Mark(kind, details | more).encode()])

    def schema_change(self, previous: Relation, current: Relation) -> bytes:
        """Stands before the first change of the next transaction."""
        details = {"schema": current.schema, "table": current.name, "relation_id": current.relation_id}
        roles = ((SchemaRole.PREVIOUS, previous), (SchemaRole.CURRENT, current))
        schema = [SchemaEntry(role, encode_message(relation)) for role, relation in roles]
        first = Position(Lsn(self.safe_lsn + 0x10), 0)
        return self._append(FrameKind.MARK, first, schema, [Mark(MarkKind.SCHEMA_CHANGE, details).encode()])

    def tick(self) -> bytes:
        return self._append(FrameKind.WAL, self.position, (), [], min_bytes=1536)

    def _wal(
        self,
        messages: Sequence[Message],
        commit_lsn: Lsn,
        ordinal: int,
        *,
        changes: int,
        relations: Sequence[Relation] = (ORDERS,),
        opened: OpenTransaction | None = None,
    ) -> bytes:
        body = [BODY_ENTRY.pack(len(raw), commit_lsn) + raw for raw in map(encode_message, messages)]
        schema = [SchemaEntry(SchemaRole.CURRENT, encode_message(relation)) for relation in relations]
        first = Position(commit_lsn, ordinal)
        return self._append(FrameKind.WAL, first, schema, body, changes=changes, messages=len(messages), opened=opened)

    def _append(
        self,
        kind: FrameKind,
        first: Position,
        schema: Sequence[SchemaEntry],
        body: Sequence[bytes],
        *,
        changes: int = 0,
        messages: int = 0,
        min_bytes: int = 0,
        opened: OpenTransaction | None = None,
        part: int = 0,
        parts: int = 0,
    ) -> bytes:
        header = FrameHeader(
            kind=kind,
            generation=self.generation,
            epoch=self._epoch,
            epoch_nonce=self._nonce,
            epoch_offset=self._epoch_offset,
            seq=self._seq,
            first=first,
            last=self.position,
            safe_lsn=self.safe_lsn,
            created=0,
            messages=messages,
            changes=changes,
            part=part,
            parts=parts,
            open_transaction=opened,
        )
        self._seq += 1
        frame = encode_frame(header, schema, body, min_bytes=min_bytes)
        self.frames.append(frame)
        return frame
