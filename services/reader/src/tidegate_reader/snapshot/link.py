"""One connection that reads rows: a transaction at a time, COPY as libpq gives it, nothing decoded.

Invariant: rows are handed on as they came, a few KiB at a time, so that memory holds no more than what a reader of them
takes; and the socket is read only when they are asked for, so that the server waits with us.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Generator
from typing import TYPE_CHECKING, TypeVar

from psycopg import OperationalError, pq
from psycopg.pq.abc import PGconn, PGresult
from psycopg.waiting import Ready, Wait

from tidegate.errors import TransientError
from tidegate_reader.snapshot.refusals import refused_reading
from tidegate_reader.sources.postgres_wal import conversation
from tidegate_reader.sources.postgres_wal.failures import link_broken
from tidegate_reader.sources.postgres_wal.session import reading_conninfo
from tidegate_reader.sources.postgres_wal.stream import connect, ready

if TYPE_CHECKING:
    from tidegate.config.source import PostgresSource

T = TypeVar("T")
Rows = list[tuple[str | None, ...]]

CONNECT_SECONDS = 15.0
COMMAND_SECONDS = 60.0
ROW_SECONDS = 600.0
"""Until the first row of what is asked for: a filter may pass over much."""
_NEVER_IDLE_OUT = (
    "SELECT set_config(name, '0', false) FROM pg_settings WHERE name IN ('idle_session_timeout', 'transaction_timeout')"
)
_NAP_SECONDS = 0.001
"""The server sends 8 KiB at a time, which cost less to take than to wake up for: more of them arrive meanwhile."""
_ENDED = -1


class ReadingLink:
    def __init__(self, pgconn: PGconn) -> None:
        self._pgconn = pgconn
        self._loop = asyncio.get_running_loop()
        self.about = "a table of a snapshot"
        """What is read, as refusals call it."""

    @classmethod
    async def open(cls, source: PostgresSource, application: str) -> ReadingLink:
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                link = cls(await connect(reading_conninfo(source, application)))
                await link.execute(_NEVER_IDLE_OUT)
                return link
        except TimeoutError:
            raise TransientError(
                "PostgreSQL did not answer the connection in time",
                code="SOURCE_UNREACHABLE",
                remedy="Check address, firewall and load of the server; the reader tries again.",
            ) from None

    async def execute(self, command: str) -> Rows:
        """One statement, or several that give no rows."""
        return await self._drive(_execute(self._pgconn, command, self.about), COMMAND_SECONDS)

    async def copy(self, query: str) -> AsyncIterator[list[bytes]]:
        """The rows of `COPY … TO STDOUT`, each with its line end, as many at a time as have arrived."""
        command = f"COPY ({query}) TO STDOUT"
        await self._drive(_start_copy(self._pgconn, command, self.about), COMMAND_SECONDS)
        while True:
            rows, is_over = _drain(self._pgconn)
            if rows:
                yield rows
            if is_over:
                await self._drive(_end_copy(self._pgconn, self.about), COMMAND_SECONDS)
                return
            if not rows:
                await self._drive(_readable(), ROW_SECONDS)
                await asyncio.sleep(_NAP_SECONDS)

    def close(self) -> None:
        self._pgconn.finish()

    async def _drive(self, generator: Generator[Wait, Ready, T], timeout_seconds: float) -> T:
        try:
            async with asyncio.timeout(timeout_seconds):
                wait = next(generator)
                while True:
                    wait = generator.send(await ready(self._loop, self._pgconn.socket, wait))
        except StopIteration as stop:
            result: T = stop.value
            return result
        except OperationalError as error:
            raise link_broken() from error
        except TimeoutError:
            raise TransientError(
                "PostgreSQL did not answer a reader of rows in time", code="SOURCE_TIMEOUT", remedy="It is tried again."
            ) from None


def _execute(pgconn: PGconn, command: str, about: str) -> Generator[Wait, Ready, Rows]:
    results = yield from conversation.ask(pgconn, command)
    for result in results:
        _check(result, about, pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK)
    return [row for result in results for row in conversation.rows_of(result)]


def _start_copy(pgconn: PGconn, command: str, about: str) -> Generator[Wait, Ready, None]:
    pgconn.send_query(command.encode())
    yield from conversation.flush(pgconn, Wait.RW)
    while pgconn.is_busy():
        yield Wait.R
        pgconn.consume_input()
    result = pgconn.get_result()
    if result is None:
        raise link_broken()
    _check(result, about, pq.ExecStatus.COPY_OUT)


def _drain(pgconn: PGconn) -> tuple[list[bytes], bool]:
    """What has arrived, and whether that was all. Copied out at once, for the reason that the stream's rows are."""
    rows: list[bytes] = []
    get, append = pgconn.get_copy_data, rows.append
    try:
        pgconn.consume_input()
        while True:
            length, data = get(1)
            if length > 0:
                append(data.tobytes())
            else:
                return rows, length == _ENDED
    except OperationalError as error:
        raise link_broken() from error


def _end_copy(pgconn: PGconn, about: str) -> Generator[Wait, Ready, None]:
    while True:
        while pgconn.is_busy():
            yield Wait.R
            pgconn.consume_input()
        result = pgconn.get_result()
        if result is None:
            return
        _check(result, about, pq.ExecStatus.COMMAND_OK)


def _readable() -> Generator[Wait, Ready, None]:
    yield Wait.R


def _check(result: PGresult, about: str, *wanted: pq.ExecStatus) -> None:
    if result.status in wanted:
        return
    state = result.error_field(pq.DiagnosticField.SQLSTATE) or b"?????"
    function = result.error_field(pq.DiagnosticField.SOURCE_FUNCTION) or b""
    raise refused_reading(state.decode(), function.decode(), about)
