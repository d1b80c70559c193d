"""Drives the replication conversation on the event loop: one socket, one reading task, one writing task.

Invariant: the socket is waited for only when libpq holds nothing unread. While it writes, libpq may read on its own, up
to the end of the stream, after which the socket is closed and would wake nobody: so every send wakes the reading task.
"""

import asyncio
import time
from collections.abc import Generator
from typing import TypeVar

from psycopg import OperationalError, pq
from psycopg.pq.abc import PGconn, PGresult
from psycopg.waiting import Ready, Wait

from tidegate.errors import TransientError
from tidegate_reader.sources.postgres_wal import conversation
from tidegate_reader.sources.postgres_wal.failures import link_broken, publication_missing

T = TypeVar("T")

CONNECT_SECONDS = 15.0
COMMAND_SECONDS = 60.0
"""Creating a slot waits for the transactions that are open."""
SEND_SECONDS = 10.0
WAL_SENDER_TIMEOUT_SECONDS = 60
_OLDEST_SESSION_TIMEOUT = 120_000


class ReplicationStream:
    def __init__(self, pgconn: PGconn) -> None:
        self._pgconn = pgconn
        self._loop = asyncio.get_running_loop()
        self._readable = asyncio.Event()
        self._publication_missing = False
        self.is_started = False
        self.last_heard = time.monotonic()
        """When the server last said anything."""
        pgconn.notice_handler = self._on_notice

    @classmethod
    async def connect(cls, conninfo: str) -> "ReplicationStream":
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                stream = cls(await connect(conninfo))
                await stream._pin_timeout()
                return stream
        except TimeoutError:
            raise TransientError(
                "PostgreSQL did not answer the connection in time",
                code="SOURCE_UNREACHABLE",
                remedy="Check address, firewall and load of the server; the reader tries again.",
            ) from None

    async def _pin_timeout(self) -> None:
        """Whatever the server's own is: 0 would never let go of a dead link. Before 12 a session may not set it."""
        if self._pgconn.server_version >= _OLDEST_SESSION_TIMEOUT:
            await self.execute(f"SET wal_sender_timeout = '{WAL_SENDER_TIMEOUT_SECONDS}s'")

    async def execute(self, command: str) -> list[tuple[str | None, ...]]:
        return await self._drive(conversation.execute(self._pgconn, command), COMMAND_SECONDS)

    async def start(self, command: str) -> None:
        await self._drive(conversation.start(self._pgconn, command), COMMAND_SECONDS)
        self.is_started = True

    def read(self) -> list[bytes | memoryview]:
        """What is there now. Empty: nothing more can be read before `readable`."""
        self._readable.clear()
        messages = conversation.drain(self._pgconn)
        if self._publication_missing:
            raise publication_missing()
        if messages:
            self.last_heard = time.monotonic()
        return messages

    async def readable(self, timeout_seconds: float) -> None:
        """Until there may be something to read, or the time is over."""
        # Registered only while somebody waits: the event loop would spin on a socket that nobody reads.
        fd = self._socket()
        self._loop.add_reader(fd, self._readable.set)
        timer = self._loop.call_later(timeout_seconds, self._readable.set)
        try:
            await self._readable.wait()
        finally:
            timer.cancel()
            self._loop.remove_reader(fd)

    def wake(self) -> None:
        self._readable.set()

    async def send(self, status: bytes) -> None:
        try:
            await self._drive(conversation.send_status(self._pgconn, status), SEND_SECONDS)
        finally:
            self.wake()

    async def end(self) -> None:
        await self._drive(conversation.end(self._pgconn), SEND_SECONDS)

    def adopt(self, other: "ReplicationStream") -> None:
        """Goes on with the other's link in place of its own, which is closed."""
        self._pgconn = other._pgconn
        self._pgconn.notice_handler = self._on_notice
        self.last_heard = other.last_heard

    def close(self) -> None:
        self._pgconn.finish()

    def _on_notice(self, result: PGresult) -> None:
        # PostgreSQL 18 and later only warn ("skipped loading publication") where 17 and earlier refuse.
        text = result.error_field(pq.DiagnosticField.MESSAGE_PRIMARY) or b""
        if b"publication" in text:
            self._publication_missing = True

    async def _drive(self, generator: Generator[Wait, Ready, T], timeout_seconds: float) -> T:
        try:
            async with asyncio.timeout(timeout_seconds):
                wait = next(generator)
                while True:
                    wait = generator.send(await ready(self._loop, self._socket(), wait))
        except StopIteration as stop:
            result: T = stop.value
            return result
        except TimeoutError:
            raise TransientError(
                "PostgreSQL did not take or answer a command in time",
                code="SOURCE_TIMEOUT",
                remedy="Creating a slot waits for open transactions: end them. Else check the link.",
            ) from None

    def _socket(self) -> int:
        try:
            return self._pgconn.socket
        except OperationalError as error:
            raise link_broken() from error


async def connect(conninfo: str) -> PGconn:
    loop = asyncio.get_running_loop()
    generator = conversation.connect(conninfo)
    try:
        fd, wait = next(generator)
        while True:
            fd, wait = generator.send(await ready(loop, fd, wait))
    except StopIteration as stop:
        pgconn: PGconn = stop.value
        return pgconn


async def ready(loop: asyncio.AbstractEventLoop, fd: int, wait: Wait) -> Ready:
    """Reader and writer registrations are apart, so the two tasks do not disturb each other."""
    future: asyncio.Future[Ready] = loop.create_future()

    def done(ready: Ready) -> None:
        if not future.done():
            future.set_result(ready)

    try:
        if wait & Wait.R:
            loop.add_reader(fd, done, Ready.R)
        if wait & Wait.W:
            loop.add_writer(fd, done, Ready.W)
        return await future
    finally:
        if wait & Wait.R:
            loop.remove_reader(fd)
        if wait & Wait.W:
            loop.remove_writer(fd)
