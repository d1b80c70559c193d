"""Rows into the target: staged by COPY, applied in bulk, committed with the cursor in one transaction.

    write    BEGIN, lock the lane's row → a savepoint a frame: COPY, DELETE, INSERT … ON CONFLICT, UPDATE for each table
             a value is refused or is no text → back to the savepoint, change by change: that one alone is rejected
    commit   dead letters durable → cursor → COMMIT

Invariant: rows and cursor are committed together or not at all, by the newest holder only.
"""

from collections.abc import Sequence

from tidegate.columns.refusals import RejectedChange
from tidegate.config.load import parse_options
from tidegate.config.pipeline import PipelineConfig
from tidegate.config.sinks import SinkConfig
from tidegate.contracts.cursor import Cursor
from tidegate.contracts.dead_letter import DeadLetter
from tidegate.contracts.frame import Frame, FrameKind
from tidegate.errors import RecordError, TransientError
from tidegate.position import Position
from tidegate_processor.sinks.base import Capabilities, Receipt
from tidegate_processor.sinks.pg_table.apply import Table, apply_in_bulk, apply_one_by_one
from tidegate_processor.sinks.pg_table.config import PgTableOptions
from tidegate_processor.sinks.pg_table.evolve import ShapeStep, step_of
from tidegate_processor.sinks.pg_table.place import connect_to_target, state_of
from tidegate_processor.sinks.pg_table.state import SinkState
from tidegate_processor.sinks.pg_table.targets import Targets
from tidegate_processor.sinks.shared.change_batches import ChangeBatches
from tidegate_processor.sinks.shared.dead_letter_topic import DeadLetterBox
from tidegate_processor.sinks.shared.pg_connection import Connection
from tidegate_processor.sinks.shared.postgres import COMMIT, RefusedValueError, mapped, run, savepoint
from tidegate_processor.speaking import Speak, nobody_listens


class PgTableSink:
    capabilities = Capabilities(exactly_once=True, deletes=True, truncates=True, keyed=True, follows=True)

    def __init__(self, config: PipelineConfig, sink: SinkConfig, speak: Speak = nobody_listens) -> None:
        self._config, self._sink, self._speak = config, sink, speak
        self._options = parse_options(sink, PgTableOptions)
        self._batches = ChangeBatches(config.pipeline, sink)
        self._letters = DeadLetterBox(config, sink.name)
        self._opened: tuple[Connection, SinkState, Targets] | None = None
        self._in_transaction = False
        self._rewound_from: Position | None = None

    def ping(self) -> None:
        connection = connect_to_target(self._config, self._sink)
        try:
            with mapped("ask the target"):
                run(connection, "SELECT 1")
        finally:
            connection.close()

    def open(self) -> Cursor | None:
        connection = connect_to_target(self._config, self._sink)
        connection.speak = self._speak
        state = state_of(connection, self._config, self._sink)
        self._opened = connection, state, Targets(connection, self._options, self._config.pipeline)
        with mapped("take the target over"):
            state.make()
            cursor = state.take_over()
        self._rewound_from = cursor.rewound_from if cursor else None
        return cursor

    def write(self, frame: Frame, after: Position) -> Receipt:
        if frame.header.kind is FrameKind.MARK:
            self._follow(step_of(frame, self._rewound_from))
            return Receipt(0, 0)
        taken = list(self._batches.of(frame, after))
        rejected = [letter for each in taken for letter in each.batch.rejected]
        with mapped("look at the target's tables"):
            lacks = self._open()[2].lacks
            taken = [each for each in taken if len(each.rows) and not lacks(each.batch.shape.relation)]
        if not taken:
            return Receipt(0, 0, tuple(rejected))
        connection, targets = self._entered()
        with mapped("look at the target's tables"):
            tables = [Table.of(each, targets.of(each.batch.shape)) for each in taken]
        before = len(rejected)
        written = self._apply(connection, tables, rejected)
        count = sum(len(each.rows) for each in taken) - (len(rejected) - before)
        newest = max(table.newest_commit_time for table in tables)
        return Receipt(count, written, tuple(rejected), newest)

    def _follow(self, step: ShapeStep) -> None:
        """The target as the source's table is from here on; one that is not there is made with its first row."""
        if not self._options.create or not step.changes:
            return
        with mapped("look at the target's tables"):
            is_there = self._open()[2].has(step.current)
        if is_there:
            _, targets = self._entered()
            with mapped("follow a change of a table"):
                targets.follow(step)

    def _apply(self, connection: Connection, tables: Sequence[Table], rejected: list[RejectedChange]) -> int:
        before = len(rejected)
        try:
            with savepoint(connection, "write"):
                return apply_in_bulk(connection, tables, rejected)
        except (RefusedValueError, RecordError):  # of one change, and which it is shows only by itself
            del rejected[before:]
        return apply_one_by_one(connection, tables, rejected)

    def write_dead_letters(self, letters: Sequence[DeadLetter]) -> None:
        self._letters.send(letters)

    def commit(self, cursor: Cursor) -> None:
        connection, _ = self._entered()
        self._letters.flush()
        with mapped(COMMIT):
            self._state.put(cursor)
            run(connection, "COMMIT")
        self._in_transaction = False

    def close(self) -> None:
        opened, self._opened = self._opened, None
        self._in_transaction = False
        self._letters.close()
        if opened is not None:
            opened[0].close()  # the server rolls back what is open

    @property
    def _state(self) -> SinkState:
        return self._open()[1]

    def _open(self) -> tuple[Connection, SinkState, Targets]:
        if self._opened is None:
            raise TransientError("the sink is closed", code="SINK_CLOSED")
        return self._opened

    def _entered(self) -> tuple[Connection, Targets]:
        connection, state, targets = self._open()
        if not self._in_transaction:
            with mapped("begin"):
                run(connection, "BEGIN")
                state.enter()
            self._in_transaction = True
        return connection, targets
