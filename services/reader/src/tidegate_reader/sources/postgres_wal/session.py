"""How every connection to the source is made, and the second one, for questions beside the stream.

Invariant: what a value's text looks like never depends on the settings of role, database or server: the session pins
them, as PostgreSQL's own receiver does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, LiteralString, TypeAlias

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from tidegate.errors import TidegateError, TransientError
from tidegate_reader.cancellation import raise_if_cancelled
from tidegate_reader.process_identity import ProcessIdentity
from tidegate_reader.sources.postgres_wal.failures import refused_command, refused_connection

if TYPE_CHECKING:
    from tidegate.config.source import PostgresSource

Query: TypeAlias = LiteralString | sql.Composed

QUERY_SECONDS = 15.0
_TRIES_WHILE_DROPPED = 4
_PINS = {
    "DateStyle": "ISO",
    "IntervalStyle": "postgres",
    "extra_float_digits": "3",
    "TimeZone": "UTC",
    "bytea_output": "hex",
    "statement_timeout": "0",
    "lock_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
}


# Since 14 and 17. Between heartbeats the second connection is idle for as long as the interval is.
_TIMEOUTS = ("idle_session_timeout", "transaction_timeout")
_NEVER_IDLE_OUT = "SELECT set_config(name, '0', false) FROM pg_settings WHERE name = ANY(%s)"


def replication_conninfo(source: PostgresSource, application: str) -> str:
    """The name says which process it is, so that the next one can tell whether it is dead."""
    return _conninfo(source, f"{application} {ProcessIdentity.own()}", _PINS, replication="database")


def reading_conninfo(source: PostgresSource, application: str) -> str:
    """Where a policy hides rows, the server refuses to read: without this it would leave them out in silence."""
    return _conninfo(source, application, _PINS | {"row_security": "off"})


class SideConnection:
    """Autocommit, one query at a time; a connection that failed is not used again."""

    def __init__(self, connection: psycopg.AsyncConnection[tuple[Any, ...]]) -> None:
        self._connection = connection
        self._lock = asyncio.Lock()

    @classmethod
    async def open(cls, source: PostgresSource, application: str) -> SideConnection:
        try:
            async with asyncio.timeout(QUERY_SECONDS):
                connection = await psycopg.AsyncConnection.connect(
                    _conninfo(source, application, _PINS), autocommit=True
                )
                # Not in the startup packet: the versions that do not know one of them would refuse the connection.
                await connection.execute(_NEVER_IDLE_OUT, [list(_TIMEOUTS)])
                return cls(connection)
        except psycopg.OperationalError as error:
            raise refused_connection(str(error)) from error
        except TimeoutError:
            raise refused_connection("no answer in time") from None

    @property
    def backend_pid(self) -> int:
        """What the server said while connecting."""
        return self._connection.info.backend_pid

    async def fetch(
        self, query: Query, parameters: Sequence[object] | Mapping[str, object] = ()
    ) -> list[tuple[Any, ...]]:
        return await self._ask(query, parameters or None)

    async def run(self, statement: str) -> None:
        """One statement made of quoted identifiers (`quoting`), without parameters. A second one in it is refused."""
        await self._ask(sql.Composed([sql.SQL(statement)]), None, binary=True)

    async def _ask(
        self,
        query: Query,
        parameters: Sequence[object] | Mapping[str, object] | None,
        *,
        binary: bool = False,
    ) -> list[tuple[Any, ...]]:
        """Asking for binary results takes the extended protocol, which knows no second statement behind a semicolon."""
        try:
            async with self._lock, asyncio.timeout(QUERY_SECONDS):
                cursor = await self._executed(query, parameters, binary=binary)
                rows = await cursor.fetchall() if cursor.description else []
        except psycopg.Error as error:
            raise _failed(error) from error
        except TimeoutError:
            raise TransientError(
                "PostgreSQL did not answer a query in time", code="SOURCE_TIMEOUT", remedy="The reader tries again."
            ) from None
        raise_if_cancelled()
        return rows

    async def _executed(
        self, query: Query, parameters: Sequence[object] | Mapping[str, object] | None, *, binary: bool
    ) -> psycopg.AsyncCursor[Any]:
        """Views of the catalogue open what they list, and fail by it if somebody has dropped it in between."""
        for _ in range(_TRIES_WHILE_DROPPED):
            with suppress(psycopg.errors.InternalError_):
                return await self._connection.execute(query, parameters, binary=binary)
        return await self._connection.execute(query, parameters, binary=binary)

    async def value(self, query: LiteralString, parameters: Sequence[object] = ()) -> Any:
        return (await self.fetch(query, parameters))[0][0]

    async def close(self) -> None:
        await self._connection.close()


def _failed(error: psycopg.Error) -> TidegateError:
    return refused_command("a query", error.sqlstate, error.diag.message_primary or "")


def _conninfo(source: PostgresSource, application: str, pins: dict[str, str], **extra: str) -> str:
    tls = {"sslrootcert": source.tls.ca, "sslcert": source.tls.cert, "sslkey": source.tls.key}
    return make_conninfo(
        host=source.host,
        port=source.port,
        dbname=source.database,
        user=source.user,
        password=source.password.reveal() if source.password else None,
        application_name=application,
        client_encoding="UTF8",
        sslmode=source.tls.mode.value,
        connect_timeout=10,
        keepalives_idle=10,
        keepalives_interval=5,
        keepalives_count=3,
        tcp_user_timeout=30_000,
        options=" ".join(f"-c {name}={value}" for name, value in pins.items()),
        **{name: value for name, value in tls.items() if value},
        **extra,
    )
