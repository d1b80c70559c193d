"""What every verb on columns promises, and what they share: which tables and columns an option means.

A verb is pure: it is asked once a version of a relation what becomes of its columns, and never sees a row. What it
can't do to a relation is a ConfigError: the lane stands and says why, and nothing wrong is delivered.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from tidegate.config.tables import Name, TablePattern
from tidegate.config.transforms import Missing
from tidegate.errors import ConfigError
from tidegate.pgoutput.messages import Relation, ReplicaIdentity, Type
from tidegate.pgoutput.rewrite import Written

_ANY = "*"


@dataclass(frozen=True, slots=True)
class Source:
    """A version of a relation, as the source has it."""

    relation: Relation
    types: Mapping[int, Type]
    is_strict: bool = True
    """Rows of this shape may come, so what can't be done to it is refused."""


class ColumnVerb(Protocol):
    def columns(self, source: Source, columns: Sequence[Written]) -> Sequence[Written]:
        """As many as before, in the same order; `columns` are as the verbs before left them."""
        ...


def exactly(tables: Sequence[TablePattern], relation: Relation) -> bool | None:
    """Whether the relation is meant by its name; None: it is not meant at all. No pattern means every table."""
    return exactly_named(tables, relation.schema, relation.name)


def exactly_named(tables: Sequence[TablePattern], schema: str, table: str) -> bool | None:
    if not tables:
        return False
    meant = [pattern for pattern in tables if pattern.matches(schema, table)]
    return any(pattern.is_exact for pattern in meant) if meant else None


def chosen(columns: Sequence[Written], patterns: Sequence[str]) -> set[int]:
    """Places of the columns that are still there and that some pattern means."""
    names = [Name(pattern, literal=False) for pattern in patterns]
    return {
        place
        for place, each in enumerate(columns)
        if not each.is_dropped and any(name.matches(each.column.name) for name in names)
    }


def check_present(
    relation: Relation, columns: Sequence[Written], patterns: Sequence[str], missing: Missing, *, is_exact: bool
) -> None:
    """Who misspells the column of a mask must hear of it before a row goes out."""
    if missing is Missing.IGNORE or not is_exact:
        return
    for name in _absent(columns, patterns):
        raise ConfigError(
            f"{relation.schema}.{relation.name} has no column {name} that a transform names",
            code="TRANSFORM_COLUMN_MISSING",
            remedy="Mend the name. If the column was renamed or dropped, name both or set missing: ignore until the "
            "lane has passed the changes from before.",
        )


def _absent(columns: Sequence[Written], patterns: Sequence[str]) -> Iterator[str]:
    present = {each.column.name for each in columns if not each.is_dropped}
    return (pattern for pattern in patterns if _ANY not in pattern and pattern not in present)


def identifies(relation: Relation, column: Written) -> bool:
    """Whether rows are told apart by it. Under identity FULL no column is a key: the server sends all of them."""
    return column.column.is_key and relation.replica_identity is not ReplicaIdentity.FULL
