"""A target brought from one shape of its source's table to the next, in the transaction of what stands behind the mark.

| at the source            | in the target                                                                        |
| ------------------------ | ------------------------------------------------------------------------------------- |
| a column was renamed     | it is renamed; with both names there: moved over within a rewind, else the lane stops  |
| a column was added       | it is added, without a default                                                         |
| its type was changed     | the same type, by PostgreSQL's own cast, unless what is there holds the new type too   |
| the identity was changed | the primary key is made anew, where it was the former identity's                       |
| a column was removed     | it stays, and need not be given a value any more                                       |

Invariant: each step looks at what is there first, so the same mark again changes nothing, and neither does one for
which a person has prepared the target. A step that can't be taken stops the lane before the first row of the new shape.
"""
# ruff: noqa: S608 - only names are put into statements, quoted, and types as the server itself has written them.

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tidegate.contracts.frame import Frame
from tidegate.errors import StreamError
from tidegate.pgoutput.decode import decode_message
from tidegate.pgoutput.messages import Relation, ReplicaIdentity, Type
from tidegate.pgoutput.shape_changes import ShapeChange, ShapeChangeKind, shape_changes, shapes_of_mark
from tidegate.position import Position
from tidegate.quoting import identifier
from tidegate_processor.sinks.pg_table.statements import add_column
from tidegate_processor.sinks.shared.pg_connection import Connection
from tidegate_processor.sinks.shared.postgres import altered, run

_COLUMNS = """
    SELECT attname, format_type(atttypid, -1), attnotnull AND NOT atthasdef AND attidentity = '' AND attgenerated = ''
    FROM pg_attribute WHERE attrelid = to_regclass($1::text) AND attnum > 0 AND NOT attisdropped
"""
_PRIMARY_KEY = """
    SELECT c.conname, array_agg(a.attname::text) FROM pg_constraint c
    JOIN pg_attribute a ON a.attrelid = c.conrelid AND a.attnum = ANY (c.conkey)
    WHERE c.conrelid = to_regclass($1::text) AND c.contype = 'p' GROUP BY c.conname
"""
_HOLDS: Mapping[str, frozenset[str]] = {
    "integer": frozenset({"smallint"}),
    "bigint": frozenset({"smallint", "integer"}),
    "numeric": frozenset({"smallint", "integer", "bigint"}),
    "double precision": frozenset({"real"}),
    "text": frozenset({"character varying"}),
}
"""Types, and those of which they hold every value as it is."""


@dataclass(frozen=True, slots=True)
class _Column:
    type_: str
    wants_a_value: bool
    """An insert that does not name it is refused."""


@dataclass(frozen=True, slots=True)
class ShapeStep:
    """From one shape to the next, as a mark tells of it."""

    previous: Relation
    current: Relation
    types: Mapping[int, Type]
    is_repeated: bool
    """Within a rewind: the target had been through it."""

    @property
    def changes(self) -> Sequence[ShapeChange]:
        return shape_changes(self.previous, self.current)

    @property
    def renamed(self) -> dict[str, str]:
        """Former names to those of now."""
        kind = ShapeChangeKind.COLUMN_RENAMED
        return {each.was: each.column for each in self.changes if each.kind is kind and each.was and each.column}


def step_of(frame: Frame, rewound_from: Position | None) -> ShapeStep:
    previous, current = shapes_of_mark(frame)
    messages = [decode_message(entry.message) for entry in frame.schema]
    types = {message.type_oid: message for message in messages if isinstance(message, Type)}
    return ShapeStep(previous, current, types, rewound_from is not None and frame.header.first <= rewound_from)


class Evolution:
    def __init__(self, connection: Connection, table: str) -> None:
        """`table`: qualified and quoted."""
        self._connection, self._table = connection, table

    def follow(self, step: ShapeStep, before: Mapping[str, str], now: Mapping[str, str]) -> None:
        """`before` and `now`: the columns' types by their names, as the target's server calls them."""
        for was, name in step.renamed.items():
            self._rename(was, name, is_repeated=step.is_repeated)
        former = {step.renamed.get(name, name): type_ for name, type_ in before.items()}
        for name in _columns_of(step, ShapeChangeKind.COLUMN_ADDED):
            run(self._connection, add_column(self._table, name, now[name]))
        for name in _columns_of(step, ShapeChangeKind.TYPE_CHANGED):
            self._change_type(name, former[name], now[name])
        if any(each.kind is ShapeChangeKind.IDENTITY_CHANGED for each in step.changes):
            self._change_key(step)
        for name in _columns_of(step, ShapeChangeKind.COLUMN_REMOVED):
            self._leave(name)

    def _rename(self, was: str, now: str, *, is_repeated: bool) -> None:
        there = self._columns()
        if was not in there:
            return
        before, after = identifier(was), identifier(now)
        if now not in there:
            run(self._connection, f"ALTER TABLE {self._table} RENAME COLUMN {before} TO {after}")
            return
        if not is_repeated:
            raise _taken(self._table, was, now)
        # Rows of the former shape have come again, under the former name; of the others the later name has the values.
        self._leave(was)
        self._alter(
            f"UPDATE {self._table} SET {after} = {before}, {before} = NULL WHERE {before} IS NOT NULL", f"fill {now}"
        )

    def _change_type(self, name: str, former: str, wanted: str) -> None:
        column = self._columns().get(name)
        if column is None or column.type_ == wanted or wanted in _HOLDS.get(column.type_, ()):
            return
        if column.type_ != former and former not in _HOLDS.get(column.type_, ()):
            return  # a person has chosen it
        quoted = identifier(name)
        statement = f"ALTER TABLE {self._table} ALTER COLUMN {quoted} TYPE {wanted} USING {quoted}::{wanted}"
        self._alter(statement, f"make {name} of the type {wanted}")

    def _change_key(self, step: ShapeStep) -> None:
        wanted = set(key_of(step.current))
        former = {step.renamed.get(name, name) for name in key_of(step.previous)}
        name, columns = self._key()
        if not wanted or set(columns) == wanted or (columns and set(columns) != former):
            return
        drop = f"DROP CONSTRAINT {identifier(name)}, " if name else ""
        listed = ", ".join(map(identifier, key_of(step.current)))
        self._alter(f"ALTER TABLE {self._table} {drop}ADD PRIMARY KEY ({listed})", f"have the primary key {listed}")

    def _leave(self, name: str) -> None:
        column = self._columns().get(name)
        if column is not None and column.wants_a_value and name not in self._key()[1]:
            run(self._connection, f"ALTER TABLE {self._table} ALTER COLUMN {identifier(name)} DROP NOT NULL")

    def _alter(self, statement: str, what: str) -> None:
        """Of what looks at every row: as long as the table is large."""
        refusal = altered(self._connection, statement)
        if refusal is not None:
            raise StreamError(
                f"{self._table} can not {what}: SQLSTATE {refusal}",
                code="SINK_PG_NOT_ALTERED",
                remedy="Its rows do not fit what the source's table has become, or a view, a foreign key or a trigger "
                "depends on it. Alter the target by hand, then resume the lane: it goes on as the target is then.",
            )

    def _key(self) -> tuple[str, list[str]]:
        """The constraint's name and its columns."""
        found = run(self._connection, _PRIMARY_KEY, self._table)
        return found[0] if found else ("", [])

    def _columns(self) -> dict[str, _Column]:
        rows = run(self._connection, _COLUMNS, self._table)
        return {name: _Column(type_, wants_a_value) for name, type_, wants_a_value in rows}


def key_of(relation: Relation) -> list[str]:
    """What makes a primary key. The whole row makes none."""
    if relation.replica_identity is ReplicaIdentity.FULL:
        return []
    return [column.name for column in relation.columns if column.is_key]


def _columns_of(step: ShapeStep, kind: ShapeChangeKind) -> list[str]:
    return [each.column for each in step.changes if each.kind is kind and each.column]


def _taken(table: str, was: str, now: str) -> StreamError:
    return StreamError(
        f"the column {was} was renamed to {now} at the source, and {table} has both",
        code="SINK_PG_COLUMN_TAKEN",
        remedy="Drop or rename the one whose values are outdated, then resume the lane: the new name, where a column "
        "that was called so has been removed at the source before; the old one, where a snapshot has filled the new.",
    )
