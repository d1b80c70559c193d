"""Which rows a change is about, so that one can tell whether a later change is about one of them too.

Invariant: where that can't be told (a truncate, a key that was not sent, a key of other columns), all rows of the table
are meant. So a later change is rather seen where there is none than missed.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from tidegate.contracts.dead_letter import DeadLetter
from tidegate.errors import DecodeError
from tidegate.pgoutput.changes import RowMessage
from tidegate.pgoutput.decode import decode_message
from tidegate.pgoutput.messages import UNCHANGED, Delete, Insert, LogicalMessage, Relation, Row, Truncate, Update, Value
from tidegate_processor.decode import Change

Key: TypeAlias = tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Touched:
    table: str
    """`schema.name`."""
    columns: tuple[str, ...] = ()
    """Of the key. A row without one is like no other."""
    keys: frozenset[Key] | None = None
    """None: all rows."""


def touched_by_change(change: Change) -> Iterator[Touched]:
    relations = {shape.relation.relation_id: shape.relation for shape in change.shapes}
    return touched_by(change.message, relations)


def touched_by_letter(letter: DeadLetter) -> Touched | None:
    """None: it does not hold what is needed to deliver it alone."""
    if letter.xid is None or letter.commit_time is None or letter.lsn is None or not letter.payload:
        return None
    try:
        message = decode_message(letter.payload)
        described = [decode_message(raw) for raw in letter.schema]
    except DecodeError:
        return None
    relations = {each.relation_id: each for each in described if isinstance(each, Relation)}
    if not isinstance(message, Insert | Update | Delete | Truncate):
        return None
    ids = message.relation_ids if isinstance(message, Truncate) else (message.relation_id,)
    if len(ids) != 1 or ids[0] not in relations:
        return None
    return next(touched_by(message, relations))


def touched_by(message: RowMessage, relations: Mapping[int, Relation]) -> Iterator[Touched]:
    if isinstance(message, LogicalMessage):
        return
    if isinstance(message, Truncate):
        for relation_id in message.relation_ids:
            yield Touched(table_of(relations[relation_id]))
        return
    relation = relations[message.relation_id]
    at = [index for index, column in enumerate(relation.columns) if column.is_key]
    columns = tuple(relation.columns[index].name for index in at)
    if not at:
        yield Touched(table_of(relation), (), frozenset())
        return
    keys = [_key(row, old, at) for row, old in _rows(message)]
    known = frozenset(key for key in keys if key is not None)
    yield Touched(table_of(relation), columns, known if len(known) == len(set(keys)) else None)


def table_of(relation: Relation) -> str:
    return f"{relation.schema}.{relation.name}"


def _rows(message: Insert | Update | Delete) -> Iterator[tuple[Row, Row | None]]:
    """Before and after, each with what a value that was not sent is found in."""
    old = None if isinstance(message, Insert) else message.old
    if old is not None:
        yield old, None
    if not isinstance(message, Delete):
        yield message.new, old


def _key(row: Row, old: Row | None, at: list[int]) -> Key | None:
    values = [old[index] if row[index] is UNCHANGED and old is not None else row[index] for index in at]
    return None if UNCHANGED in values else tuple(values)
