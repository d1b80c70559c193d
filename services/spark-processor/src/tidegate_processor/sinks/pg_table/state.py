"""The lane's place in the target: one row, written in the transaction of the rows that stand before it.

    sink_state (pipeline, sink, fence, cursor, updated_at)

Invariant: `fence` grows with each opening, and a transaction begins by locking the row and comparing it: who was
overtaken finds another number, and who is inside holds the one who comes off until it has ended.
"""
# ruff: noqa: S608 - only the quoted name of the table is put in; what is asked for are parameters.

from tidegate.config.pipeline import PipelineConfig
from tidegate.config.sinks import SinkConfig
from tidegate.contracts.cursor import Cursor, decode_cursor
from tidegate.errors import TransientError
from tidegate.quoting import qualified
from tidegate_processor.sinks.shared.pg_connection import Connection
from tidegate_processor.sinks.shared.postgres import make_schema, run

_TABLE = "sink_state"
_COLUMNS = """(
    pipeline text NOT NULL,
    sink text NOT NULL,
    fence bigint NOT NULL,
    cursor text,
    updated_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (pipeline, sink)
)"""


class SinkState:
    def __init__(self, connection: Connection, schema: str, config: PipelineConfig, sink: SinkConfig) -> None:
        self._connection, self._schema = connection, schema
        self._table = qualified(schema, _TABLE)
        self._who = config.pipeline, sink.name
        self._fence = 0

    @property
    def exists(self) -> bool:
        ((found,),) = run(self._connection, "SELECT to_regclass($1::text)", self._table)
        return found is not None

    def make(self) -> None:
        """Where it is there already, the role needs no right to make it."""
        if self.exists:
            return
        make_schema(self._connection, self._schema)
        run(self._connection, f"CREATE TABLE IF NOT EXISTS {self._table} {_COLUMNS}")

    def look(self) -> Cursor | None:
        if not self.exists:
            return None
        rows = run(self._connection, f"SELECT cursor FROM {self._table} WHERE pipeline = $1 AND sink = $2", *self._who)
        return _cursor(rows[0][0]) if rows else None

    def take_over(self) -> Cursor | None:
        ((self._fence, cursor),) = run(
            self._connection,
            f"INSERT INTO {self._table} AS s (pipeline, sink, fence) VALUES ($1, $2, 1) "
            "ON CONFLICT (pipeline, sink) DO UPDATE SET fence = s.fence + 1 RETURNING fence, cursor",
            *self._who,
        )
        return _cursor(cursor)

    def enter(self) -> None:
        """In a transaction that has just begun."""
        found = run(
            self._connection,
            f"SELECT fence FROM {self._table} WHERE pipeline = $1 AND sink = $2 FOR NO KEY UPDATE",
            *self._who,
        )
        if found != [(self._fence,)]:
            raise TransientError(
                "a newer writer has taken the target over",
                code="SINK_FENCED",
                remedy="Nothing: the newer one goes on from the committed cursor.",
            )

    def put(self, cursor: Cursor) -> None:
        run(
            self._connection,
            f"UPDATE {self._table} SET cursor = $3, updated_at = now() WHERE pipeline = $1 AND sink = $2",
            *self._who,
            cursor.encode(),
        )


def _cursor(text: str | None) -> Cursor | None:
    return decode_cursor(text) if text else None
