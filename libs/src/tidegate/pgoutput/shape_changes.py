"""What became of a relation's shape: the one before and the one now, told apart column by column.

pgoutput sends names and types, and no number that stays with a column. So a column that is gone where another of the
same type has appeared, between the same neighbours, was renamed; a last column that was dropped while another of its
type was added looks the same. Invariant: the same two shapes give the same list, in the order of `ShapeChangeKind`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from tidegate.contracts.frame import Frame, SchemaRole
from tidegate.errors import DecodeError
from tidegate.pgoutput.decode import decode_message
from tidegate.pgoutput.messages import Column, Relation


class ShapeChangeKind(StrEnum):
    TABLE_RENAMED = "table_renamed"
    COLUMN_RENAMED = "column_renamed"
    COLUMN_REMOVED = "column_removed"
    COLUMN_ADDED = "column_added"
    TYPE_CHANGED = "type_changed"
    IDENTITY_CHANGED = "identity_changed"


@dataclass(frozen=True, slots=True)
class ShapeChange:
    kind: ShapeChangeKind
    column: str | None = None
    """As it is called now, one that was removed as it was called."""
    was: str | None = None
    """The former name of what was renamed."""


def shapes_of_mark(frame: Frame) -> tuple[Relation, Relation]:
    """The one before a `schema_change` mark, and the one behind it."""
    found: dict[SchemaRole, Relation] = {}
    for entry in frame.schema:
        message = decode_message(entry.message)
        if isinstance(message, Relation):
            found[entry.role] = message
    if len(found) != len(SchemaRole):
        raise DecodeError("a mark of a schema change without its two shapes", code="MARK_MALFORMED")
    return found[SchemaRole.PREVIOUS], found[SchemaRole.CURRENT]


def shape_changes(previous: Relation, current: Relation) -> tuple[ShapeChange, ...]:
    found = list(_changes(previous, current))
    order = list(ShapeChangeKind)
    return tuple(sorted(found, key=lambda change: order.index(change.kind)))


def _changes(previous: Relation, current: Relation) -> Iterator[ShapeChange]:
    if (previous.schema, previous.name) != (current.schema, current.name):
        yield ShapeChange(ShapeChangeKind.TABLE_RENAMED, was=f"{previous.schema}.{previous.name}")
    renamed = _renamed(previous.columns, current.columns)
    before = {renamed.get(column.name, column.name): column for column in previous.columns}
    now = {column.name: column for column in current.columns}
    for was, name in renamed.items():
        yield ShapeChange(ShapeChangeKind.COLUMN_RENAMED, name, was)
    for name, column in before.items():
        if name not in now:
            yield ShapeChange(ShapeChangeKind.COLUMN_REMOVED, name)
        elif _type(column) != _type(now[name]):
            yield ShapeChange(ShapeChangeKind.TYPE_CHANGED, name)
    for name in now:
        if name not in before:
            yield ShapeChange(ShapeChangeKind.COLUMN_ADDED, name)
    keys = [{name for name, column in side.items() if column.is_key} for side in (before, now)]
    if keys[0] != keys[1] or previous.replica_identity != current.replica_identity:
        yield ShapeChange(ShapeChangeKind.IDENTITY_CHANGED)


def _renamed(before: tuple[Column, ...], now: tuple[Column, ...]) -> dict[str, str]:
    """Old names to new ones, in every gap between columns that are in both."""
    kept = {column.name for column in before} & {column.name for column in now}
    gaps_before, gaps_now = _gaps(before, kept), _gaps(now, kept)
    renamed: dict[str, str] = {}
    for left, were in gaps_before.items():
        are = gaps_now.get(left, [])
        if len(were) == len(are):
            pairs = zip(were, are, strict=True)
            renamed |= {old.name: new.name for old, new in pairs if _type(old) == _type(new)}
    return renamed


def _gaps(columns: tuple[Column, ...], kept: set[str]) -> dict[str, list[Column]]:
    """Columns that are not in both, by the nearest one on the left that is."""
    gaps: dict[str, list[Column]] = {}
    left = ""
    for column in columns:
        if column.name in kept:
            left = column.name
        else:
            gaps.setdefault(left, []).append(column)
    return gaps


def _type(column: Column) -> tuple[int, int]:
    return column.type_oid, column.typmod
