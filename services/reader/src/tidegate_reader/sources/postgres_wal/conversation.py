"""The replication conversation as plain generators over libpq: they yield what they wait for and never wait.

connect → execute (IDENTIFY_SYSTEM, CREATE_REPLICATION_SLOT) → start (CopyBoth) → drain … send_status … → end

Invariant: `drain` is called until it has nothing left before anybody waits for the socket, because one `consume_input`
reads no more than the free part of libpq's buffer (about 16 KiB).
"""

from collections.abc import Generator, Sequence
from typing import TypeVar

from psycopg import OperationalError, pq
from psycopg.pq.abc import PGconn, PGresult
from psycopg.waiting import Ready, Wait

from tidegate.errors import TidegateError
from tidegate_reader.sources.postgres_wal.failures import STREAM, link_broken, refused_command, refused_connection

T = TypeVar("T")
Conversation = Generator[Wait, Ready, T]
Connecting = Generator[tuple[int, Wait], Ready, T]
"""While connecting, libpq may change the socket: the file descriptor comes with each wait."""

_ENDED = -1
_COPIED_BYTES = 16_384
"""A small message is copied out of libpq's buffer at once: the buffer is used again while it is warm, and the collector
has no views to walk through (a sixth of the reader's CPU)."""


def connect(conninfo: str) -> Connecting[PGconn]:
    pgconn = pq.PGconn.connect_start(conninfo.encode())
    while True:
        if pgconn.status == pq.ConnStatus.BAD:
            raise _connection_refused(pgconn)
        status = pgconn.connect_poll()
        if status == pq.PollingStatus.OK:
            pgconn.nonblocking = 1
            return pgconn
        if status == pq.PollingStatus.FAILED:
            raise _connection_refused(pgconn)
        yield pgconn.socket, Wait.R if status == pq.PollingStatus.READING else Wait.W


def execute(pgconn: PGconn, command: str) -> Conversation[list[tuple[str | None, ...]]]:
    """The rows of the answer, as text."""
    results = yield from ask(pgconn, command)
    for result in results:
        if result.status not in (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK):
            raise _command_refused(command.split()[0], result)
    return [row for result in results for row in rows_of(result)]


def start(pgconn: PGconn, command: str) -> Conversation[None]:
    """START_REPLICATION: from here on the slot is ours and both sides may send."""
    results = yield from ask(pgconn, command)
    if results[-1].status != pq.ExecStatus.COPY_BOTH:
        raise _command_refused(command.split()[0], results[-1])


def drain(pgconn: PGconn) -> list[bytes | memoryview]:
    """What has arrived, without waiting; empty when there is nothing more to read for now."""
    messages: list[bytes | memoryview] = []
    get, append = pgconn.get_copy_data, messages.append
    try:
        pgconn.consume_input()
        while True:
            length, data = get(1)
            if length > 0:
                append(data.tobytes() if length < _COPIED_BYTES else data)
            elif length == _ENDED:
                raise _ended(pgconn)
            else:
                return messages
    except OperationalError as error:
        raise link_broken() from error


def send_status(pgconn: PGconn, status: bytes) -> Conversation[None]:
    """A return of 0 means that nothing was queued: wait for writable and offer it again, never spin."""
    try:
        while pgconn.put_copy_data(status) == 0:
            yield Wait.W
        yield from flush(pgconn, Wait.W)
    except OperationalError as error:
        raise link_broken() from error


def end(pgconn: PGconn) -> Conversation[None]:
    """Our CopyDone; the server lets the slot go when it has read it."""
    try:
        while pgconn.put_copy_end() == 0:
            yield Wait.W
        yield from flush(pgconn, Wait.W)
    except OperationalError as error:
        raise link_broken() from error


def ask(pgconn: PGconn, command: str) -> Conversation[Sequence[PGresult]]:
    results: list[PGresult] = []
    try:
        pgconn.send_query(command.encode())
        yield from flush(pgconn, Wait.RW)
        while True:
            while pgconn.is_busy():
                yield Wait.R
                pgconn.consume_input()
            result = pgconn.get_result()
            if result is None:
                break
            results.append(result)
            if result.status == pq.ExecStatus.COPY_BOTH:
                break
    except OperationalError as error:
        raise link_broken() from error
    if not results:
        raise link_broken()
    return results


def flush(pgconn: PGconn, wait: Wait) -> Conversation[None]:
    while pgconn.flush() != 0:
        ready = yield wait
        if ready & Ready.R:
            pgconn.consume_input()


def rows_of(result: PGresult) -> list[tuple[str | None, ...]]:
    return [
        tuple(_text(result.get_value(row, column)) for column in range(result.nfields)) for row in range(result.ntuples)
    ]


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode()


def _connection_refused(pgconn: PGconn) -> TidegateError:
    return refused_connection(pgconn.error_message.decode(errors="replace"))


def _command_refused(command: str, result: PGresult) -> TidegateError:
    state = result.error_field(pq.DiagnosticField.SQLSTATE)
    text = result.error_field(pq.DiagnosticField.MESSAGE_PRIMARY) or b""
    return refused_command(command, state.decode() if state else None, text.decode(errors="replace"))


def _ended(pgconn: PGconn) -> TidegateError:
    """The server ended the stream; the result behind it says why."""
    result = pgconn.get_result()
    if result is not None and result.status == pq.ExecStatus.FATAL_ERROR:
        return _command_refused(STREAM, result)
    return link_broken()
