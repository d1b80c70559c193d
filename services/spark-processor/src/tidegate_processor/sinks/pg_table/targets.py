"""Which table a relation's rows go to, with which columns and by which key: looked up, or made, once a version.

A relation without columns is one of which nothing but a TRUNCATE comes: its table is found by name, and never made or
altered for it. Invariant: two tables of the source never share a target, and rows are found by the target's primary key
only if every change of the source says what it was before.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tidegate.columns.plans import PLANS_KEPT, Shape
from tidegate.errors import StreamError
from tidegate.pgoutput.messages import Relation, Type
from tidegate.pgoutput.types import base_oid
from tidegate.quoting import identifier, qualified
from tidegate_processor.sinks.pg_table.config import PgTableOptions, expand
from tidegate_processor.sinks.pg_table.evolve import Evolution, ShapeStep, key_of
from tidegate_processor.sinks.pg_table.statements import Statements, add_column, create_table
from tidegate_processor.sinks.shared.pg_connection import Connection
from tidegate_processor.sinks.shared.postgres import make_schema, run

_LONGEST_NAME_BYTES = 63
# Types that every server has under this number (src/include/access/transam.h, FirstGenbkiObjectId).
_FIRST_OWN_OID = 10_000
_UNLIMITED = -1
_TEXT = "text"
_COLUMNS = """
    SELECT attname, attgenerated <> '' FROM pg_attribute
    WHERE attrelid = to_regclass($1::text) AND attnum > 0 AND NOT attisdropped
"""
_KEY = """
    SELECT a.attname FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey)
    WHERE i.indrelid = to_regclass($1::text) AND i.indisprimary AND i.indimmediate
"""
_TYPES = "SELECT o, format_type(o, $2::int4) FROM unnest($1::text::oid[]) o"
_UNKNOWN_TYPE = "???"


@dataclass(frozen=True, slots=True)
class Target:
    statements: Statements
    places: tuple[int, ...]
    """Of the written columns in the relation."""
    keys: tuple[int, ...]
    """Of the key columns in the relation."""


class Targets:
    """Not for two connections: staging tables live as long as theirs."""

    def __init__(self, connection: Connection, options: PgTableOptions, pipeline: str) -> None:
        self._connection, self._options, self._pipeline = connection, options, pipeline
        self._known: dict[Shape, Target] = {}
        self._claims: dict[tuple[str, str], tuple[str, str]] = {}
        self._made = 0

    def of(self, shape: Shape) -> Target:
        """Outside of any savepoint that may be rolled back: what is made here is taken for there from then on."""
        found = self._known.get(shape)
        if found is None:
            if len(self._known) >= PLANS_KEPT:
                self._forget()
            found = self._known[shape] = self._target(shape)
            run(self._connection, found.statements.create_stage)
        return found

    def has(self, relation: Relation) -> bool:
        return bool(self._columns(qualified(*self._names(relation))))

    def follow(self, step: ShapeStep) -> None:
        """In the transaction in which what is delivered in the new shape comes."""
        name = qualified(*self._names(step.current))
        Evolution(self._connection, name).follow(
            step, *(dict(self._types(relation, step.types)) for relation in (step.previous, step.current))
        )
        for shape in [shape for shape, target in self._known.items() if target.statements.table == name]:
            run(self._connection, self._known.pop(shape).statements.drop_stage)

    def lacks(self, relation: Relation) -> bool:
        """Whether there is nothing to truncate."""
        return not relation.columns and not self._columns(qualified(*self._names(relation)))

    def _forget(self) -> None:
        for target in self._known.values():
            run(self._connection, target.statements.drop_stage)
        self._known.clear()

    def _target(self, shape: Shape) -> Target:
        relation = shape.relation
        schema, table = self._names(relation)
        name = qualified(schema, table)
        if not relation.columns:
            return self._made_of(name, (), (), ())
        there: Mapping[str, bool] = self._columns(name)
        if not there and self._options.create:
            make_schema(self._connection, schema)
            run(self._connection, create_table(name, self._types(relation, shape.types), key_of(relation)))
            there = self._columns(name)
        if not there:
            raise _missing(f"the target table {schema}.{table}")
        there = self._completed(shape, name, there)
        key = [row[0] for row in run(self._connection, _KEY, name)]
        _check_key(relation, key)
        places = tuple(at for at, column in enumerate(relation.columns) if not there[column.name])
        names = [relation.columns[at].name for at in places]
        return self._made_of(name, names, tuple(names.index(each) for each in key), places)

    def _made_of(self, name: str, columns: Sequence[str], keys: tuple[int, ...], places: tuple[int, ...]) -> Target:
        self._made += 1
        statements = Statements(name, tuple(map(identifier, columns)), keys, f"tidegate_stage_{self._made}")
        return Target(statements, places, tuple(places[at] for at in keys))

    def _names(self, relation: Relation) -> tuple[str, str]:
        templates = self._options.target_schema, self._options.table
        schema, table = (expand(each, self._pipeline, relation.schema, relation.name) for each in templates)
        if max(len(schema.encode()), len(table.encode())) > _LONGEST_NAME_BYTES:
            raise StreamError(
                f"the target's name of {relation.schema}.{relation.name} is longer than {_LONGEST_NAME_BYTES} bytes",
                code="SINK_PG_NAME_TOO_LONG",
                remedy="Shorten the templates schema and table, or route the table elsewhere. PostgreSQL would cut it.",
            )
        source = relation.schema, relation.name
        if self._claims.setdefault((schema, table), source) != source:
            raise StreamError(
                f"{relation.schema}.{relation.name} and another table have the same target {schema}.{table}",
                code="SINK_PG_TARGET_SHARED",
                remedy="Give each table its own by {schema} and {table} in the templates, or route only one of them.",
            )
        return schema, table

    def _columns(self, name: str) -> dict[str, bool]:
        """And whether the target makes them itself."""
        return dict(run(self._connection, _COLUMNS, name))

    def _completed(self, shape: Shape, name: str, there: Mapping[str, bool]) -> Mapping[str, bool]:
        missing = [column.name for column in shape.relation.columns if column.name not in there]
        if not missing:
            return there
        if not self._options.create:
            raise _missing(f"the column {missing[0]} of the target table {name}")
        types = dict(self._types(shape.relation, shape.types))
        for column in missing:
            run(self._connection, add_column(name, column, types[column]))
        return self._columns(name)

    def _types(self, relation: Relation, types: Mapping[int, Type]) -> list[tuple[str, str]]:
        """Without the source's limits, which the source has judged already. What the target may not know is text."""
        oids = [base_oid(column.type_oid, types) for column in relation.columns]
        wanted = sorted({oid for oid in oids if oid < _FIRST_OWN_OID})
        listed = "{" + ",".join(map(str, wanted)) + "}"
        named = {int(oid): name for oid, name in run(self._connection, _TYPES, listed, _UNLIMITED)}
        names = [named.get(oid, _TEXT) for oid in oids]
        return [
            (column.name, _TEXT if name == _UNKNOWN_TYPE else name)
            for column, name in zip(relation.columns, names, strict=True)
        ]


def _check_key(relation: Relation, key: Sequence[str]) -> None:
    columns = {column.name for column in relation.columns}
    identity = set(key_of(relation))
    if not set(key) <= columns or (key and identity and set(key) != identity):
        raise StreamError(
            f"the target of {relation.schema}.{relation.name} has another primary key than the replica identity says",
            code="SINK_PG_KEY",
            remedy="Give the target table a primary key of the columns of the source's replica identity, or set "
            "REPLICA IDENTITY FULL at the source; then resume the lane.",
        )


def _missing(what: str) -> StreamError:
    return StreamError(
        f"{what} does not exist",
        code="SINK_PG_MISSING",
        remedy="Make it, or set the sink's option create: true; then resume the lane, which goes on at its cursor.",
    )
