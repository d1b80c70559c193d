"""Changes of a frame applied to their targets inside the open transaction: in bulk, or one by one.

In bulk each table is brought from the state before the frame to the one behind it. One by one all changes of all tables
come in commit order, so what the source's own constraints allowed the target's allow too.

Invariant: a change is applied, or is rejected with its reason; an update that can't be completed is rejected, because
neither the log nor the target knows the values that were not sent.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Self, TypeAlias

import numpy as np
import pyarrow as pa

from tidegate.columns.batches import ChangeBatch
from tidegate.columns.refusals import RejectedChange
from tidegate.errors import RecordError, StreamError
from tidegate_processor.sinks.pg_table.encode import staged
from tidegate_processor.sinks.pg_table.fold import DELETE, TRUNCATE, UPDATE, Columns, columns_of, runs
from tidegate_processor.sinks.pg_table.statements import FIRST_PATTERN
from tidegate_processor.sinks.pg_table.targets import Target
from tidegate_processor.sinks.shared.change_batches import Taken
from tidegate_processor.sinks.shared.pg_connection import Connection
from tidegate_processor.sinks.shared.postgres import (
    RefusedValueError,
    affected,
    copy_in,
    run,
    savepoint,
    truncate,
)

_COMMIT_LSN, _ORDINAL, _COMMIT_TIME = 2, 3, 6


@dataclass(frozen=True, slots=True)
class Table:
    taken: Taken
    target: Target
    columns: Columns

    @classmethod
    def of(cls, taken: Taken, target: Target) -> Self:
        columns = columns_of(taken.batch, target.keys)
        if not target.keys and np.isin(columns.ops[taken.rows], (UPDATE, DELETE)).any():
            raise _without_key(target)
        return cls(taken, target, columns)

    @property
    def newest_commit_time(self) -> int:
        return int(self.taken.batch.rows.column(_COMMIT_TIME)[int(self.taken.rows[-1])].as_py())

    @property
    def places(self) -> Iterator[tuple[int, int, int]]:
        """Where each of its rows stands in the stream, and the row."""
        rows = self.taken.batch.rows
        lsns, ordinals = (rows.column(at).to_numpy()[self.taken.rows].tolist() for at in (_COMMIT_LSN, _ORDINAL))
        return zip(lsns, ordinals, self.taken.rows.tolist(), strict=True)


Change: TypeAlias = tuple[Table, int, ChangeBatch]
"""Of a table, the row of the batch."""


def apply_in_bulk(connection: Connection, tables: Sequence[Table], rejected: list[RejectedChange]) -> int:
    """How many bytes were staged."""
    written = 0
    for table in tables:
        for rows in runs(table.columns, table.taken.rows):
            if table.columns.ops[rows[0]] == TRUNCATE:
                truncate(connection, [table.target.statements.table])
            elif table.columns.moved_with_holes[rows[0]]:
                written += _apply_one(connection, table, int(rows[0]), rejected)
            else:
                written += _apply_run(connection, table, rows, rejected)
    return written


def apply_one_by_one(connection: Connection, tables: Sequence[Table], rejected: list[RejectedChange]) -> int:
    """Each takes the server's answer some times over: minutes, where a frame is large or the server far away."""
    written = 0
    for changes in _in_order(tables):
        try:
            with savepoint(connection, "write"):
                written += _apply(connection, changes, rejected)
        except RefusedValueError as error:
            rejected += [each.refused(row, _refused(table.target, error.sqlstate)) for table, row, each in changes]
        except RecordError as error:
            rejected += [each.refused(row, error) for _, row, each in changes]
    return written


def _in_order(tables: Sequence[Table]) -> Iterator[list[Change]]:
    """One at a time, but what one TRUNCATE emptied together: tables may refer to each other."""
    places = sorted((lsn, ordinal, at, row) for at, each in enumerate(tables) for lsn, ordinal, row in each.places)
    together: list[Change] = []
    for (lsn, ordinal, at, row), following in zip_longest(places, places[1:]):
        table = tables[at]
        together.append((table, row, table.taken.batch))
        is_truncate = table.columns.ops[row] == TRUNCATE
        if not (is_truncate and following is not None and following[:2] == (lsn, ordinal)):
            yield together
            together = []


def _apply_run(connection: Connection, table: Table, rows: np.ndarray, rejected: list[RejectedChange]) -> int:
    statements = table.target.statements
    work = staged(table.columns, rows, table.target)
    copy_in(connection, statements.copy, work.text)
    if work.deletes:
        run(connection, statements.delete)
    if work.writes:
        run(connection, statements.upsert)
    found = {
        number
        for kind, sent in enumerate(work.patterns, FIRST_PATTERN)
        for (number,) in run(connection, statements.update(kind, sent))
    }
    rejected += [
        table.taken.batch.refused(row, _incomplete(table.target))
        for number, row in work.incomplete.items()
        if number not in found
    ]
    run(connection, statements.empty_stage)
    return len(work.text)


def _apply(connection: Connection, changes: Sequence[Change], rejected: list[RejectedChange]) -> int:
    table, row, _ = changes[0]
    if table.columns.ops[row] == TRUNCATE:
        truncate(connection, [table.target.statements.table for table, _, _ in changes])
        return 0
    return _apply_one(connection, table, row, rejected)


def _apply_one(connection: Connection, table: Table, row: int, rejected: list[RejectedChange]) -> int:
    columns, statements, places = table.columns, table.target.statements, table.target.places
    keys = table.target.keys
    if columns.ops[row] == DELETE:
        run(connection, statements.delete_one, *_texts(columns.old, row, keys, table.target))
        return 0
    values = _texts(columns.new, row, places, table.target)
    if columns.unsent[row, list(places)].any():
        if not _update_one(connection, table, row, values):
            rejected.append(table.taken.batch.refused(row, _incomplete(table.target)))
        return sum(map(len, filter(None, values)))
    if columns.moved[row]:
        run(connection, statements.delete_one, *_texts(columns.old, row, keys, table.target))
    run(connection, statements.upsert_one, *values)
    return sum(map(len, filter(None, values)))


def _update_one(connection: Connection, table: Table, row: int, values: list[str | None]) -> bool:
    """Whether the target has the row. One that has moved already, before a rewind, is at its new key."""
    columns, statements = table.columns, table.target.statements
    sent = [at for at, place in enumerate(table.target.places) if not columns.unsent[row, place]]
    is_set = [at for at in sent if at not in statements.keys]
    there = _texts(columns.new, row, table.target.keys, table.target)
    if columns.moved[row]:
        before = _texts(columns.old, row, table.target.keys, table.target)
        if affected(connection, statements.update_one(()), *before):
            run(connection, statements.delete_one, *there)
            return affected(connection, statements.update_one(sent), *before, *(values[at] for at in sent)) > 0
    return affected(connection, statements.update_one(is_set), *there, *(values[at] for at in is_set)) > 0


def _texts(arrays: Sequence[pa.Array], row: int, places: Sequence[int], target: Target) -> list[str | None]:
    try:
        values = [arrays[place][row].as_py() for place in places]
        return [None if value is None else value.decode() for value in values]
    except UnicodeDecodeError:
        raise RecordError(
            f"a value for {target.statements.table} that is not UTF-8",
            code="VALUE_NOT_UTF8",
            remedy="The database is SQL_ASCII, or holds text that is not of its encoding: mend it at the source.",
        ) from None


def _refused(target: Target, sqlstate: str) -> RecordError:
    return RecordError(
        f"{target.statements.table} does not take a row: SQLSTATE {sqlstate}",
        code="SINK_PG_ROW_REFUSED",
        remedy="A type, a length or a constraint of the target is narrower than the source's: widen it, then replay.",
    )


def _incomplete(target: Target) -> RecordError:
    return RecordError(
        f"an update of a row that {target.statements.table} does not have, without all of its values",
        code="SINK_PG_ROW_INCOMPLETE",
        remedy="The row was there before the lane began. Take a snapshot of the table, or set REPLICA IDENTITY FULL.",
    )


def _without_key(target: Target) -> StreamError:
    return StreamError(
        f"{target.statements.table} has no primary key by which to find a row that is updated or deleted",
        code="SINK_PG_KEY_MISSING",
        remedy="Give the target table a primary key, then resume the lane, which goes on at its cursor.",
    )
