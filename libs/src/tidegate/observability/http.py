"""GET /healthz, /readyz and /metrics, and nothing else: a probe's server without a framework.

Invariant: a request costs at most 8 KiB and five seconds, connections are bounded, and no answer depends on what a
client sends beyond its path. /healthz is answered to everybody: others who ask too much are no reason to start anew.
"""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from http import HTTPStatus

from tidegate.errors import ConfigError
from tidegate.observability.health import Health
from tidegate.observability.metrics import CONTENT_TYPE

MAX_REQUEST_BYTES = 8 * 1024
TIMEOUT_SECONDS = 5.0
MAX_CONNECTIONS = 32

_JSON = "application/json"


@dataclass(frozen=True, slots=True)
class _Answer:
    status: HTTPStatus
    body: str
    content_type: str = _JSON


@dataclass(slots=True)
class _Server:
    health: Health
    exposition: Callable[[], str]
    connections: int = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                await self._converse(reader, writer)
        except (TimeoutError, ConnectionError, asyncio.IncompleteReadError):
            pass  # The client left or is not worth waiting for; there is nothing to tell it.
        finally:
            self.connections -= 1
            writer.close()

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            request = await reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            answer, has_body = _refusal(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE), True
        else:
            method, _, rest = request.partition(b" ")
            path = rest.split(b" ", 1)[0].split(b"?", 1)[0]
            answer, has_body = self._answer(method, path), method != b"HEAD"
        writer.write(_encoded(answer, has_body=has_body))
        await writer.drain()

    def _answer(self, method: bytes, path: bytes) -> _Answer:
        if self.connections > MAX_CONNECTIONS and path != b"/healthz":
            return _refusal(HTTPStatus.SERVICE_UNAVAILABLE)
        if method not in (b"GET", b"HEAD"):
            return _refusal(HTTPStatus.METHOD_NOT_ALLOWED)
        match path:
            case b"/healthz":
                return _Answer(HTTPStatus.OK, json.dumps({"state": "up"}))
            case b"/readyz":
                status = HTTPStatus.OK if self.health.is_ready else HTTPStatus.SERVICE_UNAVAILABLE
                return _Answer(status, json.dumps(self.health.report()))
            case b"/metrics":
                return _Answer(HTTPStatus.OK, self.exposition(), CONTENT_TYPE)
            case _:
                return _refusal(HTTPStatus.NOT_FOUND)


@asynccontextmanager
async def serving(
    host: str, port: int, health: Health, exposition: Callable[[], str]
) -> AsyncIterator[tuple[str, int]]:
    """Gives the address that is bound; port 0 takes a free one."""
    handler = _Server(health, exposition)
    try:
        server = await asyncio.start_server(handler.serve, host, port, limit=MAX_REQUEST_BYTES)
    except OSError as error:
        raise ConfigError(
            f"{host}:{port} cannot be listened on ({error.strerror})",
            code="HTTP_ADDRESS",
            remedy="Free the port, or set another http address for this service.",
        ) from error
    try:
        bound = server.sockets[0].getsockname()
        yield bound[0], bound[1]
    finally:
        server.close()


@contextmanager
def serving_in_thread(host: str, port: int, health: Health, exposition: Callable[[], str]) -> Iterator[tuple[str, int]]:
    """For a service whose main thread belongs to somebody else, as a Spark driver's does."""
    loop = asyncio.new_event_loop()
    context = serving(host, port, health, exposition)
    address = loop.run_until_complete(context.__aenter__())
    thread = threading.Thread(target=loop.run_forever, name="http", daemon=True)
    thread.start()
    try:
        yield address
    finally:
        asyncio.run_coroutine_threadsafe(context.__aexit__(None, None, None), loop).result(TIMEOUT_SECONDS)
        asyncio.run_coroutine_threadsafe(_end_connections(), loop).result(TIMEOUT_SECONDS)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(TIMEOUT_SECONDS)
        loop.close()


async def _end_connections() -> None:
    others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


def _refusal(status: HTTPStatus) -> _Answer:
    return _Answer(status, json.dumps({"error": status.phrase}))


def _encoded(answer: _Answer, *, has_body: bool) -> bytes:
    body = answer.body.encode()
    head = (
        f"HTTP/1.1 {answer.status.value} {answer.status.phrase}\r\n"
        f"Content-Type: {answer.content_type}\r\nContent-Length: {len(body)}\r\n"
        "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + (body if has_body else b"")
