"""A connection to the pipeline's database for one request, and what its refusals mean to whoever asked.

Invariant: reading cannot write, no statement outlives its deadline, at most `AT_ONCE` connections are open, and no
message of the server is passed on: it may quote values.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any

import psycopg
from psycopg import errors

from tidegate.config.source import PostgresSource
from tidegate.errors import ConfigError, TidegateError, TransientError
from tidegate_admin.errors import ApiError
from tidegate_admin.slots.service import connection_arguments

AT_ONCE = 4
IDLE_SECONDS = 30.0
SECONDS = 5.0
Session = psycopg.AsyncConnection[Any]

_CONFLICTS: dict[type[psycopg.Error], tuple[HTTPStatus, str, str, str]] = {
    errors.ObjectInUse: (
        HTTPStatus.CONFLICT,
        "SLOT_ACTIVE",
        "somebody holds this slot",
        "Stop its reader first; a slot in use is never touched.",
    ),
    errors.UndefinedObject: (
        HTTPStatus.NOT_FOUND,
        "SOURCE_UNKNOWN",
        "the source has nothing of this name",
        "Look at what is there: names are written as the catalogue has them.",
    ),
    errors.DuplicateObject: (
        HTTPStatus.CONFLICT,
        "SOURCE_EXISTS",
        "it is there already",
        "Look at what is there.",
    ),
    errors.InsufficientPrivilege: (
        HTTPStatus.CONFLICT,
        "SOURCE_FORBIDS",
        "the pipeline's role may not do this",
        "Let the owner of the table or publication do it, or GRANT the role what it needs.",
    ),
    errors.ConfigurationLimitExceeded: (
        HTTPStatus.CONFLICT,
        "SLOTS_FULL",
        "the server has no slot left",
        "Drop a slot that nobody needs, or raise max_replication_slots.",
    ),
    errors.ObjectNotInPrerequisiteState: (
        HTTPStatus.CONFLICT,
        "SOURCE_STATE",
        "the server refuses this in its present state",
        "Check wal_level = logical, that the server is no standby, and that the slot still has its WAL.",
    ),
}
_SAME: dict[type[psycopg.Error], type[psycopg.Error]] = {
    errors.UndefinedTable: errors.UndefinedObject,
    errors.InvalidSchemaName: errors.UndefinedObject,
    errors.WrongObjectType: errors.ObjectNotInPrerequisiteState,
    errors.InvalidParameterValue: errors.ObjectNotInPrerequisiteState,
    errors.FeatureNotSupported: errors.ObjectNotInPrerequisiteState,
    errors.ReadOnlySqlTransaction: errors.ObjectNotInPrerequisiteState,
}


class Sessions:
    def __init__(self, source: PostgresSource) -> None:
        self._source = source
        self._room = asyncio.Semaphore(AT_ONCE)
        self._idle: tuple[Session, float] | None = None

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[Session]:
        """One that reads is kept for the next question for a while: connecting costs more than asking."""
        idle, self._idle = self._idle, None
        if idle is not None and (idle[0].closed or time.monotonic() - idle[1] > IDLE_SECONDS):
            await idle[0].close()
            idle = None
        async with self._open(connection_arguments(self._source), idle[0] if idle else None) as session:
            yield session

    async def close(self) -> None:
        idle, self._idle = self._idle, None
        if idle is not None:
            await idle[0].close()

    @asynccontextmanager
    async def changing(self) -> AsyncIterator[Session]:
        arguments = connection_arguments(self._source)
        arguments["options"] = f"-c statement_timeout={SECONDS * 1000:.0f} -c lock_timeout=2000"
        async with self._open(arguments) as session:
            yield session

    @asynccontextmanager
    async def _open(self, arguments: dict[str, Any], kept: Session | None = None) -> AsyncIterator[Session]:
        is_reading = "default_transaction_read_only" in arguments["options"]
        try:
            async with asyncio.timeout(SECONDS), self._room:
                session = kept or await psycopg.AsyncConnection.connect(**arguments)
                try:
                    yield session
                except BaseException:
                    await session.close()
                    raise
                if is_reading and self._idle is None:
                    self._idle = (session, time.monotonic())
                else:
                    await session.close()
        except psycopg.Error as error:
            raise _meaning(error) from error
        except (OSError, TimeoutError, ConfigError) as error:
            raise _unavailable(type(error).__name__) from error


def _meaning(error: psycopg.Error) -> TidegateError:
    kind = _SAME.get(type(error), type(error))
    if kind in _CONFLICTS:
        status, code, message, remedy = _CONFLICTS[kind]
        return ApiError(status, message, code=code, remedy=remedy)
    return _unavailable(f"{type(error).__name__} {error.sqlstate or ''}".strip())


def _unavailable(cause: str) -> TransientError:
    return TransientError(
        f"PostgreSQL did not answer: {cause}",
        code="SOURCE_UNAVAILABLE",
        remedy="Check that the server is up and that the role may connect; delivery does not depend on this.",
    )
