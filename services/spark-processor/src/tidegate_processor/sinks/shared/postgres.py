"""Connections to a PostgreSQL that is written to, and what its refusals mean.

| SQLSTATE | kind |
| --- | --- |
| 22…, 23…, 21000: a value that the target does not take | in a savepoint `RefusedValueError`; at a commit StreamError |
| 28…, 3D…, 42501: login, database, right | TransientError: it is for a person, and the lane comes again |
| 08…, 25…, 40…, 53…, 57…, 58…, 55P03, and what was made or removed under us | TransientError |
| anything else | StreamError: as often as it is asked, the server would refuse it |

Invariant: a server's message may quote rows, so none is passed on: only SQLSTATE and what we were doing.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import psycopg
from psycopg import RawCursor
from psycopg.conninfo import make_conninfo

from tidegate.config.secret import Secret
from tidegate.config.source import SourceTls, dsn_fields
from tidegate.errors import RecordError, StreamError, TidegateError, TransientError
from tidegate.quoting import identifier
from tidegate_processor.sinks.shared.pg_connection import CONNECT_SECONDS, Connection

COMMIT = "commit"

# Whoever comes next waits for a holder that stands still inside a transaction for at most this long.
_STANDSTILL_MS = 10_000
_PINS: Mapping[str, str] = {
    "DateStyle": "ISO",
    "IntervalStyle": "postgres",
    "extra_float_digits": "3",
    "TimeZone": "UTC",
    "bytea_output": "hex",
    # Nothing of ours is looked up by a name that somebody else could take.
    "search_path": "pg_catalog",
    # A policy that hides rows would make a delete find nothing: an error instead.
    "row_security": "off",
    "standard_conforming_strings": "on",
    "default_transaction_isolation": "read\\ committed",
    "default_transaction_read_only": "off",
    # Said before a lane that waits for it is taken for a silent one.
    "lock_timeout": str(_STANDSTILL_MS + 2_000),
    "statement_timeout": "0",
    "idle_in_transaction_session_timeout": str(_STANDSTILL_MS),
    "idle_session_timeout": "0",
}
# What is acked has to survive a crash of the server, whatever role or database say.
_DURABLE = b"SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"
# Else a statement goes on for hours whose client is dead, and holds the row that the next one has to lock. Since 14.
_NOTICES_OUR_END = b"""
    SELECT set_config(name, '2s', false) FROM pg_settings WHERE name = 'client_connection_check_interval'
"""
_VALUE_CLASSES = ("22", "23")
_ON_CONFLICT_TWICE = "21000"
_NOT_IN_REPERTOIRE = "22021"
_DENIED = ("28", "3D")
_NO_RIGHT = "42501"
_AWAY = ("08", "40", "53", "57", "25", "58")
# A lock; a table, column or schema that was there or was not there a moment ago.
_BUSY_OR_CHANGED = ("55P03", "42P01", "42703", "3F000", "42P07", "42701", "42P06", "42710")


class RefusedValueError(Exception):
    """The target does not take a value; which row it is in is not known here."""

    def __init__(self, sqlstate: str) -> None:
        super().__init__(sqlstate)
        self.sqlstate = sqlstate


def connect(dsn: str, password: Secret | None, tls: SourceTls, application: str) -> Connection:
    fields = dsn_fields(dsn) or {}
    files = {"sslrootcert": tls.ca, "sslcert": tls.cert, "sslkey": tls.key}
    conninfo = make_conninfo(
        host=fields["host"],
        port=fields.get("port", 5432),
        dbname=fields["database"],
        user=fields["user"],
        password=password.reveal() if password else None,
        application_name=application,
        client_encoding="UTF8",
        sslmode=tls.mode.value,
        connect_timeout=CONNECT_SECONDS,
        keepalives_idle=10,
        keepalives_interval=5,
        keepalives_count=3,
        tcp_user_timeout=30_000,
        options=" ".join(f"-c {name}={value}" for name, value in _PINS.items()),
        **{name: value for name, value in files.items() if value},
    )
    with mapped("connect"):
        connection = Connection.connect(conninfo, autocommit=True, cursor_factory=RawCursor)
        connection.way = conninfo
        connection.execute(_DURABLE)
        with suppress(psycopg.DatabaseError):  # not every system can tell, and not every pooler takes it
            connection.execute(_NOTICES_OUR_END)
    return connection


def run(connection: Connection, statement: str, *parameters: object) -> list[tuple[Any, ...]]:
    """One statement; `$1` and on are its parameters, as text whose type the server infers."""
    cursor = connection.execute(statement.encode(), parameters or None)
    return cursor.fetchall() if cursor.description else []


def affected(connection: Connection, statement: str, *parameters: object) -> int:
    return connection.execute(statement.encode(), parameters or None).rowcount


def copy_in(connection: Connection, statement: str, text: bytes) -> None:
    with connection.cursor() as cursor, cursor.copy(statement.encode()) as copy:
        copy.write(text)


def truncate(connection: Connection, tables: Sequence[str]) -> None:
    """In a savepoint. Together, for they may refer to each other; one that others refer to as well is not truncated."""
    try:
        run(connection, f"TRUNCATE {', '.join(tables)}")
    except psycopg.errors.FeatureNotSupported as error:
        raise RefusedValueError(error.sqlstate or "") from None


def altered(connection: Connection, statement: str) -> str | None:
    """The SQLSTATE, if the server refuses it for what is there. It looks at every row: for minutes, where there are
    many."""
    try:
        run(connection, statement)
    except psycopg.Error as error:
        failure = refused(error, "alter a table")
        if isinstance(failure, TransientError):
            raise failure from None
        return error.sqlstate or type(error).__name__
    return None


def make_schema(connection: Connection, name: str) -> None:
    """Where it is there, the role needs no right to make one: IF NOT EXISTS asks for the right first."""
    if not run(connection, "SELECT 1 FROM pg_namespace WHERE nspname = $1", name):
        run(connection, f"CREATE SCHEMA IF NOT EXISTS {identifier(name)}")


@contextmanager
def mapped(doing: str) -> Iterator[None]:
    try:
        yield
    except psycopg.Error as error:
        failure = refused(error, doing)
        if not isinstance(failure, RefusedValueError):
            raise failure from None  # the cause quotes what the server said
        if doing == COMMIT:
            raise _refused_for_good(_told(failure.sqlstate, doing)) from None
        raise _unavailable(_told(failure.sqlstate, doing)) from None


@contextmanager
def savepoint(connection: Connection, doing: str) -> Iterator[None]:
    """What a value that is refused leaves behind is undone, and the transaction goes on."""
    run(connection, "SAVEPOINT tidegate")
    try:
        yield
    except psycopg.Error as error:
        failure = refused(error, doing)
        if isinstance(failure, RefusedValueError):
            _undo(connection)
        raise failure from None
    except (RecordError, RefusedValueError):
        _undo(connection)
        raise
    run(connection, "RELEASE SAVEPOINT tidegate")


def _undo(connection: Connection) -> None:
    run(connection, "ROLLBACK TO SAVEPOINT tidegate")
    run(connection, "RELEASE SAVEPOINT tidegate")


def refused(error: psycopg.Error, doing: str) -> TidegateError | RefusedValueError:
    state = error.sqlstate or ""
    told = _told(state or type(error).__name__, doing)
    if state[:2] in _VALUE_CLASSES or state == _ON_CONFLICT_TWICE:
        return RefusedValueError(state)
    if not state and isinstance(error, psycopg.DataError):  # the client's own refusal, of a NUL
        return RefusedValueError(_NOT_IN_REPERTOIRE)
    if state[:2] in _DENIED or state == _NO_RIGHT or _names_login(error):
        return TransientError(
            told,
            code="SINK_PG_DENIED",
            remedy="Give the role its rights (see the sink's README), or mend user, password, database or pg_hba.conf; "
            "the lane comes again by itself.",
        )
    if not state or state[:2] in _AWAY or state in _BUSY_OR_CHANGED:
        return _unavailable(told)
    return _refused_for_good(told)


def _told(state: str, doing: str) -> str:
    return f"PostgreSQL did not let the sink {doing}: {state}"


def _unavailable(told: str) -> TransientError:
    return TransientError(
        told,
        code="SINK_PG_UNAVAILABLE",
        remedy="Check the target server, and who holds locks on its tables; the lane restarts at its cursor.",
    )


def _refused_for_good(told: str) -> StreamError:
    return StreamError(
        told,
        code="SINK_PG_REFUSED",
        remedy="No retry heals this: look the SQLSTATE up in the server's log, mend the target table, resume the lane.",
    )


def _names_login(error: psycopg.Error) -> bool:
    """libpq gives no SQLSTATE for a refused connection; the text is looked at and never passed on."""
    text = str(error)
    return any(part in text for part in ("authentication failed", "no password supplied", "pg_hba.conf"))
