"""Frames to frames: the same changes with other columns, so that whoever decodes them needs to know of no transform.

    rewriter = FrameRewriter(plan, takes)
    frame = rewriter.rewrite(frame, after)

What is not wanted, or lies at or below `after`, keeps its ordinal and is no event any more. Invariant: a body gives
another body or one DecodeError, the one that its decoder would give; a frame that nothing is to be done to is the
same object.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from tidegate.columns import layout
from tidegate.columns.blake2b import KEY_WORDS, WORDS, absorbed
from tidegate.columns.frames import Changes, scan_frame
from tidegate.columns.layout import Refusal
from tidegate.columns.plans import PLANS_KEPT, Section, Shape
from tidegate.columns.refusals import RejectedChange, decode_error, rejected
from tidegate.columns.rewrite_kernels import (
    COLUMN_FIELDS,
    HASH_LENGTH,
    IS_CHANGED,
    RELATION_FIELDS,
    TOKEN_LENGTH,
    VALUE_HEAD,
    rewrite,
)
from tidegate.columns.row_filters import Judged, RowFilter, RowFilters
from tidegate.columns.schema_sections import SchemaSections
from tidegate.columns.snapshots import Taken, Takes
from tidegate.columns.text import SLACK
from tidegate.contracts.frame import Frame, FrameKind
from tidegate.errors import RecordError
from tidegate.pgoutput.messages import Relation, Type
from tidegate.pgoutput.rewrite import HASH_BYTES, TOKEN_BYTES, Writer, Written, key_of, rewritten_relation
from tidegate.position import BEGINNING, Position
from tidegate.quoting import qualified

ColumnPlan: TypeAlias = Callable[[Relation, Mapping[int, Type], bool], Sequence[Written]]
"""What becomes of each column. False: of a shape that was before, of which no row will come; nothing is refused."""

_DIGEST_BYTES = {Writer.HASH: HASH_BYTES, Writer.TOKEN: TOKEN_BYTES}
_LENGTHS = {Writer.HASH: HASH_LENGTH, Writer.TOKEN: TOKEN_LENGTH}
_NO_COLUMNS = np.zeros((0, COLUMN_FIELDS), np.int64)
_TUPLES = 2


@dataclass(frozen=True, slots=True)
class _RelationPlan:
    """A row of the kernel's table but for where its columns begin, these columns, and how much a row can grow."""

    is_changed: bool
    columns: np.ndarray
    kept: int
    growth: int


@dataclass(frozen=True, slots=True)
class Rewritten:
    frame: Frame
    rejected: tuple[RejectedChange, ...] = ()
    """What no condition could decide about, as `as_received` has it. It is in the frame no more."""


class FrameRewriter:
    """For one lane; keeps the plans of the relations it has seen. Not for two threads at once."""

    def __init__(
        self,
        plan: ColumnPlan,
        takes: Takes,
        filters: Sequence[RowFilter] = (),
        *,
        requires_full: bool = False,
        marks_fit: bool = True,
    ) -> None:
        """`requires_full`: a change is refused if the server did not send all of its row. `marks_fit`: what can't be
        done to a shape is refused at the mark already that leads into it, not only at its first row."""
        self._plan, self._requires_full, self._marks_fit = plan, requires_full, marks_fit
        self._filters = RowFilters(filters) if filters else None
        self._needed = FrameRewriter(self._filters.needed, takes) if self._filters else None

        self._sections = Taken(takes)
        self._words = np.zeros(WORDS, np.uint64)
        self._pieces: dict[bytes, int] = {}
        self._keys: dict[tuple[bytes, Writer], int] = {}
        self._piece_bytes = np.zeros(SLACK, np.uint8)
        self._key_words = np.zeros((1, KEY_WORDS), np.uint64)
        self._planned: dict[Shape, _RelationPlan] = {}
        self._tables: dict[tuple[Shape, ...], tuple[np.ndarray, np.ndarray, np.ndarray]] = {}
        self._schemas = SchemaSections(lambda *relation: rewritten_relation(relation[0], plan(*relation)))

    def rewrite(self, frame: Frame, after: Position = BEGINNING) -> "Rewritten":
        """Of a `wal` frame that is whole or re-joined; a snapshot frame comes as `frame_of_rows` makes it. What a mark
        says is about the shapes in its schema section: those that the sink knows."""
        is_mark = frame.header.kind is FrameKind.MARK
        schema = self._schemas.of(frame.schema, is_strict=self._marks_fit or not is_mark)
        if is_mark:
            return Rewritten(replace(frame, schema=schema))
        section = self._sections.section(frame)
        relations, columns, growth = self._table(section)
        is_judged = self._filters is not None and any(self._filters.mean(each.relation) for each in section.shapes)
        if not is_judged and not relations[:, IS_CHANGED].any() and not self._requires_full:
            return Rewritten(frame if schema == frame.schema else replace(frame, schema=schema))
        changes = scan_frame(frame, after, section, section.topics)
        wanted = np.ones(len(changes.rows), np.bool_)
        refused: list[tuple[int, RecordError]] = []
        if is_judged and len(changes.rows):
            judged = self._judged(frame, after, changes)
            wanted &= ~judged.left_out
            refused += judged.refused
        if self._requires_full:
            refused += [
                (row, _incomplete(changes, row)) for row in np.flatnonzero(_holes(changes.rows) & wanted).tolist()
            ]
            wanted[[row for row, _ in refused]] = False
        if wanted.all() and not relations[:, IS_CHANGED].any():
            return Rewritten(replace(frame, schema=schema))
        body = self._body(changes, wanted, relations, columns, growth)
        letters = tuple(self.as_received(frame, rejected(changes, *each)) for each in refused)
        return Rewritten(replace(frame, schema=schema, body=body), letters)

    def _judged(self, frame: Frame, after: Position, changes: Changes) -> Judged:
        assert self._filters is not None
        assert self._needed is not None
        needed = self._needed.rewrite(frame, after).frame
        return self._filters.judge(needed, after, changes.section.topics, len(changes.rows))

    def as_received(self, frame: Frame, refused: RejectedChange) -> RejectedChange:
        """A change of `frame` that was refused after it was rewritten. Of a relation of which values are withheld,
        nothing is left but its names."""
        section = self._sections.section(frame)
        relation_id = refused.shape.relation.relation_id
        place = section.ids.tolist().index(relation_id)
        shape = section.shapes[place]
        if self._relation(shape).is_changed:
            return replace(refused, shape=replace(shape, source=()), raw=b"")
        return replace(refused, shape=shape)

    def _body(
        self, changes: Changes, wanted: np.ndarray, relations: np.ndarray, columns: np.ndarray, growth: np.ndarray
    ) -> bytes:
        room = len(changes.body) + SLACK
        if len(changes.rows):
            room += int(growth[changes.rows[:, layout.RELATION]].sum())
        out = np.empty(room, np.uint8)
        plan = relations, columns, self._piece_bytes, self._key_words, self._words
        used, row = rewrite(changes.body, changes.rows, wanted, plan, out)
        if used < 0:
            raise decode_error(changes, row, Refusal.ROW_WIDTH)
        return out[:used].tobytes()

    def _table(self, section: Section) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Relations, columns and growth, for a kernel."""
        found = self._tables.get(section.shapes)
        if found is None:
            if len(self._tables) >= PLANS_KEPT:
                self._tables.clear()
            plans = [self._relation(shape) for shape in section.shapes]
            rows, at = np.zeros((len(plans), RELATION_FIELDS), np.int64), 0
            for row, plan in zip(rows, plans, strict=True):
                row[:] = plan.is_changed, at, len(plan.columns), plan.kept
                at += len(plan.columns)
            columns = (
                np.concatenate([plan.columns for plan in plans]) if plans else np.zeros((0, COLUMN_FIELDS), np.int64)
            )
            growth = np.array([plan.growth for plan in plans], np.int64)
            found = self._tables[section.shapes] = rows, columns, growth
        return found

    def _relation(self, shape: Shape) -> _RelationPlan:
        found = self._planned.get(shape)
        if found is None:
            if len(self._planned) >= PLANS_KEPT:
                self._planned.clear()
                self._tables.clear()
            columns = self._plan(shape.relation, shape.types, True)
            found = self._planned[shape] = self._relation_plan(columns)
        return found

    def _relation_plan(self, columns: Sequence[Written]) -> _RelationPlan:
        rows = [self._column(each) for each in columns]
        masked = sum(
            VALUE_HEAD + _LENGTHS.get(each.writer, len(each.fixed)) for each in columns if each.writer > Writer.COPY
        )
        return _RelationPlan(
            is_changed=any(each.writer is not Writer.COPY for each in columns),
            columns=np.array(rows, np.int64).reshape(len(rows), COLUMN_FIELDS),
            kept=sum(not each.is_dropped for each in columns),
            growth=_TUPLES * masked,
        )

    def _column(self, column: Written) -> list[int]:
        fixed_at = self._piece(column.fixed) if column.writer is Writer.FIXED else 0
        key = self._key(column) if column.writer in _DIGEST_BYTES else 0
        return [int(column.writer), int(column.canon), fixed_at, len(column.fixed), key]

    def _piece(self, piece: bytes) -> int:
        at = self._pieces.get(piece)
        if at is None:
            at = self._pieces[piece] = len(self._piece_bytes) - SLACK
            used = self._piece_bytes[:at]
            self._piece_bytes = np.concatenate([used, np.frombuffer(piece + bytes(SLACK), np.uint8)])
        return at

    def _key(self, column: Written) -> int:
        salt = column.salt, column.writer
        at = self._keys.get(salt)
        if at is None:
            at = self._keys[salt] = len(self._keys)
            new = absorbed(key_of(column.salt), _DIGEST_BYTES[column.writer])
            self._key_words = np.concatenate([self._key_words[:at], new[None]])
        return at


def without(changes: Changes, wanted: np.ndarray) -> bytes:
    """The body without what is not wanted, or was not scanned."""
    relations = np.zeros((len(changes.section.shapes), RELATION_FIELDS), np.int64)
    nothing = np.zeros(SLACK, np.uint8), np.zeros((1, KEY_WORDS), np.uint64), np.zeros(WORDS, np.uint64)
    out = np.empty(len(changes.body) + SLACK, np.uint8)
    used, _ = rewrite(changes.body, changes.rows, wanted, (relations, _NO_COLUMNS, *nothing), out)
    return out[:used].tobytes()


def _holes(rows: np.ndarray) -> np.ndarray:
    """Updates whose new row has values that were not sent, and no whole old one that has them."""
    is_partial: np.ndarray = (
        (rows[:, layout.FLAGS] & layout.HAS_UNCHANGED != 0)
        & (rows[:, layout.OPERATION] == layout.UPDATE)
        & (rows[:, layout.OLD_KIND] != layout.WHOLE)
    )
    return is_partial


def _incomplete(changes: Changes, row: int) -> RecordError:
    relation = changes.section.shapes[changes.rows[row, layout.RELATION]].relation
    name = qualified(relation.schema, relation.name)
    return RecordError(
        f"the server did not send all of a row of {name}, and the sink requires that",
        code="TOAST_NOT_SENT",
        remedy=f"ALTER TABLE {name} REPLICA IDENTITY FULL; it holds for changes from then on. Or set toast: mark for "
        "this sink.",
    )
