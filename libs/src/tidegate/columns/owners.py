"""A frame's changes by the writer they are of, and the frame with some writers' changes alone.

    owned = owners.of(frame, after)
    if owned.is_for_all: …      # something that no key decides about
    frame = owners.only(frame, owned, owned.of(2))

What is left out keeps its ordinal and is no event any more, as where transforms leave it out (`rewrites.py`).
Invariant: each change is of exactly one writer, whatever frame it stands in.
"""

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from tidegate.columns import layout
from tidegate.columns.blake2b import KEY_WORDS, WORDS
from tidegate.columns.envelopes import EventSource, default_envelope
from tidegate.columns.frames import Changes, scan_frame
from tidegate.columns.owner_kernels import find_owners
from tidegate.columns.plans import Plans, Section, Shape
from tidegate.columns.rewrite_kernels import COLUMN_FIELDS, RELATION_FIELDS, rewrite
from tidegate.columns.text import SLACK
from tidegate.contracts.frame import Frame
from tidegate.ownership import table_seed
from tidegate.pgoutput.messages import ReplicaIdentity
from tidegate.position import Position

_SECTIONS_KEPT = 256
_COPIES_OF_A_KEY: Final = 6
"""What a byte of a value can grow to."""
_NO_PLAN: Final = (
    np.zeros((0, COLUMN_FIELDS), np.int64),
    np.zeros(SLACK, np.uint8),
    np.zeros((1, KEY_WORDS), np.uint64),
    np.zeros(WORDS, np.uint64),
)


@dataclass(frozen=True, slots=True)
class Owned:
    """Changes above a position, in the order of `owners`."""

    changes: Changes
    owners: np.ndarray
    is_for_all: bool
    """Something among them has no one key: a truncate, or an update that gives a row another key."""

    def of(self, writer: int) -> np.ndarray:
        mine: np.ndarray = self.owners == writer
        return mine

    def above(self, positions: list[Position]) -> np.ndarray:
        """Those above the position of the writer they are of; the positions of all of them."""
        rows, transactions = self.changes.rows, self.changes.transactions
        lsns = transactions[rows[:, layout.TRANSACTION], layout.COMMIT_LSN].astype(np.uint64)
        ordinals = rows[:, layout.ORDINAL].astype(np.uint64)
        bounds = np.array([[each.commit_lsn, each.ordinal] for each in positions], np.uint64)[self.owners]
        is_above: np.ndarray = (lsns > bounds[:, 0]) | ((lsns == bounds[:, 0]) & (ordinals > bounds[:, 1]))
        return is_above


@dataclass(frozen=True, slots=True)
class _Tables:
    seeds: np.ndarray
    has_keys: np.ndarray
    room: int
    """More than any key can take, but for what the values grow to."""


class FrameOwners:
    """For one lane of several writers. Not for two threads at once."""

    def __init__(self, writers: int) -> None:
        self._writers = writers
        self._plans = Plans(EventSource("", "", 0), lambda *_: "", default_envelope)
        self._tables: dict[tuple[Shape, ...], _Tables] = {}

    def of(self, frame: Frame, after: Position) -> Owned:
        """Of a `wal` frame that is whole or re-joined, or of rows as `frame_of_rows` makes them."""
        section = self._plans.section(frame)
        changes = scan_frame(frame, after, section, section.topics)
        owners = np.zeros(len(changes.rows), np.int64)
        if not len(changes.rows):
            return Owned(changes, owners, is_for_all=False)
        tables = self._of_section(section)
        key = np.empty(tables.room + _COPIES_OF_A_KEY * changes.longest + 2 * SLACK, np.uint8)
        scratch = np.empty(changes.longest + SLACK, np.uint8)
        known = section.tables, tables.seeds, tables.has_keys
        find_owners(changes.body, changes.rows, *known, key, scratch, self._writers, owners)
        return Owned(changes, owners, _is_for_all(changes.rows, tables))

    def only(self, frame: Frame, owned: Owned, wanted: np.ndarray) -> Frame:
        """With the changes that are wanted alone. Truncates and messages stay: nobody delivers one that is not his."""
        if wanted.all():
            return frame
        out = np.empty(len(owned.changes.body) + SLACK, np.uint8)
        unchanged = np.zeros((len(owned.changes.section.ids), RELATION_FIELDS), np.int64)
        used, _ = rewrite(owned.changes.body, owned.changes.rows, wanted, (unchanged, *_NO_PLAN), out)
        return replace(frame, body=out[:used].tobytes())

    def shapes(self, owned: Owned) -> tuple[Shape, ...]:
        return owned.changes.section.shapes

    def _of_section(self, section: Section) -> _Tables:
        found = self._tables.get(section.shapes)
        if found is None:
            if len(self._tables) >= _SECTIONS_KEPT:
                self._tables.clear()
            relations = [shape.relation for shape in section.shapes]
            seeds = [table_seed(each.schema, each.name) for each in relations]
            found = self._tables[section.shapes] = _Tables(
                np.array(seeds, np.uint64).view(np.int64),
                np.array([_goes_by_key(shape) for shape in section.shapes], np.bool_),
                int(section.relations[:, layout.BOUND].max(initial=0)),
            )
        return found


def _goes_by_key(shape: Shape) -> bool:
    """Under FULL the server calls every column one of the key, and each update gives a row another one."""
    relation = shape.relation
    return relation.replica_identity is not ReplicaIdentity.FULL and any(each.is_key for each in relation.columns)


def _is_for_all(rows: np.ndarray, tables: _Tables) -> bool:
    operations = rows[:, layout.OPERATION]
    if (operations == layout.TRUNCATE).any():
        return True
    has_old = (operations == layout.UPDATE) & (rows[:, layout.OLD_KIND] != 0)
    return bool(has_old.any() and tables.has_keys[rows[has_old, layout.RELATION]].any())
