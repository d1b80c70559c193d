"""Two shapes of a relation: what was added, removed, renamed, given another type or another identity."""

from dataclasses import replace

import pytest

from tidegate.pgoutput.messages import Column, Relation, ReplicaIdentity
from tidegate.pgoutput.shape_changes import ShapeChange, ShapeChangeKind, shape_changes

INT4, INT8, TEXT = 23, 20, 25
ID, A, B, C = Column(1, "id", INT4, -1), Column(0, "a", TEXT, -1), Column(0, "b", TEXT, -1), Column(0, "c", INT4, -1)
BEFORE = Relation(7, "public", "orders", ReplicaIdentity.DEFAULT, (ID, A, B, C))
Kind = ShapeChangeKind


def column(name: str, type_oid: int = TEXT, flags: int = 0, typmod: int = -1) -> Column:
    return Column(flags, name, type_oid, typmod)


@pytest.mark.parametrize(
    ("now", "changes"),
    [
        ((ID, A, B, C), []),
        ((ID, A, B, C, column("d")), [ShapeChange(Kind.COLUMN_ADDED, "d")]),
        ((ID, A, C), [ShapeChange(Kind.COLUMN_REMOVED, "b")]),
        ((ID, A, column("beta"), C), [ShapeChange(Kind.COLUMN_RENAMED, "beta", "b")]),
        ((ID, column("alpha"), column("beta"), C), [
            ShapeChange(Kind.COLUMN_RENAMED, "alpha", "a"), ShapeChange(Kind.COLUMN_RENAMED, "beta", "b"),
        ]),
        ((ID, A, column("beta", INT8), C), [
            ShapeChange(Kind.COLUMN_REMOVED, "b"), ShapeChange(Kind.COLUMN_ADDED, "beta"),
        ]),
        ((ID, A, C, column("beta")), [ShapeChange(Kind.COLUMN_REMOVED, "b"), ShapeChange(Kind.COLUMN_ADDED, "beta")]),
        ((ID, A, B, column("c", INT8)), [ShapeChange(Kind.TYPE_CHANGED, "c")]),
        ((ID, A, column("b", TEXT, 0, 14), C), [ShapeChange(Kind.TYPE_CHANGED, "b")]),
        ((ID, replace(A, flags=1), B, C), [ShapeChange(Kind.IDENTITY_CHANGED)]),
        ((replace(ID, name="key"), A, B, C), [ShapeChange(Kind.COLUMN_RENAMED, "key", "id")]),
        ((A, B, C), [ShapeChange(Kind.COLUMN_REMOVED, "id"), ShapeChange(Kind.IDENTITY_CHANGED)]),
    ],
)  # fmt: skip
def test_columns(now: tuple[Column, ...], changes: list[ShapeChange]) -> None:
    assert changes == list(shape_changes(BEFORE, replace(BEFORE, columns=now)))


def test_a_table_that_is_called_otherwise() -> None:
    now = replace(BEFORE, namespace="archive", name="orders_2026")
    assert list(shape_changes(BEFORE, now)) == [ShapeChange(Kind.TABLE_RENAMED, was="public.orders")]


def test_the_whole_row_as_identity() -> None:
    columns = tuple(replace(each, flags=1) for each in BEFORE.columns)
    now = replace(BEFORE, replica_identity=ReplicaIdentity.FULL, columns=columns)
    assert list(shape_changes(BEFORE, now)) == [ShapeChange(Kind.IDENTITY_CHANGED)]
