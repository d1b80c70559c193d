"""The default encoding: one change to an event of JSON bytes, by a plan made once per relation version.

Invariant: the same change gives the same bytes on every replay, and an event is whole or a RecordError. What does not
differ from row to row is escaped and joined when the plan is made, so a row costs one conversion a column and two
formattings of bytes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeAlias

import orjson

from tidegate.errors import DecodeError, RecordError
from tidegate.events import Operation
from tidegate.lsn import Lsn
from tidegate.pgoutput.messages import (
    UNCHANGED,
    Binary,
    Column,
    Delete,
    Insert,
    OldKind,
    Relation,
    Row,
    Truncate,
    Type,
    Update,
    Value,
)
from tidegate.pgoutput.relations import schema_version
from tidegate.pgoutput.types import base_oid
from tidegate_processor.encodings.envelope import EncodedEvent, Envelope, EventContext, literal
from tidegate_processor.encodings.values import Convert, column_key, column_value

RowChange: TypeAlias = Insert | Update | Delete | Truncate
_KeyAndPayload: TypeAlias = tuple[bytes | None, bytes]

_OPERATIONS = (Operation.INSERT, Operation.UPDATE, Operation.DELETE, Operation.TRUNCATE, Operation.SNAPSHOT)
_TEXT_OR_NULL = frozenset((bytes, type(None)))


class _Field(NamedTuple):
    """A column: where it stands in the row, its name as a JSON string, how its values are written."""

    at: int
    name: bytes
    convert: Convert


class JsonPlan:
    """How rows of one relation version become events. `types` are those that its columns name, by OID."""

    def __init__(self, relation: Relation, types: Mapping[int, Type], context: EventContext) -> None:
        self.relation = relation
        self.version = schema_version(relation, types)
        self.table = (relation.schema, relation.name)
        self._name = f"{relation.schema}.{relation.name}"
        plain = (replace(column, type_oid=base_oid(column.type_oid, types)) for column in relation.columns)
        columns = tuple(enumerate(plain))
        self._columns = tuple(_field(at, column, column_value(column)) for at, column in columns)
        self._identity = tuple(self._columns[at] for at, column in columns if column.is_key)
        self._key_columns = tuple(_field(at, column, column_key(column)) for at, column in columns if column.is_key)
        self._converts = tuple(field.convert for field in self._columns)
        self._row_template = _template(self._columns)
        self._key_template = _template(self._key_columns)
        self._envelope = Envelope(context, channel=self._name, table=self.table, operations=_OPERATIONS)

    def encode(
        self,
        change: RowChange,
        *,
        xid: int,
        commit_lsn: Lsn,
        commit_time: int,
        ordinal: int,
        lsn: Lsn,
        of_snapshot: bool = False,
    ) -> EncodedEvent:
        """`xid` is the top-level transaction's; `lsn` the change's own. RecordError if this can never be an event."""
        sub = 0
        try:
            if isinstance(change, Insert):
                operation, (key, payload) = Operation.INSERT, self._insert(change)
            elif isinstance(change, Update):
                operation, (key, payload) = Operation.UPDATE, self._update(change)
            elif isinstance(change, Delete):
                operation, (key, payload) = Operation.DELETE, self._delete(change)
            else:
                operation, key, payload = Operation.TRUNCATE, None, _truncated(change)
                # One TRUNCATE is an event a table, all at one position: the id takes in which of them this is.
                sub = change.relation_ids.index(self.relation.relation_id)
        except UnicodeDecodeError:
            # No `from`: the cause carries the value.
            raise RecordError(
                f"a value in {self._name} that is not UTF-8",
                code="VALUE_NOT_UTF8",
                remedy="The database is SQL_ASCII, or holds text that is not of its encoding: mend it at the source.",
            ) from None
        transaction = (commit_lsn, xid, commit_time)
        if of_snapshot:
            return self._envelope.snapshot_event(key, payload, transaction, ordinal, lsn)
        return self._envelope.event(operation, key, payload, transaction, ordinal, lsn, sub)

    def _insert(self, change: Insert) -> _KeyAndPayload:
        row = change.new
        if self._check(row):
            raise DecodeError("a new row with values that were not sent", code="DECODE_INSERT_UNCHANGED")
        return self._key(row), b'"row":%b,"old":null,"unchanged":[]' % self._complete_row(row)

    def _update(self, change: Update) -> _KeyAndPayload:
        new, old, holes = change.new, b"null", self._check(change.new)
        if change.old is not None:
            old = self._old(change.old_kind, change.old)
            new = _filled(new, change.old, self._sent(change.old_kind)) if holes else new
        if not holes:
            return self._key(new), b'"row":%b,"old":%b,"unchanged":[]' % (self._complete_row(new), old)
        unchanged = b",".join(field.name for field in self._columns if new[field.at] is UNCHANGED)
        row = _object(self._columns, new)
        return self._key(new), b'"row":%b,"old":%b,"unchanged":[%b]' % (row, old, unchanged)

    def _delete(self, change: Delete) -> _KeyAndPayload:
        old = self._old(change.old_kind, change.old)
        return self._key(change.old), b'"row":null,"old":%b,"unchanged":[]' % old

    def _sent(self, old_kind: OldKind | None) -> Sequence[_Field]:
        """The columns that an old row of this kind is about; the others are NULL in it and mean nothing."""
        return self._columns if old_kind is OldKind.FULL else self._identity

    def _old(self, old_kind: OldKind | None, old: Row) -> bytes:
        self._check(old)
        return _object(self._sent(old_kind), old)

    def _complete_row(self, row: Row) -> bytes:
        # `_check` has seen that these are text and NULL only; a cast would cost as much as a column.
        return self._row_template % tuple(
            [b"null" if value is None else convert(value) for convert, value in zip(self._converts, row, strict=True)]  # type: ignore[arg-type]
        )

    def _key(self, row: Row) -> bytes | None:
        if not self._key_columns:
            return None
        key = []
        for at, _, convert in self._key_columns:
            value = row[at]
            if value is UNCHANGED:
                raise RecordError(
                    f"a key column of {self._name} was not sent",
                    code="KEY_NOT_SENT",
                    remedy="Update the server: recent minor releases send a TOASTed key with the old row.",
                )
            key.append(b"null" if value is None else convert(value))  # type: ignore[arg-type]
        return self._key_template % tuple(key)

    def _check(self, row: Row) -> bool:
        """Whether some value is UNCHANGED; a row that is not this relation's, or not text, goes no further."""
        if len(row) != len(self._columns):
            raise DecodeError(
                f"a row of {len(row)} columns in a relation of {len(self._columns)}", code="DECODE_ROW_WIDTH"
            )
        kinds = set(map(type, row))
        if kinds <= _TEXT_OR_NULL:
            return False
        if Binary in kinds:
            raise RecordError(
                f"a value in {self._name} in binary form",
                code="VALUE_BINARY",
                remedy="Set the reader's stream option binary to false and re-feed.",
            )
        return True


def _field(at: int, column: Column, convert: Convert) -> _Field:
    return _Field(at, orjson.dumps(column.name), convert)


def _template(fields: Sequence[_Field]) -> bytes:
    return b"{" + b",".join(literal(field.name) + b":%b" for field in fields) + b"}"


def _object(fields: Sequence[_Field], row: Row) -> bytes:
    """A JSON object of those fields that were sent."""
    members = []
    for at, name, convert in fields:
        value = row[at]
        if value is not UNCHANGED:
            members.append(name + b":" + (b"null" if value is None else convert(value)))  # type: ignore[arg-type]
    return b"{%b}" % b",".join(members)


def _truncated(change: Truncate) -> bytes:
    options = orjson.dumps({"cascade": change.cascade, "restart_identity": change.restart_identity})
    return b'"row":null,"old":null,"unchanged":[],"options":%b' % options


def _filled(new: Row, old: Row, sent: Sequence[_Field]) -> Row:
    """An unchanged value is the old one, where the server sent the old one."""
    row: list[Value] = list(new)
    for at, _, _ in sent:
        if row[at] is UNCHANGED:
            row[at] = old[at]
    return tuple(row)
