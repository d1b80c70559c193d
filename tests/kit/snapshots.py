"""What a sink that upserts has after reading a raw topic: changes, and rows of snapshots that no change has overtaken.

Plain, slow and by the words of docs/decisions/0070: what services do is compared with it.
"""

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from tidegate.contracts.frame import Frame, FrameKind
from tidegate.contracts.mark import Mark, MarkKind, decode_mark
from tidegate.contracts.snapshot import SnapshotRows, decode_snapshot
from tidegate.pgoutput.changes import placed_changes
from tidegate.pgoutput.copy_text import copy_rows
from tidegate.pgoutput.decode import decode_message
from tidegate.pgoutput.messages import UNCHANGED, Delete, Insert, Relation, Truncate, Update
from tidegate.position import Position

Key = tuple[Any, ...]
Row = tuple[Any, ...]


@dataclass
class Change:
    offset: int
    position: Position
    relation_id: int
    key: Key | None
    """None: a truncate."""
    row: Row | None
    """None: it is gone."""


@dataclass
class Table:
    name: str
    rows: dict[Key, Row] = field(default_factory=dict)


@dataclass
class Replica:
    """Feed it the valid records of a raw topic, in order."""

    tables: dict[int, Table] = field(default_factory=dict)
    changes: list[Change] = field(default_factory=list)
    delivered: int = 0
    dropped: int = 0
    _parts: list[Frame] = field(default_factory=list)

    def feed(self, offset: int, frame: Frame) -> None:
        header = frame.header
        if header.kind not in (FrameKind.WAL, FrameKind.SNAPSHOT):
            return
        if header.part == 1:
            self._parts = []
        if header.parts:
            self._parts.append(frame)
            if header.part < header.parts:
                return
            frame = Frame(replace(header, part=0, parts=0), frame.schema, b"".join(p.body for p in self._parts))
        relations = dict(relations_of(frame))
        if header.kind is FrameKind.SNAPSHOT:
            self._snapshot(decode_snapshot(frame.body), relations)
        else:
            self._wal(offset, frame, relations)

    def named(self, name: str) -> dict[Key, Row]:
        return next((table.rows for table in self.tables.values() if table.name == name), {})

    def _wal(self, offset: int, frame: Frame, relations: dict[int, Relation]) -> None:
        for placed in placed_changes(frame):
            position, message = Position(placed.transaction.commit_lsn, placed.ordinal), placed.message
            match message:
                case Insert(relation_id, new):
                    self._change(offset, position, relations[relation_id], None, new)
                case Update(relation_id, _, old, new):
                    self._change(offset, position, relations[relation_id], old, new)
                case Delete(relation_id, _, old):
                    self._change(offset, position, relations[relation_id], old, None)
                case Truncate(relation_ids):
                    for relation_id in relation_ids:
                        self.tables.setdefault(relation_id, Table(relations[relation_id].name)).rows.clear()
                        self.changes.append(Change(offset, position, relation_id, None, None))

    def _change(self, offset: int, at: Position, relation: Relation, old: Row | None, new: Row | None) -> None:
        rows = self.tables.setdefault(relation.relation_id, Table(relation.name)).rows
        before, sent = key_of(relation, old) if old is not None else None, new
        if new is None or (before is not None and before != key_of(relation, new)):
            gone = rows.pop(before, None) if before is not None else None
            self.changes.append(Change(offset, at, relation.relation_id, before, None))
            new = self._filled(gone, new)
        if new is not None:
            key = key_of(relation, new)
            rows[key] = self._filled(rows.get(key), new) or ()
            self.changes.append(Change(offset, at, relation.relation_id, key, sent))

    def _since(self, offset: int) -> list[Change]:
        return self.changes[bisect_left(self.changes, offset, key=lambda change: change.offset) :]

    @staticmethod
    def _filled(before: Row | None, row: Row | None) -> Row | None:
        """What a change leaves unchanged is what was there before it."""
        if before is None or row is None:
            return row
        return tuple(o if v is UNCHANGED else v for v, o in zip(row, before, strict=True))

    def _snapshot(self, found: SnapshotRows, relations: dict[int, Relation]) -> None:
        head = found.head
        relation = relations[head.relation_id]
        rows = self.tables.setdefault(relation.relation_id, Table(relation.name)).rows
        window: dict[Key | None, Row | None] = {}
        for change in self._since(head.low_offset) if head.has_window else ():
            if change.relation_id == head.relation_id and change.position > head.low:
                window = {None: None} if change.key is None else window
                if change.key is not None:
                    window[change.key] = self._filled(window.get(change.key), change.row)
        for row in copy_rows(found.text, len(relation.columns)):
            key = key_of(relation, row)
            if key not in window and None not in window:
                self.delivered += 1
                rows[key] = row
                continue
            newest = window.get(key)
            self.dropped += 1
            if newest is not None and UNCHANGED in newest:
                rows[key] = self._filled(row, newest) or ()


def key_of(relation: Relation, row: Row) -> Key:
    flagged = [value for value, column in zip(row, relation.columns, strict=True) if column.is_key]
    return tuple(flagged) if flagged else row


def relations_of(frame: Frame) -> Iterator[tuple[int, Relation]]:
    for entry in frame.schema:
        message = decode_message(entry.message)
        if isinstance(message, Relation):
            yield message.relation_id, message


def snapshot_marks(frames: list[Frame]) -> list[Mark]:
    marks = [decode_mark(frame.body) for frame in frames if frame.header.kind is FrameKind.MARK]
    return [mark for mark in marks if mark.kind in (MarkKind.SNAPSHOT_STARTED, MarkKind.SNAPSHOT_COMPLETED)]


def replica_of(records: list[Any]) -> Replica:
    replica = Replica()
    for record in records:
        replica.feed(record.offset, record.frame)
    return replica
