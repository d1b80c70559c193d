"""What a sink that upserts has after reading a raw topic: changes, and rows of snapshots that no change has overtaken.

Plain, slow and by the words of docs/decisions/0070: what services do is compared with it.
"""

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
        before = key_of(relation, old) if old is not None else None
        if new is None or (before is not None and before != key_of(relation, new)):
            gone = rows.pop(before, None) if before is not None else None
            self.changes.append(Change(offset, at, relation.relation_id, before, None))
            if new is not None and gone is not None:
                new = tuple(o if v is UNCHANGED else v for v, o in zip(new, gone, strict=True))
        if new is not None:
            key = key_of(relation, new)
            had = rows.get(key)
            if had is not None:
                new = tuple(o if v is UNCHANGED else v for v, o in zip(new, had, strict=True))
            rows[key] = new
            self.changes.append(Change(offset, at, relation.relation_id, key, new))

    def _snapshot(self, found: SnapshotRows, relations: dict[int, Relation]) -> None:
        head = found.head
        relation = relations[head.relation_id]
        rows = self.tables.setdefault(relation.relation_id, Table(relation.name)).rows
        window = [
            change
            for change in self.changes
            if head.has_window
            and change.relation_id == head.relation_id
            and change.offset >= head.low_offset
            and change.position > head.low
        ]
        for row in copy_rows(found.text, len(relation.columns)):
            key = key_of(relation, row)
            newest = next((change for change in reversed(window) if change.key in (None, key)), None)
            if newest is None:
                self.delivered += 1
                rows[key] = row
            elif newest.row is not None and UNCHANGED in newest.row:
                rows[key] = tuple(o if v is UNCHANGED else v for v, o in zip(newest.row, row, strict=True))
            else:
                self.dropped += 1


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
