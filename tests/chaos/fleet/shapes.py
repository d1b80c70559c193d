"""M30, M43: tables and transactions at the limits of what a source may look like, and changed after somebody died.

| shape | what is large |
| --- | --- |
| wide | a row, and its description: as many columns as PostgreSQL has room for |
| many | the number of descriptions, which who starts in the middle has to learn |
| parted | the number of tables behind one |
| large | transactions: half a million rows, a hundred thousand savepoints |

Invariant: a step is one transaction and tells how many rows it changes. Values are such that their text in PostgreSQL
is their text in JSON.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

COLUMNS = 1_600
WIDE_ROWS = 10_000
TABLES = 10_000
TOPICS = 1_000
PARTITIONS = 1_000
PARTED_ROWS = 10_000
LARGE_ROWS = 500_000
SAVEPOINTS = 100_000
_AT_ONCE = 250
"""Tables in one transaction: each takes locks, of which a server has some thousands."""


@dataclass(frozen=True, slots=True)
class Step:
    sql: str
    changes: int = 0


@dataclass(frozen=True)
class Shape:
    tables: Sequence[str]
    """By whose names they are published; the key of each is `id`, and the first takes the sentinel."""
    made: Sequence[str]
    written: Sequence[Step]
    changed: Sequence[Step]
    options: Mapping[str, object] = field(default_factory=dict)
    """Of the sink."""
    least_a_second: int = 100
    """Changes that come through, else it stands still."""

    @cached_property
    def names(self) -> frozenset[str]:
        return frozenset(self.tables)


def wide() -> Shape:
    """A row fits its page only if its values are short. Integers, texts, numerics, and nulls."""
    kinds = ("integer", "text", "numeric(3,1)", "integer")
    values = ("id + {0}", "'t' || (id * {0}) % 100", "(id % 10) / 2.0", "NULLIF((id + {0}) % 3, 0)")
    numbers = range(1, COLUMNS)
    columns = ", ".join(f"c{at} {kinds[at % 4]}" for at in numbers)
    row = ", ".join(values[at % 4].format(at) for at in numbers)
    rows = f"INSERT INTO wide SELECT id, {row} FROM generate_series({{}}, {{}}) AS id"
    most = WIDE_ROWS * 9 // 10
    return Shape(
        tables=("wide",),
        made=(f"CREATE TABLE wide (id integer PRIMARY KEY, {columns})",),
        written=(
            Step(rows.format(1, most), most),
            *(Step(rows.format(at, at + 9), 10) for at in range(most + 1, WIDE_ROWS, 10)),
        ),
        changed=(
            Step("UPDATE wide SET c1 = -id WHERE id <= 500", 500),
            Step("ALTER TABLE wide RENAME COLUMN c2 TO renamed"),
            Step("UPDATE wide SET id = -id, c1599 = NULL WHERE id BETWEEN 501 AND 600", 100),
            Step("DELETE FROM wide WHERE id BETWEEN 601 AND 700", 100),
        ),
    )


def many() -> Shape:
    """In one topic: ten thousand are for the brokers to bear."""
    return _many(TABLES, {"topic": "{pipeline}.{schema}.all"})


def many_topics() -> Shape:
    return _many(TOPICS, {})


def parted() -> Shape:
    """Published as one table; rows move between partitions."""
    width = PARTED_ROWS // PARTITIONS
    made = [
        f"CREATE TABLE parts{at} PARTITION OF parts FOR VALUES FROM ({at * width}) TO ({(at + 1) * width})"
        for at in range(PARTITIONS)
    ]
    whole = "CREATE TABLE parts (id integer PRIMARY KEY, note text, n integer) PARTITION BY RANGE (id)"
    others = "CREATE TABLE parts_others PARTITION OF parts DEFAULT"
    moved = PARTED_ROWS // 2
    return Shape(
        tables=("parts",),
        made=(whole, others, *(";".join(made[at : at + 100]) for at in range(0, PARTITIONS, 100))),
        written=[
            Step(
                f"INSERT INTO parts SELECT id, 'n' || id, 1 FROM generate_series({at}, {at + _AT_ONCE - 1}) AS id",
                _AT_ONCE,
            )
            for at in range(0, PARTED_ROWS, _AT_ONCE)
        ],
        changed=(
            Step("UPDATE parts SET n = n + 1", PARTED_ROWS),
            Step(f"UPDATE parts SET id = -id - 1 WHERE id < {moved}", 2 * moved),  # a DELETE here, an INSERT there
            Step(f"DELETE FROM parts WHERE id >= {moved + moved // 2}", PARTED_ROWS - moved - moved // 2),
        ),
    )


def large() -> Shape:
    """Every other savepoint is undone."""
    undone = (
        f"DO $$ BEGIN FOR at IN {LARGE_ROWS + 1}..{LARGE_ROWS + SAVEPOINTS} LOOP BEGIN"
        " INSERT INTO large VALUES (at, repeat('s', 100), 1);"
        " IF at % 2 = 0 THEN RAISE EXCEPTION 'undone'; END IF;"
        " EXCEPTION WHEN raise_exception THEN NULL; END; END LOOP; END $$"
    )
    rows = f"INSERT INTO large SELECT id, repeat('r', 100), 1 FROM generate_series(1, {LARGE_ROWS}) AS id"
    return Shape(
        tables=("large",),
        made=("CREATE TABLE large (id integer PRIMARY KEY, note text, n integer)",),
        written=(Step(rows, LARGE_ROWS), Step(undone, SAVEPOINTS // 2)),
        changed=(Step(f"UPDATE large SET n = n + 1 WHERE id <= {LARGE_ROWS}", LARGE_ROWS),),
        least_a_second=2_000,
    )


def _many(count: int, options: Mapping[str, object]) -> Shape:
    names = [f"many{at}" for at in range(count)]
    parts = [names[at : at + _AT_ONCE] for at in range(0, count, _AT_ONCE)]
    return Shape(
        tables=names,
        made=[_each(part, "CREATE TABLE {0} (id integer PRIMARY KEY, note text, n integer)") for part in parts],
        written=[Step(_each(part, "INSERT INTO {0} VALUES (1, '{0}', 1)"), len(part)) for part in parts],
        changed=[Step(_each(part, "UPDATE {0} SET n = n + 1"), len(part)) for part in reversed(parts)],
        options=options,
    )


def _each(tables: Sequence[str], statement: str) -> str:
    """One transaction, for a server makes one of what comes in one message."""
    return ";".join(statement.format(table) for table in tables)
